// One cluster for all tests of this package.

package cluster

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"
)

// shared is the cluster that most tests use, each with a pool of its own.
var shared *Cluster

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Minute)
	defer cancel()
	if os.Getenv(holdVariable) != "" {
		if err := hold(ctx); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	}
	var err error
	// Other clusters start beside this one: a heartbeat that is late then takes the readiness of its node's pods for good.
	if shared, err = Start(ctx, Options{NodeMonitorGracePeriod: 40 * time.Second}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := shared.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
