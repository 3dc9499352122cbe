// Package operator builds the manager, which tests run beside their cluster, and gives it the account, roles and policy that are shipped
// with it.
package operator

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

const (
	// Name is that of the manager's process.
	Name = "manager"
	// Namespace is the manager's.
	Namespace = "lockstep-system"
	// User is the manager's service account, which audit logs name.
	User = "system:serviceaccount:" + Namespace + ":lockstep-manager"
)

// Build builds the manager into a folder and returns its path.
func Build(ctx context.Context, dir string) (string, error) {
	root, err := cluster.RepositoryRoot()
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "manager")
	// As make build does, so that the packages are compiled once.
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", binary, "./cmd/manager")
	build.Dir = root
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the manager: %w\n%s", err, out)
	}
	return binary, nil
}

// Kubeconfig gives a cluster what the shipped manager has there besides its pods: its namespace, account, roles and policy. It returns
// the kubeconfig of the account.
func Kubeconfig(ctx context.Context, c *cluster.Cluster) (string, error) {
	root, err := cluster.RepositoryRoot()
	if err != nil {
		return "", err
	}
	objects, err := cluster.Kustomize(ctx, filepath.Join(root, "config", "supervisors"))
	if err != nil {
		return "", err
	}
	for _, o := range objects {
		if !isManagers(o) {
			continue
		}
		if err := client.IgnoreAlreadyExists(c.Client().Create(ctx, o)); err != nil {
			return "", fmt.Errorf("giving the manager its %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return c.KubeconfigFor(User, "system:serviceaccounts", "system:serviceaccounts:"+Namespace)
}

// isManagers reports whether an object is the manager's own.
func isManagers(o *unstructured.Unstructured) bool {
	if o.GetKind() == "Namespace" {
		return o.GetName() == Namespace
	}
	return o.GetKind() != "Deployment" && o.GetKind() != "Service" && slices.Contains([]string{"lockstep-manager", "lockstep-leader-election", "lockstep-supervisors"}, o.GetName())
}
