// Processes that are killed.

package real

import (
	"testing"
	"time"
)

func TestAKilledProcessIsRestartedInPlace(t *testing.T) {
	s := train(t, "process", 6, 150)
	before := s.pods()
	s.must(s.AwaitSteps(s.ctx, 25))
	s.resumes("one process killed", func() error { return ground.KillContainers(s.ctx, s.key(3)) })
	s.must(s.Finish(s.ctx))
	s.survivorsStay(before)
	s.atHome(before)
	s.blames(before, 3)
}

func TestAllRanksAtOnce(t *testing.T) {
	s := train(t, "all", 6, 150)
	before := s.pods()
	s.must(s.AwaitSteps(s.ctx, 25))
	s.resumes("all processes killed at once", func() error {
		return ground.KillContainers(s.ctx, s.key(0), s.key(1), s.key(2), s.key(3), s.key(4), s.key(5))
	})
	s.must(s.Finish(s.ctx))
	s.survivorsStay(before)
	s.atHome(before)
}

// The kubelet waits longer from crash to crash, and the gang with it.
func TestFourCrashesInARow(t *testing.T) {
	s := train(t, "crashes", 6, 400)
	before := s.pods()
	var took []time.Duration
	for range 4 {
		s.must(s.AwaitSteps(s.ctx, s.LastStep()+12))
		took = append(took, s.resumes("one process killed", func() error { return ground.KillContainers(s.ctx, s.key(3)) }))
	}
	s.must(s.Finish(s.ctx))
	s.survivorsStay(before)
	s.atHome(before)
	s.blames(before, 3)
	s.knownFailure("the fourth crash takes no longer than twice the first", took[3] <= 2*took[0], "%v", took)
}
