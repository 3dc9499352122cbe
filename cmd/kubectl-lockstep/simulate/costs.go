package simulate

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/lockstep-dev/lockstep/lab"
)

// costFlag is the flag of a time that users know better than the defaults do.
type costFlag struct {
	to         *time.Duration
	name, what string
}

func costFlags(costs *lab.Costs) []costFlag {
	return []costFlag{
		{&costs.CheckpointInterval, "checkpoint-interval", "time that the program trains between two checkpoints"},
		{&costs.CheckpointWrite, "checkpoint-write", "time for which a checkpoint stops the training"},
		{&costs.Restore, "restore", "time from when all processes run until they train"},
		{&costs.Start, "start", "time from the binding of a pod until its process runs"},
		{&costs.Stop, "stop", "time from the deletion of a pod until it is gone"},
		{&costs.RestartInPlace, "restart-in-place", "time from the end of a container until its kubelet has restarted it for the first time"},
		{&costs.Backoff, "backoff", "time for which the kubelet waits where it ends again; it doubles up to 5m"},
		{&costs.PeerAbort, "peer-abort", "time from the end of a process until its peers have aborted"},
		{&costs.NodeNotReady, "node-not-ready", "time from the loss of a node until Kubernetes shows it"},
		{&costs.HealthReport, "health-report", "time from the failure of a device until the health agent reports it"},
	}
}

func addCosts(f *pflag.FlagSet, costs *lab.Costs) {
	for _, c := range costFlags(costs) {
		spanVar(f, c.to, c.name, *c.to, c.what)
	}
}

func checkCosts(costs *lab.Costs) error {
	for _, c := range costFlags(costs) {
		if *c.to < 0 {
			return fmt.Errorf("--%s is %s, and must not be negative", c.name, *c.to)
		}
	}
	if costs.CheckpointInterval == 0 {
		return fmt.Errorf("--checkpoint-interval is 0s, and has to be positive")
	}
	return nil
}
