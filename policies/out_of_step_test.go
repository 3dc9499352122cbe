// Tests of ranks whose kubelets restart them out of step: each is ready for a while, gives up waiting for the others, and fails again.

package policies

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/test/check"
)

// replaceAll has all pods that a step has restarted come back on their nodes, in the same second.
func (s *scene) replaceAll() {
	for i := range s.Pods {
		if p := s.Pods[i]; gang.IsStale(s.status(), &p) {
			s.replace(i)
			s.bind(i, p.Node)
		}
	}
}

// alternate has one rank after the other be ready for half a minute, for some minutes.
func (s *scene) alternate(minutes int) {
	for range 2 * minutes {
		for i := range s.Pods {
			if s.Pods[i].Phase == corev1.PodRunning {
				s.exits(i, 1, s.Now.Sub(sceneStart))
			}
		}
		s.restarts(int(s.Now.Unix()/30) % len(s.Pods))
		s.after(30 * time.Second).decide()
	}
}

// A ladder has come to its end, and its ranks do not meet: those that are down are restarted together, and charged.
func TestRanksThatDoNotMeetAreRestartedTogether(t *testing.T) {
	s := running(3, rule("all", step(v1alpha1.RestartJob, 0)))
	s.exits(0, 1, 0)
	s.decide()
	s.replaceAll()
	s.alternate(5)
	check.Equal(t, "lives, as long as kubelets may take", []int32{1, 1, 1}, s.lives())
	var together []time.Duration
	for range 60 {
		before := s.lives()
		s.alternate(1)
		raised := 0
		for i, life := range s.lives() {
			raised += int(life - before[i])
		}
		if raised > 0 {
			check.Equal(t, "restarted together", true, raised >= 2)
			together = append(together, s.Now.Sub(sceneStart).Truncate(time.Minute))
			s.replaceAll()
		}
	}
	var want []time.Duration
	for n := range 10 {
		want = append(want, time.Duration(n+1)*6*time.Minute)
	}
	check.Equal(t, "restarted", want, together)
	check.Equal(t, "incidents", 1, len(s.status().Incidents))
	check.Equal(t, "charged", int32(1+len(want)), s.status().Restarts.Charged)
	for _, f := range s.incident(t).Steps {
		check.Equal(t, "step is charged", true, f.Charged)
	}
	for range 120 {
		s.alternate(1)
		s.replaceAll()
	}
	check.Equal(t, "reason of the end", v1alpha1.ReasonBudgetExhausted, conditionReason(s, v1alpha1.ConditionFailed))
	check.Equal(t, "charged in the end", int32(20), s.status().Restarts.Charged)
}

// It looks again just when they have had their time.
func TestWhenRanksThatDoNotMeetAreLookedAt(t *testing.T) {
	s := running(3, rule("all", step(v1alpha1.RestartJob, 0)))
	s.exits(0, 1, 0)
	s.decide()
	for _, want := range []time.Duration{330 * time.Second, 660 * time.Second, 990 * time.Second} {
		s.replaceAll()
		for i := range s.Pods {
			s.exits(i, 1, s.Now.Sub(sceneStart))
		}
		d, life := s.decide(), s.lives()[0]
		for hops := 0; s.lives()[0] == life && hops < 10; hops++ {
			s.Now = d.Next
			d = s.decide()
		}
		check.Equal(t, "restarted", want, s.Now.Sub(sceneStart).Round(time.Second))
	}
}

// While a step is left, the ladder says when they are restarted.
func TestRanksThatDoNotMeetWaitForTheNextStep(t *testing.T) {
	s := running(3, rule("all", step(v1alpha1.RestartJob, 0), step(v1alpha1.RestartJob, 3600)))
	s.exits(0, 1, 0)
	s.decide()
	s.replaceAll()
	s.alternate(58)
	check.Equal(t, "lives", []int32{1, 1, 1}, s.lives())
	s.alternate(3)
	check.Equal(t, "fired", []string{"RestartJob@0", "RestartJob@3600"}, s.fired(t))
}

