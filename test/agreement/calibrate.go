// Calibration: the costs of the lab, from failures that are not among those which it predicts.

package main

import (
	"time"

	"github.com/lockstep-dev/lockstep/lab"
)

// restartInPlace is after how long simulated kubelets restart a container.
const restartInPlace = time.Second

// calibrate takes the costs from a process that exited and came back in place, a pod that was deleted, and a node that was lost. A
// cost that cannot be told from nothing is zero. What is not measured has the lab's default.
func calibrate(exit, deleted, lost *measurement) lab.Costs {
	c := lab.DefaultCosts()
	span := func(from, until time.Time) time.Duration { return max(0, until.Sub(from)) }

	// The first process that runs again tells how long a restart in place takes. All run again once the peers have aborted and have been
	// restarted, too; until they are ready is the program's.
	first, together := exit.seen.runningAgain(exit.failed[0])
	c.RestartInPlace, c.PeerAbort = span(exit.failed[0], first), span(first, together)
	c.Restore = span(together, exit.up)

	// A pod that is deleted is noticed, ends, is made again, and starts on its node. One that moves needs the scheduler.
	before, after := deleted.seen.replaced()
	c.React = span(deleted.failed[0], deleted.incidents[0].StartTime.Time)
	c.Stop = span(deleted.failed[0], before.gone)
	c.Recreate = span(before.gone, after.made)
	_, moved := lost.seen.replaced()
	c.Schedule = span(moved.lifted, moved.bound)
	c.Start = span(after.bound, after.running) // as lab.Costs says: until all are ready the peers count too, which the lab plays itself

	c.NodeNotReady = span(lost.failed[0], lost.seen.silent)
	return c
}
