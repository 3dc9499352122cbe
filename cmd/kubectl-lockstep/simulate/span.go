package simulate

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
	"github.com/lockstep-dev/lockstep/lab"
)

// span is a flag for a time, which may be given in days, and is not negative.
type span time.Duration

func (s *span) Set(text string) error {
	d, err := lab.ParseTime(text)
	if err == nil && d < 0 {
		err = errors.New("it must not be negative")
	}
	*s = span(d)
	return err
}

// String is what the help shows: whole days as such.
func (s *span) String() string { return formatSpan(time.Duration(*s)) }

// Type is what the help shows of the value.
func (s *span) Type() string { return "time" }

func formatSpan(d time.Duration) string {
	const day = 24 * time.Hour
	if d > 0 && d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	return lines.Exactly(d)
}

func spanVar(f *pflag.FlagSet, to *time.Duration, name string, preset time.Duration, usage string) {
	*to = preset
	f.Var((*span)(to), name, usage)
}

// addCosts adds the flags of the times that users know better than the defaults do.
func addCosts(f *pflag.FlagSet, c *lab.Costs) {
	spanVar(f, &c.CheckpointInterval, "checkpoint-interval", c.CheckpointInterval, "time that the program trains between two checkpoints")
	spanVar(f, &c.CheckpointWrite, "checkpoint-write", c.CheckpointWrite, "time for which a checkpoint stops the training")
	spanVar(f, &c.Restore, "restore", c.Restore, "time from when all processes run until they train")
	spanVar(f, &c.Start, "start", c.Start, "time from the binding of a pod until its process runs")
	spanVar(f, &c.Stop, "stop", c.Stop, "time from the deletion of a pod until it is gone")
	spanVar(f, &c.RestartInPlace, "restart-in-place", c.RestartInPlace,
		"time from the end of a container until its kubelet has restarted it for the first time")
	spanVar(f, &c.Backoff, "backoff", c.Backoff, "time for which the kubelet waits where it ends again; it doubles up to 5m")
	spanVar(f, &c.PeerAbort, "peer-abort", c.PeerAbort, "time from the end of a process until its peers have aborted")
	spanVar(f, &c.NodeNotReady, "node-not-ready", c.NodeNotReady, "time from the loss of a node until Kubernetes shows it")
	spanVar(f, &c.HealthReport, "health-report", c.HealthReport, "time from the failure of a device until the health agent reports it")
}
