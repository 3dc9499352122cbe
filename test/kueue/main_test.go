// Package kueue runs Kueue itself beside the manager: its quota decides when jobs run, and MultiKueue runs them in a second cluster.
package kueue

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/controllers/kueue"
	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/history"
	"github.com/lockstep-dev/lockstep/test/operator"
)

const (
	nodes        = 6
	gpus         = 8
	awaitTimeout = 2 * time.Minute
)

// home is where jobs run, and hub has MultiKueue run them there.
var home, hub *cluster.Cluster

func TestMain(m *testing.M) { os.Exit(runAll(m)) }

func runAll(m *testing.M) int {
	ctrl.SetLogger(zap.New())
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "lockstep-kueue-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "kueue:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary, err := operator.Build(ctx, dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, "kueue:", err)
		return 1
	}
	log, err := startBoth(ctx, dir, binary)
	if err != nil {
		fmt.Fprintln(os.Stderr, "kueue: start the clusters:", err)
		return 1
	}
	code := m.Run()
	if err := checkRights(log.Path); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, "kueue:", err)
		code = 1
	}
	if err := log.Check(); err != nil {
		fmt.Fprintln(os.Stderr, "kueue:", err)
		code = 1
	}
	for _, c := range []*cluster.Cluster{hub, home} {
		if err := c.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "kueue: stop a cluster:", err)
			code = 1
		}
	}
	return code
}

// checkRights returns an error that names the rights for Kueue which nobody used, where all tests have run.
func checkRights(log string) error {
	if f := flag.Lookup("test.run"); f != nil && f.Value.String() != "" {
		return nil
	}
	granted, err := operator.Rights(operator.User)
	if err != nil {
		return err
	}
	used, err := operator.UsedRights(log, operator.User)
	if err != nil {
		return err
	}
	unused := slices.DeleteFunc(granted, func(right string) bool { return !operator.IsForKueue(right) || used[operator.User][right] })
	if len(unused) > 0 {
		return fmt.Errorf("rights that nobody used: %s", strings.Join(unused, ", "))
	}
	return nil
}

func startBoth(ctx context.Context, dir, binary string) (log history.Log, err error) {
	options, err := optionsOf("home")
	if err != nil {
		return log, err
	}
	if log, err = history.Of(&options, dir, operator.AuditOfRights(operator.User)); err != nil {
		return log, err
	}
	if home, err = start(ctx, options, dir, binary); err != nil {
		return log, err
	}
	for i, pool := range []string{"h200", "h100"} {
		topology := cluster.Topology{Name: pool, Racks: 1, NodesPerRack: nodes - 2*i, GPUsPerNode: gpus, Labels: map[string]string{"pool": pool}}
		if err := home.AddTopology(ctx, topology); err != nil {
			return log, err
		}
	}
	if options, err = optionsOf("hub"); err != nil {
		return log, err
	}
	hub, err = start(ctx, options, dir, binary)
	return log, err
}

func optionsOf(name string) (cluster.Options, error) {
	scheme := cluster.NewScheme()
	for _, add := range []func() error{
		func() error { return v1alpha1.AddToScheme(scheme) },
		func() error { return kueue.AddToScheme(scheme) },
	} {
		if err := add(); err != nil {
			return cluster.Options{}, err
		}
	}
	return cluster.Options{
		Name: name, Scheme: scheme, CRDs: []string{"../../config/crd"}, Progress: os.Stderr, NodeMonitorGracePeriod: 2 * time.Minute,
	}, nil
}

// start starts a cluster with Kueue and the manager.
func start(ctx context.Context, options cluster.Options, dir, binary string) (*cluster.Cluster, error) {
	c, err := cluster.Start(ctx, options)
	if err != nil {
		return nil, err
	}
	kubeconfig, err := operator.Kubeconfig(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := operator.InstallKueue(ctx, c); err != nil {
		return nil, err
	}
	if _, err := operator.RunKueue(ctx, c, dir); err != nil {
		return nil, err
	}
	_, err = c.Run(ctx, cluster.Command{Name: operator.Name, Path: binary, Args: []string{
		"--metrics-bind-address=0", "--health-probe-bind-address=0", "--kubeconfig=" + kubeconfig, operator.QueuesByKueue,
	}})
	return c, err
}
