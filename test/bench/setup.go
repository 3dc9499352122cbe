// What is measured on: one control plane, the manager under a user of its own, the eyes on both.

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	rbac "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// managerName is the manager's process and its user, whom the audit log tells from everybody else.
const managerName = "manager"

// gracePeriod is long, so that the leases of a thousand nodes are a few writes a second: no node
// falls silent here.
const gracePeriod = 2 * time.Minute

// bench is a run.
type bench struct {
	options  *options
	root     string // of the repository
	dir      string // for what lives as long as the run
	cluster  *cluster.Cluster
	recorder *recorder
	audit    auditLog
	stop     context.CancelFunc // of the recorder
	results  results
	pulses   int // that were felt
}

// begin starts the cluster and the manager.
func begin(ctx context.Context, o *options) (b *bench, err error) {
	b = &bench{options: o}
	if b.root, err = cluster.RepositoryRoot(); err != nil {
		return nil, err
	}
	if b.dir, err = os.MkdirTemp("", "lockstep-bench-"); err != nil {
		return nil, fmt.Errorf("make a folder for the run: %w", err)
	}
	if err := b.start(ctx); err != nil {
		return nil, errors.Join(err, b.end())
	}
	return b, nil
}

// end stops everything.
func (b *bench) end() error {
	defer os.RemoveAll(b.dir)
	if b.stop != nil {
		b.stop()
	}
	if b.cluster == nil {
		return nil
	}
	return b.cluster.Stop()
}

func (b *bench) start(ctx context.Context) error {
	manager, err := b.managerBinary(ctx)
	if err != nil {
		return err
	}
	scheme := cluster.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return err
	}
	b.audit.path = filepath.Join(b.dir, "audit.log")
	policy, err := writePolicy(b.dir)
	if err != nil {
		return err
	}
	b.cluster, err = cluster.Start(ctx, cluster.Options{
		Name: "bench", Scheme: scheme, CRDs: []string{filepath.Join(b.root, "config", "crd")},
		NodeMonitorGracePeriod: gracePeriod,
		AuditLog:               b.audit.path,
		Args:                   map[string][]string{cluster.APIServer: {"--audit-policy-file=" + policy}},
	})
	if err != nil {
		return err
	}
	kubeconfig, err := b.managerKubeconfig(ctx)
	if err != nil {
		return err
	}
	if _, err := b.cluster.Run(ctx, cluster.Command{Name: managerName, Path: manager, Args: []string{
		"--metrics-bind-address=0", "--health-probe-bind-address=0", "--kubeconfig=" + kubeconfig,
	}}); err != nil {
		return err
	}
	watching, stop := context.WithCancel(ctx)
	b.stop = stop
	if b.recorder, err = newRecorder(watching, b.cluster.RESTConfig()); err != nil {
		return err
	}
	return b.cluster.AddTopology(ctx, pulsePool)
}

func (b *bench) managerBinary(ctx context.Context) (string, error) {
	if b.options.manager != "" {
		return filepath.Abs(b.options.manager)
	}
	binary := filepath.Join(b.dir, managerName)
	build := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd/manager")
	build.Dir = b.root
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the manager: %w\n%s", err, out)
	}
	return binary, nil
}

// managerKubeconfig is that of a user who may do what the manager's role allows, and nothing else.
func (b *bench) managerKubeconfig(ctx context.Context) (string, error) {
	raw, err := os.ReadFile(filepath.Join(b.root, "config", "rbac", "role.yaml"))
	if err != nil {
		return "", err
	}
	role := &rbac.ClusterRole{}
	if err := yaml.UnmarshalStrict(raw, role); err != nil {
		return "", fmt.Errorf("role.yaml: %w", err)
	}
	binding := &rbac.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbac.Subject{{Kind: rbac.UserKind, APIGroup: rbac.GroupName, Name: managerName}},
	}
	for _, obj := range []client.Object{role, binding} {
		if err := b.cluster.Client().Create(ctx, obj); err != nil {
			return "", fmt.Errorf("give the manager its role: %w", err)
		}
	}
	return b.cluster.KubeconfigFor(managerName)
}

// say tells whoever waits how far the run has come.
func say(format string, args ...any) { fmt.Fprintf(os.Stderr, "bench: "+format+"\n", args...) }
