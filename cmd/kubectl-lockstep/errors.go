package main

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
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

// explainErrors has a verb, and those below it, say what to do about an error of a cluster.
func explainErrors(c *cobra.Command, role string) {
	role = cmp.Or(c.Annotations[roleAnnotation], role)
	if run := c.RunE; run != nil {
		c.RunE = func(c *cobra.Command, args []string) error { return explain(run(c, args), role) }
	}
	for _, below := range c.Commands() {
		explainErrors(below, role)
	}
}

// explain says what to do about an error of a cluster. A role has the rights.
func explain(err error, role string) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%w. The ClusterRole %s has all rights that this verb needs: ask an administrator to bind it to you", err, role)
	}
	return translate(err)
}

// translate says in kubectl's words, where it has some, why a cluster does not answer. What somebody may not read stays as it is.
func translate(err error) error {
	var call *url.Error
	switch group, kind := missingKind(err); {
	case group == v1alpha1.GroupVersion.Group:
		return notServed("Lockstep is not installed in this cluster", group, kind)
	case strings.HasSuffix(group, ".volcano.sh"):
		return notServed("Volcano is not installed in this cluster, or is too old", group, kind)
	case apierrors.IsUnauthorized(err):
		return errors.New("you must be logged in to the server: it does not accept the credentials. Log in again, or give another --context, --user or --token")
	case errors.Is(err, syscall.ECONNREFUSED) && errors.As(err, &call):
		return refused(call)
	case errors.As(err, &call):
		return fmt.Errorf("unable to connect to the server: %w", call.Err)
	}
	return err
}

func notServed(what, group, kind string) error {
	return fmt.Errorf("%s: the API server does not serve %s. `kubectl lockstep check` shows what is missing, and what to do", what, strings.TrimSuffix(group+"/"+kind, "/"))
}

// missingKind is the group and the kind, or resource, that a cluster does not serve; empty where that is not what is wrong.
func missingKind(err error) (group, kind string) {
	var noKind *meta.NoKindMatchError
	var noResource *meta.NoResourceMatchError
	switch {
	case errors.As(err, &noKind):
		return noKind.GroupKind.Group, noKind.GroupKind.Kind
	case errors.As(err, &noResource):
		return noResource.PartialResource.Group, noResource.PartialResource.Resource
	}
	return "", ""
}

// noConfig is the server that kubectl, too, asks where no kubeconfig names one.
const noConfig = "localhost:8080"

func refused(call *url.Error) error {
	host := call.URL
	if at, err := url.Parse(call.URL); err == nil {
		host = at.Host
	}
	hint := ""
	if host == noConfig {
		hint = " " + noServer(os.Getenv(clientcmd.RecommendedConfigPathEnvVar))
	}
	return fmt.Errorf("the connection to the server %s was refused - did you specify the right host or port?%s", host, hint)
}

// noServer says why no kubeconfig names a server, by the value of KUBECONFIG.
func noServer(files string) string {
	exists := func(file string) bool { _, err := os.Stat(file); return err == nil }
	if files != "" && !slices.ContainsFunc(filepath.SplitList(files), exists) {
		return "KUBECONFIG is " + files + ", and there is no such file: name one that exists, or give --kubeconfig or --server."
	}
	return "No kubeconfig names a server: set KUBECONFIG, or give --kubeconfig or --server."
}