// A rank that has no peers is left to its kubelet.
func TestAnIndependentRankMeetsNobody(t *testing.T) {
	independent := func(t *v1alpha1.Task) { t.Independent = true }
	s := aScene(aJob().tasks(task("worker", 3, independent)).policy(withRules(rule("all", step(v1alpha1.RestartPod, 0))))).started().placed()
	s.exits(0, 1, 0)
	s.decide()
	s.replaceAll()
	s.exits(0, 1, 0)
	s.after(time.Hour).decide()
	check.Equal(t, "lives", []int32{1, 0, 0}, s.lives())
}

// A step for a task restarts the head. The first victim that does not come back makes the incident one of all workers: they are restarted
// together, and not the first alone.
func TestVictimsOfATaskAreRestartedTogether(t *testing.T) {
	all := rule("all", step(v1alpha1.RestartTask, 0), step(v1alpha1.RestartJob, 3600))
	s := aScene(aJob().tasks(task("head", 1), task("worker", 3)).policy(withRules(all))).started().placed()
	s.exits(0, 1, 0)
	s.decide()
	for i := 1; i < 4; i++ {
		s.exits(i, 1, time.Second)
	}
	s.after(time.Second).decide()
	s.replaceAll()
	d := s.after(time.Second).decide()
	check.Equal(t, "lives", []int32{1, 0, 0, 0}, s.lives())
	s.Now = d.Next
	s.decide()
	check.Equal(t, "lives, once victims have had their time", []int32{1, 1, 1, 1}, s.lives())
	check.Equal(t, "fired", []string{"RestartTask@0", "RestartPod@331"}, s.fired(t))
}

// A rank that has found room, and fails there, waits for no room any more.
func TestARankThatFailsInPlaceWaitsForNoRoom(t *testing.T) {
	s := searching(rule("no-room", on(v1alpha1.PodPending), step(v1alpha1.RelocateJob, 0)), rule("all", step(v1alpha1.RestartPod, 0), step(v1alpha1.RestartJob, 600)))
	s.after(30 * time.Second).decide()
	check.Equal(t, "trigger", v1alpha1.PodPending, s.incident(t).Trigger)
	for i := range s.Pods {
		s.replace(i)
	}
	s.decide()
	for i, node := range []string{"n06", "n07", "n08"} {
		s.bind(i, node)
	}
	s.exits(1, 1, 31*time.Second)
	s.decide()
	s.after(10 * time.Minute).decide()
	check.Equal(t, "steps of the first", 2, len(s.status().Incidents[0].Steps))
}

// A rank that did not start on its node was moved, has started, and fails in place. The incident that restarted its task goes on.
func TestARankThatFailsInPlaceDoesNotWaitForItsStart(t *testing.T) {
	s := running(3, rule("starts", on(v1alpha1.PodNotStarted), step(v1alpha1.MigratePod, 0)), rule("all", step(v1alpha1.RestartTask, 0), step(v1alpha1.RestartJob, 600)))
	s.crash(0, 1)
	s.decide()
	for i := range s.Pods {
		s.replace(i)
	}
	s.decide()
	for i, node := range []string{"n00", "n01", "n02"} {
		s.bind(i, node)
	}
	p := &s.Pods[1]
	p.Phase, p.Ready, p.WasReady, p.BoundTime, p.StartProblem = corev1.PodPending, false, false, s.Now, gang.StartProblem{Reason: "ImagePullBackOff"}
	for range 10 {
		s.after(30 * time.Second).decide()
	}
	s.replace(1)
	s.decide()
	s.bind(1, "n03")
	s.exits(1, 1, s.Now.Sub(sceneStart))
	s.decide()
	for range 20 {
		s.after(30 * time.Second).decide()
	}
	check.Equal(t, "step of the first", v1alpha1.RestartJob, s.status().Incidents[0].Steps[1].Action)
}
