package real

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/lockstep-dev/lockstep/test/operator"
)

// ground is shared by all tests, which run one after the other: each needs most of the nodes.
var ground *Ground

func TestMain(m *testing.M) { os.Exit(runAll(m)) }

func runAll(m *testing.M) int {
	ctrl.SetLogger(zap.New())
	if os.Getenv(standVariable) != "" {
		if err := stand(); err != nil {
			fmt.Fprintln(os.Stderr, "test/real:", err)
			return 1
		}
		return 0
	}
	var err error
	// Beside programs being built a kubelet's heartbeat is late by more than the default of 8 s, and its node's silence an incident of its own.
	if ground, err = Start(context.Background(), 4, 20*time.Second, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "test/real:", err)
		return 1
	}
	oracle, err := ground.WatchFit(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, "test/real:", err)
		return 1
	}
	if err := ground.KeepPodLogs(); err != nil {
		fmt.Fprintln(os.Stderr, "test/real:", err)
		return 1
	}
	code := m.Run()
	if err := ground.CheckHistory(); err != nil {
		fmt.Fprintln(os.Stderr, "test/real:", err)
		code = 1
	}
	if err := oracle.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "test/real:", err)
		code = 1
	}
	if code != 0 {
		fmt.Fprintf(os.Stderr, "test/real: the end of the manager's log:\n%s\n", ground.Log(operator.Name))
	}
	if err := ground.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "test/real:", err)
		return 1
	}
	return code
}
