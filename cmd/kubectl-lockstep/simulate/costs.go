package simulate

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/lockstep-dev/lockstep/lab"
)

// addCosts adds a flag for each time that users know better than the defaults do.
func addCosts(f *pflag.FlagSet, costs *lab.Costs) {
	for _, d := range []struct {
		to         *time.Duration
		name, what string
	}{
		{&costs.CheckpointInterval, "checkpoint-interval", "time that the program trains between two checkpoints"},
		{&costs.CheckpointWrite, "checkpoint-write", "time for which a checkpoint stops the training"},
		{&costs.Restore, "restore", "time from when all processes run until they train"},
		{&costs.Start, "start", "time from the binding of a pod until its process runs"},
		{&costs.Stop, "stop", "time from the deletion of a pod until it is gone"},
		{&costs.PeerAbort, "peer-abort", "time from the end of a process until its peers have aborted"},
		{&costs.NodeNotReady, "node-not-ready", "time from the loss of a node until Kubernetes shows it"},
		{&costs.HealthReport, "health-report", "time from the failure of a device until the health agent reports it"},
	} {
		f.DurationVar(d.to, d.name, *d.to, d.what)
	}
}
