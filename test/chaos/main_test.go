// Package chaos breaks the operator itself in the middle of its work: an API call is
// refused, its answer is lost, another writer comes first, the process dies before it
// or after it. The end is that of a recovery in which nothing of the kind happened.
package chaos

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// silentFor is how long a node is silent before it is NotReady: one test waits for that, and heartbeats cost what the others need.
const silentFor = 2 * time.Minute

var testCluster *cluster.Cluster

func TestMain(m *testing.M) {
	os.Exit(runAll(m))
}

func runAll(m *testing.M) int {
	ctrl.SetLogger(zap.New())
	scheme := cluster.NewScheme()
	err := v1alpha1.AddToScheme(scheme)
	if err == nil {
		testCluster, err = cluster.Start(context.Background(), cluster.Options{
			Name: "chaos", Scheme: scheme, CRDs: []string{"../../config/crd"}, Progress: os.Stderr,
			NodeMonitorGracePeriod: silentFor,
		})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos: start the cluster:", err)
		return 1
	}
	// A lane waits most of its time: for the scheduler, and for the operator to be idle.
	if err := flag.Set("test.parallel", "24"); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		return 1
	}
	code := m.Run()
	if err := testCluster.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "chaos: stop the cluster:", err)
		return 1
	}
	return code
}
