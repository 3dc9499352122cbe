// A program that can never start, in pods whose kubelets start it again and again.

package policies

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/test/check"
)

// crashLoop is the container of a pod whose program fails three seconds after each start.
type crashLoop struct {
	crashes        int
	started, ended time.Time
}

// delay is how long a kubelet waits before it starts a container again.
func (c *crashLoop) delay() time.Duration {
	if c.crashes <= 1 {
		return 0
	}
	return min(10*time.Second<<min(c.crashes-2, 5), 300*time.Second)
}

// play is what happens to a rank at one time.
func (c *crashLoop) play(s *scene, i int) {
	p := &s.Pods[i]
	switch {
	case gang.IsStale(s.status(), p):
		s.replace(i)
		*c = crashLoop{}
	case p.Gated && len(s.plan().Lift) > 0:
		s.bind(i, fmt.Sprintf("n%02d", i))
		p.StartedTime, c.started = s.Now, s.Now
	case p.Ready && s.Now.Sub(c.started) >= 3*time.Second:
		s.exits(i, 1, s.Now.Sub(sceneStart))
		p.Failure.Containers[0].StartedTime = c.started
		c.crashes, c.ended = c.crashes+1, s.Now
	case !p.Gated && !p.Ready && s.Now.Sub(c.ended) >= c.delay():
		s.restarts(i)
		c.started = s.Now
	}
}

// It fails its job by the budget, too, although what kubelets do is not charged.
func TestKubeletsStartAProgramThatNeverStarts(t *testing.T) {
	s := running(4)
	began, loops := s.Now, make([]crashLoop, len(s.Pods))
	for i := range loops {
		loops[i].started = began
	}
	for ; s.Now.Sub(began) < 24*time.Hour && !gang.Finished(s.status()); s.after(time.Second) {
		for i := range loops {
			loops[i].play(s, i)
		}
		s.decide()
	}
	check.Equal(t, "reason", v1alpha1.ReasonBudgetExhausted, conditionReason(s, v1alpha1.ConditionFailed))
	check.Equal(t, "charged", int32(20), s.status().Restarts.Charged)
	check.Equal(t, "attempts", int32(1), s.status().Attempt)
	t.Logf("it failed after %s", s.Now.Sub(began).Round(time.Minute))
}
