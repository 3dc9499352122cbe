// What is measured on: one control plane, the manager under a user of its own, the eyes on both.

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/operator"
)

// gracePeriod is long, so that the leases of a thousand nodes are a few writes a second: no node
// falls silent here.
const gracePeriod = 2 * time.Minute

// managerHost is where the manager runs, and the name in its certificate.
const managerHost = "127.0.0.1"

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
	// supervisors is the address by which supervisors reach the manager.
	supervisors string
	// metrics is that of its metrics.
	metrics string
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
	connections := b.options.connections()
	if err := allowFiles(connections); err != nil {
		return err
	}
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
	kubeconfig, err := operator.Kubeconfig(ctx, b.cluster)
	if err != nil {
		return err
	}
	port, err := b.cluster.Port()
	if err != nil {
		return err
	}
	b.supervisors = fmt.Sprintf("%s:%d", managerHost, port)
	bind := b.supervisors
	if connections > 0 {
		bind = fmt.Sprintf(":%d", port) // for more connections than one address has ports
	}
	if port, err = b.cluster.Port(); err != nil {
		return err
	}
	b.metrics = fmt.Sprintf("%s:%d", managerHost, port)
	if _, err := b.cluster.Run(ctx, cluster.Command{Name: operator.Name, Path: manager, Args: []string{
		"--metrics-bind-address=" + b.metrics, "--health-probe-bind-address=0", "--kubeconfig=" + kubeconfig,
		"--leader-election-namespace=" + operator.Namespace, "--supervisor-image=lockstep-run",
		"--supervisors-bind-address=" + bind, "--supervisors-address=" + b.supervisors,
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

// connections are how many there may be to the manager at a time, where that is many.
func (o *options) connections() (most int) {
	for _, jobs := range o.fleet {
		most = max(most, jobs*fleetRanks/o.fleetSharing)
	}
	for _, size := range o.takeOver {
		most = max(most, size+takeOverSpares)
	}
	return most
}

func (b *bench) managerBinary(ctx context.Context) (string, error) {
	if b.options.manager != "" {
		return filepath.Abs(b.options.manager)
	}
	return operator.Build(ctx, b.dir)
}

// say tells whoever waits how far the run has come.
func say(format string, args ...any) { fmt.Fprintf(os.Stderr, "bench: "+format+"\n", args...) }
