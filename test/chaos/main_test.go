// Package chaos breaks the operator itself in the middle of its work: an API call is
// refused, its answer is lost, another writer comes first, the process dies before it
// or after it. The end is that of a recovery in which nothing of the kind happened.
package chaos

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/history"
	"github.com/lockstep-dev/lockstep/test/operator"
)

// silentFor is how long a node is silent before it is NotReady: one test waits for that, and heartbeats cost what the others need.
const silentFor = 2 * time.Minute

var (
	testCluster *cluster.Cluster
	// managerConfig is that of every operator. It is the shipped one's user, by whom the audit log is judged, and may do everything: each
	// lane has its leader in a namespace of its own.
	managerConfig *rest.Config
	// auditLog is the log of the API server, and of the one that is held back.
	auditLog history.Log
)

func TestMain(m *testing.M) {
	os.Exit(runAll(m))
}

func runAll(m *testing.M) int {
	ctrl.SetLogger(zap.New())
	dir, err := os.MkdirTemp("", "lockstep-chaos-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := start(context.Background(), dir); err != nil {
		fmt.Fprintln(os.Stderr, "chaos: start the cluster:", err)
		return 1
	}
	// A lane waits most of its time: for the scheduler, and for the operator to be idle.
	if err := flag.Set("test.parallel", "24"); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		return 1
	}
	code := m.Run()
	if err := contract.check(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		code = 1
	}
	if err := auditLog.Check(); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		code = 1
	}
	if err := testCluster.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "chaos: stop the cluster:", err)
		return 1
	}
	return code
}

// start brings up the control plane.
func start(ctx context.Context, dir string) (err error) {
	options := cluster.Options{
		Name: "chaos", Scheme: cluster.NewScheme(), CRDs: []string{"../../config/crd"}, Progress: os.Stderr, NodeMonitorGracePeriod: silentFor,
	}
	if auditLog, err = history.Of(&options, dir, ""); err != nil {
		return err
	}
	auditLog.Others = []string{auditLog.Path + ".held-back"}
	if err := v1alpha1.AddToScheme(options.Scheme); err != nil {
		return err
	}
	if testCluster, err = cluster.Start(ctx, options); err != nil {
		return err
	}
	kubeconfig, err := testCluster.KubeconfigFor(operator.User, "system:masters")
	if err == nil {
		managerConfig, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
	}
	if err != nil {
		return errors.Join(err, testCluster.Stop())
	}
	managerConfig.QPS = -1
	return nil
}
