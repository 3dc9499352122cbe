//go:build linux && cgo && !nodcgm

package agent

import (
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/test/dcgmsim"
)

// A fault is in the NodeHealth when the poll that first reads it is over, or the last of as many
// in a row as its row asks for: one interval after it is there at most, and what a poll takes.
// Time is counted in polls, for how long one takes is the machine's.
func TestTheFirstPollThatReadsAFaultPublishesIt(t *testing.T) {
	for signal, tc := range map[string]struct {
		inject func(*dcgmsim.State)
		polls  int
	}{
		"GPUResetNeeded": {func(e *dcgmsim.State) { e.SetField(dcgmsim.GPU, 0, 1523, 1) }, 1},
		"NVLinkRecovery": {func(e *dcgmsim.State) { e.SetField(dcgmsim.GPU, 0, 439, 8) }, 1},
		"XID79":          {func(e *dcgmsim.State) { e.XID(0, 79, time.Now()) }, 1},
		"NVLinkDown":     {func(e *dcgmsim.State) { e.SetLink(0, 3, dcgmsim.LinkDown) }, 2},
		"GPULost":        {func(e *dcgmsim.State) { e.Lose(0) }, 3},
	} {
		t.Run(signal, func(t *testing.T) {
			s := aStory(t).start()
			defer s.stop()
			s.engine.SetField(dcgmsim.GPU, 0, 1523, 0)
			s.engine.SetField(dcgmsim.GPU, 0, 439, 7)
			if status := s.polls(3); len(status.Reports) > 0 {
				t.Fatalf("reports of a node that is well: %+v", status.Reports)
			}
			tc.inject(s.engine)
			polls := 1
			for ; polls <= 5; polls++ {
				if reports := s.polls(1).Reports; len(reports) > 0 {
					if len(reports) > 1 || reports[0].Signal != signal {
						t.Errorf("reports %+v", reports)
					}
					break
				}
			}
			if polls != tc.polls {
				t.Errorf("published by poll %d, want %d", polls, tc.polls)
			}
		})
	}
}
