// Package e2e runs the manager against a real control plane and a real Volcano, and
// breaks things. Each test has a pool of nodes to itself, so that all run side by side.
package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/history"
	"github.com/lockstep-dev/lockstep/test/operator"
)

var (
	testCluster *cluster.Cluster
	manager     *cluster.Process
	// workDir is for what lives as long as the tests.
	workDir string
	// auditLog has the requests of the manager and of the agents.
	auditLog history.Log
)

func TestMain(m *testing.M) {
	os.Exit(runAll(m))
}

func runAll(m *testing.M) int {
	flag.Parse()
	ctrl.SetLogger(zap.New())
	ctx := context.Background()
	stop, err := start(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e: start the cluster:", err)
		return 1
	}
	oracle, err := testCluster.WatchFit(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e: switch the oracle on:", err)
		return 1
	}
	code := m.Run()
	if err := oracle.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 1
	}
	if err := checkRights(auditLog.Path); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 1
	}
	if err := auditLog.Check(); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 1
	}
	if code != 0 {
		fmt.Fprintf(os.Stderr, "e2e: the end of the manager's log:\n%s\n", testCluster.Log(operator.Name))
	}
	if err := stop(); err != nil {
		fmt.Fprintln(os.Stderr, "e2e: stop the cluster:", err)
		return 1
	}
	return code
}

// start brings up the control plane with the CRD installed, and the manager.
func start(ctx context.Context) (stop func() error, err error) {
	scheme := cluster.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "lockstep-e2e-")
	workDir = dir
	if err != nil {
		return nil, err
	}
	options := cluster.Options{
		Name: "e2e", Scheme: scheme, CRDs: []string{"../../config/crd"}, Progress: os.Stderr,
		NodeMonitorGracePeriod: 2 * time.Minute, // a late heartbeat takes the readiness of its node's pods for good; Silence does not wait for the grace period
	}
	if auditLog, err = history.Of(&options, dir, operator.AuditOfRights(rightsOf...)); err != nil {
		return nil, err
	}
	if testCluster, err = cluster.Start(ctx, options); err != nil {
		return nil, err
	}
	if err := testCluster.Client().Create(ctx, healthPolicy()); err != nil {
		return nil, err
	}
	binary, err := operator.Build(ctx, dir)
	if err != nil {
		return nil, err
	}
	if err := installAgent(ctx); err != nil {
		return nil, err
	}
	kubeconfig, err := operator.Kubeconfig(ctx, testCluster)
	if err != nil {
		return nil, err
	}
	if err := managerPolicyInForce(ctx); err != nil {
		return nil, err
	}
	receiver, err := receiverFlags()
	if err != nil {
		return nil, err
	}
	metrics, err := metricsFlag()
	if err != nil {
		return nil, err
	}
	traced, err := tracingFlags(ctx)
	if err != nil {
		return nil, err
	}
	manager, err = testCluster.Run(ctx, cluster.Command{
		Name: operator.Name, Path: binary,
		Args: slices.Concat([]string{metrics, "--health-probe-bind-address=0", "--kubeconfig=" + kubeconfig, operator.FollowsDrainRequests}, receiver, traced),
		Env:  []string{"OTEL_BSP_SCHEDULE_DELAY=200"}, // milliseconds until spans are exported: a test waits for them
	})
	if err == nil { // a kind that is installed after the manager
		err = operator.InstallDrainRequests(ctx, testCluster)
	}
	return func() error {
		defer os.RemoveAll(dir)
		return testCluster.Stop()
	}, err
}

// healthPolicy bounds what happens in a rack by its defaults, and what happens in the cluster
// not at all: that is many tests, which know nothing of each other.
func healthPolicy() *v1alpha1.HealthPolicy {
	return &v1alpha1.HealthPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.HealthPolicyName},
		Spec:       v1alpha1.HealthPolicySpec{Breaker: v1alpha1.Breaker{Cluster: &v1alpha1.BreakerLimit{Percent: 100}}},
	}
}
