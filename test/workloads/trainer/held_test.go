// Held: a run that waits shortly before its end, for a test that disturbs it and may be late.

package main

import (
	"os"
	"path/filepath"
	"time"
)

// heldAt is the step that a held run does not go beyond. It has no save of its own.
const heldAt = steps - 3

// holdName is a file in the shared folder: the run is held while it is there.
const holdName = "hold"

func (c *cluster) hold() {
	c.t.Helper()
	if err := os.MkdirAll(c.path("shared"), 0o755); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(c.path("shared", holdName), nil, 0o644); err != nil {
		c.t.Fatal(err)
	}
}

// release lets the run end.
func (c *cluster) release() {
	c.t.Helper()
	if err := os.Remove(c.path("shared", holdName)); err != nil {
		c.t.Fatal(err)
	}
}

// waits is how often this process has waited for the hold to end. All processes of a gang have the same number.
var waits int

// stepUnlessHeld makes the next step. Where the run is held it goes through all of a step's
// motions but the step itself: the ranks exchange, say which step they are at, and save, once by themselves
// and when they are asked to, so that a test finds a held run as it finds one that trains.
func stepUnlessHeld(r *rank) (save bool, err error) {
	if r.state.Step < heldAt {
		return r.step()
	}
	time.Sleep(r.stepTime)
	released := []float64{0} // how many ranks have seen that the run is not held
	if _, err := os.Stat(filepath.Join(r.shared, holdName)); os.IsNotExist(err) {
		released[0] = 1
	}
	wanted, err := r.gang.Reduce(r.state.Step, released, r.savings.wanted())
	if err != nil {
		return false, err
	}
	if released[0] > 0 {
		return r.step()
	}
	waits++
	r.emit("step", append([]any{"step", r.state.Step}, lossFields(r.state.Loss)...)...)
	return wanted || waits == every, nil
}
