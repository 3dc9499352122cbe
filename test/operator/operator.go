// Package operator builds the manager and runs it beside a test cluster, under the role that is
// shipped with it.
package operator

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	rbac "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

// Name is the manager's process and its user, whom the audit log tells from everybody else.
const Name = "manager"

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

// Kubeconfig gives the manager's user its role in the cluster and returns that user's kubeconfig.
func Kubeconfig(ctx context.Context, c *cluster.Cluster) (string, error) {
	root, err := cluster.RepositoryRoot()
	if err != nil {
		return "", err
	}
	raw, err := os.ReadFile(filepath.Join(root, "config", "rbac", "role.yaml"))
	if err != nil {
		return "", err
	}
	role := &rbac.ClusterRole{}
	if err := yaml.UnmarshalStrict(raw, role); err != nil {
		return "", fmt.Errorf("role.yaml: %w", err)
	}
	binding := &rbac.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name + "-user"}, // the shipped one is for a service account
		RoleRef:    rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbac.Subject{{Kind: rbac.UserKind, APIGroup: rbac.GroupName, Name: Name}},
	}
	for _, obj := range []client.Object{role, binding} {
		if err := c.Client().Create(ctx, obj); err != nil {
			return "", fmt.Errorf("giving the manager its role: %w", err)
		}
	}
	return c.KubeconfigFor(Name)
}
