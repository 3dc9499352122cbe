// Package tenants has a user of one namespace attack the manager while it serves another namespace, and measures what the manager keeps
// and how late its decisions for the other namespace are.
package tenants

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/operator"
)

const (
	// attackers is the namespace and the user that attack, and workers the namespace and the queue of the other tenant.
	attackers, workers = "attackers", "workers"

	// seatsPerCore is the API server's --max-mutating-requests-inflight for each core; --max-requests-inflight is twice as high. The defaults,
	// 200 and 400, do not depend on the number of cores.
	seatsPerCore = 5

	gpu  = corev1.ResourceName("nvidia.com/gpu")
	gpus = 8
	// awaitTimeout bounds a wait for something that takes seconds; no test measures it.
	awaitTimeout = 5 * time.Minute
)

// pool has room for the jobs of the other tenant, and nodes besides.
var pool = cluster.Topology{Name: "shared", Racks: 1, NodesPerRack: gangs*ranks + 4, GPUsPerNode: gpus}

var (
	testCluster *cluster.Cluster
	manager     *cluster.Process
	ports       addresses
)

// addresses are those at which the manager listens.
type addresses struct{ Metrics, Alerts, Supervisors string }

func TestMain(m *testing.M) { os.Exit(runAll(m)) }

func runAll(m *testing.M) int {
	flag.Parse()
	if told := os.Getenv(attackVariable); told != "" {
		return attackAlone(told)
	}
	ctrl.SetLogger(zap.New())
	dir, err := os.MkdirTemp("", "lockstep-tenants-")
	if err == nil {
		defer os.RemoveAll(dir)
		err = start(context.Background(), dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "tenants: start the cluster:", err)
		return 1
	}
	code := m.Run()
	if code != 0 {
		fmt.Fprintf(os.Stderr, "tenants: the end of the manager's log:\n%s\n", testCluster.Log(operator.Name))
	}
	if err := testCluster.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "tenants: stop the cluster:", err)
		return 1
	}
	return code
}

func start(ctx context.Context, dir string) error {
	scheme := cluster.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return err
	}
	var err error
	testCluster, err = cluster.Start(ctx, cluster.Options{
		Name: "tenants", Scheme: scheme, CRDs: []string{"../../config/crd"}, Progress: os.Stderr,
		// No node falls silent here, and heartbeats cost what the test needs.
		NodeMonitorGracePeriod: 2 * time.Minute,
		Args: map[string][]string{cluster.APIServer: {
			fmt.Sprintf("--max-requests-inflight=%d", 2*seatsPerCore*runtime.NumCPU()),
			fmt.Sprintf("--max-mutating-requests-inflight=%d", seatsPerCore*runtime.NumCPU()),
		}},
	})
	if err != nil {
		return err
	}
	if err := testCluster.AddTopology(ctx, pool); err != nil {
		return err
	}
	for _, name := range []string{attackers, workers} {
		if err := testCluster.Client().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			return err
		}
	}
	queue := &scheduling.Queue{ObjectMeta: metav1.ObjectMeta{Name: workers}, Spec: scheduling.QueueSpec{Weight: 1}}
	if err := testCluster.Client().Create(ctx, queue); err != nil {
		return err
	}
	return startManager(ctx, dir)
}

// startManager runs the manager as it is shipped, with all servers on.
func startManager(ctx context.Context, dir string) error {
	binary, err := operator.Build(ctx, dir)
	if err != nil {
		return err
	}
	kubeconfig, err := operator.Kubeconfig(ctx, testCluster)
	if err != nil {
		return err
	}
	certificates, err := testCluster.CertificateDir()
	if err != nil {
		return err
	}
	for _, address := range []*string{&ports.Metrics, &ports.Alerts, &ports.Supervisors} {
		port, err := testCluster.Port()
		if err != nil {
			return err
		}
		*address = fmt.Sprintf("127.0.0.1:%d", port)
	}
	manager, err = testCluster.Run(ctx, cluster.Command{Name: operator.Name, Path: binary, Args: []string{
		"--kubeconfig=" + kubeconfig, "--health-probe-bind-address=0", "--metrics-bind-address=" + ports.Metrics,
		"--alerts-bind-address=" + ports.Alerts, "--alerts-cert-dir=" + certificates,
		"--supervisors-bind-address=" + ports.Supervisors, "--supervisors-address=" + ports.Supervisors,
		"--supervisor-image=lockstep-run", "--leader-election-namespace=" + operator.Namespace,
	}})
	return err
}

// await waits until something holds. What the API server is too busy to answer, it is asked again.
func await(t *testing.T, what string, holds func(context.Context) error) {
	t.Helper()
	if err := poll(t.Context(), holds); err != nil {
		t.Fatalf("waiting until %s: %v", what, err)
	}
}

func poll(ctx context.Context, holds func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, awaitTimeout, true, func(ctx context.Context) (bool, error) {
		last = holds(ctx)
		return last == nil, nil
	})
	if err != nil && last != nil {
		return fmt.Errorf("%w: %w", err, last)
	}
	return err
}

func must(t *testing.T, err error, what string) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}
