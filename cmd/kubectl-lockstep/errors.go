package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/why"
)

// The ClusterRoles with the rights to what a verb does. Those of Lockstep add the rights to TrainingJobs to Kubernetes' own roles
// edit and view.
const (
	roleExplain     = why.Role
	roleView        = "view"
	roleEdit        = "edit"
	roleHealthAdmin = "lockstep-health-admin"
)

// roleAnnotation of a verb names the ClusterRole that it needs. Default: roleExplain.
const roleAnnotation = "role"

// needs annotates a verb with the ClusterRole that it needs.
func needs(role string) map[string]string { return map[string]string{roleAnnotation: role} }

// explain says what to do about an error of a cluster. A role has the rights.
func explain(err error, role string) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%w. The ClusterRole %s has all rights that this verb needs: ask an administrator to bind it to you", err, role)
	}
	return translate(err)
}

// noConfig is the server that kubectl, too, asks where no kubeconfig names one.
const noConfig = "http://localhost:8080/"

// translate says why a cluster does not answer. It leaves an error for lack of rights as it is.
func translate(err error) error {
	var call *url.Error
	var missing *meta.NoKindMatchError
	switch {
	case errors.As(err, &missing):
		what := "Lockstep is not installed in this cluster"
		if missing.GroupKind.Group != v1alpha1.GroupVersion.Group {
			what = "Volcano is not installed in this cluster, or is too old"
		}
		return fmt.Errorf("%s: the API server does not serve %s/%s. `kubectl lockstep check` shows what is missing, and what to do",
			what, missing.GroupKind.Group, missing.GroupKind.Kind)
	case apierrors.IsUnauthorized(err):
		return errors.New("you must be logged in to the server: it does not accept the credentials. Log in again, or give another --context, --user or --token")
	case errors.As(err, &call) && strings.HasPrefix(call.URL, noConfig):
		return fmt.Errorf("unable to connect to the server: %w. No kubeconfig names a server (KUBECONFIG=%s): set KUBECONFIG to a file that does, "+
			"or give --kubeconfig or --server", call.Err, os.Getenv(clientcmd.RecommendedConfigPathEnvVar))
	case errors.As(err, &call):
		return fmt.Errorf("unable to connect to the server: %w", call.Err)
	}
	return err
}
