package lab

import (
	"fmt"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// Costs are the times that things take, whatever is decided.
type Costs struct {
	// CheckpointInterval is how long the program trains between two checkpoints, and CheckpointWrite for how long it does not train
	// while it writes one.
	CheckpointInterval, CheckpointWrite time.Duration
	// RestartInPlace is from the end of a container until its kubelet has restarted it for the first time, and Backoff what the
	// kubelet waits for when the container ends again. It doubles with each further end. Zero: every restart takes RestartInPlace.
	RestartInPlace, Backoff time.Duration
	// PeerAbort is from the end of a process until the others of the gang have aborted.
	PeerAbort time.Duration
	// StopProgram is from an order to a supervisor to stop its program until nothing of that is left. Another one starts at once.
	StopProgram time.Duration
	// NodeNotReady is from the loss of a node until the control plane shows it as not ready.
	NodeNotReady time.Duration
	// HealthReport is from the failure of a device until its node's NodeHealth shows it.
	HealthReport time.Duration
	// React is from a change in the API server until the manager has written what follows from it.
	React time.Duration
	// Stop is from the deletion of a pod until it is gone, and Recreate from then until Volcano makes the next pod.
	Stop, Recreate time.Duration
	// CreateRate is how many pods Volcano makes per second.
	CreateRate float64
	// Schedule is how long the scheduler takes for pods that it may place.
	Schedule time.Duration
	// Start is from the binding of a pod until its process runs.
	Start time.Duration
	// Restore is from when all processes run until they train again: they find each other, and load the checkpoint.
	Restore time.Duration
	// Copies are what ranks save near them, by the scope, Pod or Node, of their job's checkpointTiers. To save one stops no training.
	Copies map[v1alpha1.CheckpointScope]Copies
}

// Copies of checkpoints near their ranks.
type Copies struct {
	// Interval is how long the program trains between two of them.
	Interval time.Duration
	// Restore is Costs.Restore where each rank finds one that is as near, or nearer.
	Restore time.Duration
}

// DefaultCosts are for a gang that checkpoints every half hour. NodeNotReady is Kubernetes' node-monitor-grace-period, 50 s since
// 1.32 (kubernetes cmd/kube-controller-manager/app/options); Schedule is the period of Volcano's scheduler (schedule-period, 1 s).
// CreateRate is what test/bench once found: 1,000 pods in 18 s.
// The others are of the order that test/real and test/bench measure, save those of the program, which every user knows better.
func DefaultCosts() Costs {
	return Costs{
		CheckpointInterval: 30 * time.Minute, CheckpointWrite: 30 * time.Second,
		RestartInPlace: time.Second, Backoff: firstBackoff, PeerAbort: 5 * time.Second, StopProgram: 100 * time.Millisecond, NodeNotReady: 50 * time.Second, HealthReport: 30 * time.Second,
		React: 50 * time.Millisecond, Stop: 5 * time.Second, Recreate: 500 * time.Millisecond, CreateRate: 55, Schedule: time.Second,
		Start: 10 * time.Second, Restore: 2 * time.Minute,
	}
}

func (c *Costs) check() error {
	for name, d := range map[string]time.Duration{
		"CheckpointWrite": c.CheckpointWrite, "PeerAbort": c.PeerAbort, "NodeNotReady": c.NodeNotReady, "HealthReport": c.HealthReport,
		"RestartInPlace": c.RestartInPlace, "Backoff": c.Backoff, "StopProgram": c.StopProgram, "React": c.React, "Stop": c.Stop, "Recreate": c.Recreate, "Schedule": c.Schedule, "Start": c.Start, "Restore": c.Restore,
	} {
		if d < 0 {
			return fmt.Errorf("costs: %s is %s, and must not be negative", name, d)
		}
	}
	if c.CreateRate <= 0 {
		return fmt.Errorf("costs: CreateRate is %g pods per second, and has to be positive", c.CreateRate)
	}
	for scope, copies := range c.Copies {
		if copies.Interval <= 0 || copies.Restore < 0 {
			return fmt.Errorf("costs: copies of scope %s each %s, restored in %s: the first has to be positive, and the second must not be negative", scope, copies.Interval, copies.Restore)
		}
	}
	if c.CheckpointInterval <= 0 {
		return fmt.Errorf("costs: CheckpointInterval is %s, and has to be positive", c.CheckpointInterval)
	}
	return nil
}
