// Health moves: the share of a job that may be moved at once, and what does not count.

package policies

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/incident"
	"github.com/lockstep-dev/lockstep/test/check"
)

// bounded is a running job of which two pods may be moved for their health in an hour.
func bounded(replicas int32) *scene {
	s := starting(replicas)
	for i := len(s.Nodes); i < int(replicas); i++ {
		name := fmt.Sprintf("n%02d", i)
		s.Nodes[name] = gang.Node{Name: name, Hostname: "host-" + name, Ready: true}
	}
	s.placed()
	s.HealthPolicy = &v1alpha1.HealthPolicySpec{Breaker: v1alpha1.Breaker{Job: &v1alpha1.BreakerLimit{Percent: 25, Count: ptr.To[int32](2)}}}
	return s
}

func (s *scene) ail(signal gang.Signal, pods ...int) {
	for _, i := range pods {
		s.Pods[i].Signals = []gang.Signal{signal}
	}
}

func TestHealthMovesAreBounded(t *testing.T) {
	tests := map[string]struct {
		change func(*scene)
		moved  int
	}{
		"one":                       {func(s *scene) { s.ail(failed, 1) }, 1},
		"two":                       {func(s *scene) { s.ail(failed, 1, 2) }, 2},
		"more than may be":          {func(s *scene) { s.ail(failed, 0, 1, 2) }, 0},
		"as many after others":      {func(s *scene) { s.moved(time.Minute, 1); s.ail(failed, 1) }, 1},
		"one too many after others": {func(s *scene) { s.moved(time.Minute, 2); s.ail(failed, 1) }, 0},
		"others, an hour ago":       {func(s *scene) { s.moved(time.Hour, 2); s.ail(failed, 1) }, 1},
		"others, acknowledged": {func(s *scene) {
			s.moved(time.Minute, 2)
			s.HealthPolicy.Breaker.AcknowledgedTime = new(metav1.NewTime(s.Now.Add(-time.Second)))
			s.ail(failed, 1)
		}, 1},
		"what has failed by itself": {func(s *scene) { s.moved(time.Minute, 2); s.crash(0, 1); s.crash(1, 1); s.crash(2, 1) }, 3},
		"no policy":                 {func(s *scene) { s.HealthPolicy = nil; s.ail(failed, 0, 1, 2) }, 3},
		"defaults":                  {func(s *scene) { s.HealthPolicy.Breaker.Job = nil; s.ail(failed, 0, 1, 2) }, 0},
		"ignored":                   {func(s *scene) { s.ignoreHealth(); s.ail(failed, 0, 1, 2) }, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := bounded(4)
			tc.change(s)
			d := s.decide()
			if tc.moved == 0 && name != "ignored" {
				check.Equal(t, "says why", true, strings.Contains(meta.FindStatusCondition(s.status().Conditions, v1alpha1.ConditionRecovering).Message, "held back by the breaker"))
				check.Equal(t, "looks again", true, d.Next.After(s.Now))
			}
			check.Equal(t, "moved", tc.moved, len(s.plan().DeletePods))
		})
	}
}

// What is told of the breaker counts what was moved within its window: that is looked at again when a move leaves the window, also
// where that lets nothing through.
func TestLooksAgainWhenAMoveLeavesTheWindow(t *testing.T) {
	s := bounded(4)
	s.moved(time.Hour-5*time.Second, 1)
	s.moved(time.Minute, 2)
	s.ail(failed, 1)
	d := s.decide()
	check.Equal(t, "looks again", 5*time.Second, d.Next.Sub(s.Now))
}

// An acknowledgement by a clock that is ahead is looked at when it comes due, whatever is going on.
func TestLooksAgainWhenAnAcknowledgementComesDue(t *testing.T) {
	s := bounded(4)
	s.HealthPolicy.Breaker.AcknowledgedTime = new(metav1.NewTime(s.Now.Add(3 * time.Second)))
	s.unready(0)
	d := s.decide()
	check.Equal(t, "looks again", 3*time.Second, d.Next.Sub(s.Now))
}

// What the API bounds: how many moves a status remembers, and how many pods an incident names.
const (
	maxHealthMoves  = 32
	maxIncidentPods = 32
)

// moved is a move that the job remembers.
func (s *scene) moved(ago time.Duration, pods int32) {
	s.Job.Status.Restarts.HealthMoves = append(s.Job.Status.Restarts.HealthMoves, v1alpha1.HealthMove{Time: metav1.NewTime(s.Now.Add(-ago)), Pods: pods})
}

func (s *scene) ignoreHealth() {
	s.Job.Spec.RestartPolicy = &v1alpha1.RestartPolicy{Rules: []v1alpha1.Rule{rule("ill", on(v1alpha1.HealthFailed), step(v1alpha1.Ignore, 0))}}
}

// A program that ends by itself, which no rule is for, starts again in a new attempt, though one of its
// ranks is held back for its health.
func TestAJobThatEndsWhileARankIsHeldBack(t *testing.T) {
	s := bounded(4)
	s.Job.Spec.RestartPolicy = &v1alpha1.RestartPolicy{Rules: []v1alpha1.Rule{rule("ill", on(v1alpha1.HealthFailed), step(v1alpha1.MigratePod, 0))}}
	s.moved(time.Minute, 2)
	s.ail(failed, 1)
	s.decide()
	check.Equal(t, "held back", 0, len(s.plan().DeletePods))
	for i := range s.Pods {
		s.crash(i, 1)
	}
	s.VolcanoJobs[0].Ended = true
	s.decide()
	check.Equal(t, "attempt", int32(2), s.status().Attempt)
}

// Where the pod that is held back goes by itself, there is nothing left to hold back.
func TestAPodThatIsHeldBackAndGoes(t *testing.T) {
	s := bounded(4)
	s.moved(time.Minute, 2)
	s.ail(failed, 1, 2)
	s.decide()
	s.crash(1, 1)
	s.decide()
	s.replace(1)
	s.decide()
	check.Equal(t, "one of two", []v1alpha1.Outcome{"", ""}, s.outcomes())
	s.crash(2, 1)
	s.decide()
	s.replace(2)
	s.decide()
	check.Equal(t, "both", v1alpha1.OutcomeCancelled, s.outcomes()[0])
}

// A rank that is well again is not waited for: what was ill has gone with the other.
func TestAPodThatIsHeldBackAndGoesBesideOneThatIsWellAgain(t *testing.T) {
	s := bounded(4)
	s.moved(time.Minute, 2)
	s.ail(failed, 1, 2)
	s.decide()
	s.Pods[1].Signals = nil
	s.crash(2, 1)
	s.decide()
	s.replace(2)
	s.decide()
	check.Equal(t, "both", v1alpha1.OutcomeCancelled, s.outcomes()[0])
}

func (s *scene) outcomes() []v1alpha1.Outcome {
	var out []v1alpha1.Outcome
	for _, inc := range s.status().Incidents {
		out = append(out, inc.Outcome)
	}
	return out
}

// A whole job that is reported ill waits until somebody says that it is true.
func TestAnAcknowledgementLetsAWholeJobMove(t *testing.T) {
	s := bounded(4)
	s.ail(failed, 0, 1, 2, 3)
	s.decide()
	s.Now = s.Now.Add(24 * time.Hour)
	s.decide()
	check.Equal(t, "a day later", 0, len(s.plan().DeletePods))
	s.HealthPolicy.Breaker.AcknowledgedTime = new(metav1.NewTime(s.Now))
	s.decide()
	check.Equal(t, "acknowledged", 4, len(s.plan().DeletePods))
}

func TestHealthMovesAreRemembered(t *testing.T) {
	s := bounded(4)
	s.HealthPolicy.Breaker.Job.Count = ptr.To[int32](1000)
	for range maxHealthMoves + 5 {
		s.moved(30*time.Minute, 1)
	}
	s.moved(2*time.Hour, 50)
	s.ail(failed, 1)
	s.decide()
	moves := s.status().Restarts.HealthMoves
	check.Equal(t, "entries", maxHealthMoves, len(moves))
	check.Equal(t, "pods", maxHealthMoves+5+1, incident.MovedPods(moves))
}

// A program crashes at once when its GPU fails, and the report comes a poll later: by then the
// rank is on its way back to the very node. It moves, and its user does not pay for it.
func TestAReportExplainsACrash(t *testing.T) {
	tests := map[string]struct {
		on    string
		after time.Duration
		class v1alpha1.FailureClass
	}{
		"of the same node":           {"n01", 10 * time.Second, v1alpha1.ClassInfrastructure},
		"of another node":            {"n04", 10 * time.Second, v1alpha1.ClassUser},
		"of the same node, too late": {"n01", 2 * time.Minute, v1alpha1.ClassUser},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := running(3)
			s.crash(1, 134)
			s.decide()
			check.Equal(t, "charged", int32(1), s.status().Restarts.Charged)
			s.replace(1)
			s.decide()
			s.bind(1, tc.on)
			s.Pods[1].Ready = false
			s.Pods[1].Signals = []gang.Signal{failed}
			s.after(tc.after).decide()
			inc := s.incident(t)
			check.Equal(t, "class", tc.class, inc.Class)
			if tc.class == v1alpha1.ClassUser {
				return
			}
			check.Equal(t, "charged, now that it is known", int32(0), s.status().Restarts.Charged)
			check.Equal(t, "excluded", []string{"n01"}, s.excluded())
			check.Equal(t, "moved", 1, len(s.plan().DeletePods))
			lives := s.lives()
			s.after(time.Second).decide()
			check.Equal(t, "once", lives, s.lives())
		})
	}
}

// Reports that come one after the other, seconds apart, are bounded as those that come at once.
func TestLaterReportsAreBounded(t *testing.T) {
	s := bounded(6)
	s.ail(failed, 0)
	s.decide()
	check.Equal(t, "moved", 1, len(s.plan().DeletePods))
	for i := 1; i < 6; i++ {
		s.ail(failed, i)
		s.after(time.Second).decide()
	}
	check.Equal(t, "moved", 2, len(s.plan().DeletePods))
	check.Equal(t, "counted", 2, incident.MovedPods(s.status().Restarts.HealthMoves))
}

// A report of health must not be moved in the wake of a pod that failed by itself either.
func TestReportsInTheWakeOfACrashAreBounded(t *testing.T) {
	s := bounded(6)
	s.crash(0, 1)
	s.decide()
	s.ail(failed, 1, 2, 3, 4)
	s.after(time.Second).decide()
	check.Equal(t, "moved", 1, len(s.plan().DeletePods))
}

// What fails by itself while too much of its job is called ill is restarted at once, and alone.
func TestWhatFailsByItselfIsNotHeldBack(t *testing.T) {
	tests := map[string]struct {
		signal  gang.Signal
		fail    func(*scene)
		trigger v1alpha1.EventType
	}{
		"crashes, called failed":          {failed, func(s *scene) { s.crash(2, 1) }, v1alpha1.PodFailed},
		"crashes, called degraded":        {degraded, func(s *scene) { s.crash(2, 1) }, v1alpha1.PodFailed},
		"its node goes, called failed":    {failed, func(s *scene) { delete(s.Nodes, "n02") }, v1alpha1.NodeGone},
		"its node is silent":              {failed, func(s *scene) { s.node("n02", func(n *gang.Node) { n.Ready = false }) }, v1alpha1.NodeNotReady},
		"hangs in place, called degraded": {degraded, func(s *scene) { s.Pods[2].Ready = false }, v1alpha1.PodNotReady},
	}
	for name, tc := range tests {
		for _, replicas := range []int32{6, maxIncidentPods + 2} {
			t.Run(fmt.Sprint(name, replicas), func(t *testing.T) {
				s := bounded(replicas)
				for i := range int(replicas) {
					s.ail(tc.signal, i)
				}
				s.decide()
				s.after(time.Second).decide()
				s.after(10 * time.Minute).decide() // a rule may give it time
				check.Equal(t, "moved", 0, len(s.plan().DeletePods))
				tc.fail(s)
				s.after(time.Second).decide()
				s.after(90 * time.Second).decide()
				check.Equal(t, "moved", []string{s.Pods[2].Name}, deletedPods(s))
				incidents := s.status().Incidents
				if len(incidents) != 2 {
					t.Fatalf("incidents: %+v", incidents)
				}
				check.Equal(t, "trigger", tc.trigger, incidents[1].Trigger)
				s.after(time.Second).decide()
				check.Equal(t, "incidents, later", 2, len(s.status().Incidents))
			})
		}
	}
}

// A pod that does not start, while its health is held back by the breaker, is one incident, however long it takes: one that is about
// its start may act, and so covers the rank before the one that is held back.
func TestAPodThatDoesNotStartAndIsHeldBackIsOneIncident(t *testing.T) {
	s := bounded(4)
	s.Job.Spec.RestartPolicy = policy(withRules(rule("all", on(v1alpha1.AnyEvent), step(v1alpha1.RestartPod, 600))))
	s.moved(time.Minute, 2)
	p := &s.Pods[1]
	p.Phase, p.Ready, p.WasReady, p.BoundTime, p.StartProblem = corev1.PodPending, false, false, s.Now, gang.StartProblem{Reason: "ImagePullBackOff"}
	s.ail(failed, 1)
	for range 10 {
		s.decide()
		s.after(10 * time.Second)
	}
	var triggers []v1alpha1.EventType
	for _, inc := range s.status().Incidents {
		triggers = append(triggers, inc.Trigger)
	}
	check.Equal(t, "incidents", []v1alpha1.EventType{v1alpha1.HealthFailed, v1alpha1.PodNotStarted}, triggers)
}

func deletedPods(s *scene) []string {
	var out []string
	for _, d := range s.plan().DeletePods {
		out = append(out, d.Name)
	}
	return out
}

// What it says of the moves before counts those within the window, and looks again when an
// acknowledgement by a clock that is ahead comes true.
func TestWhatIsHeldBackSaysWhy(t *testing.T) {
	s := bounded(4)
	s.moved(2*time.Hour, 7)
	s.moved(time.Minute, 1)
	s.ail(failed, 1, 2)
	s.HealthPolicy.Breaker.AcknowledgedTime = new(metav1.NewTime(s.Now.Add(time.Minute)))
	d := s.decide()
	message := meta.FindStatusCondition(s.status().Conditions, v1alpha1.ConditionRecovering).Message
	check.Equal(t, "says", true, strings.Contains(message, "to move 2 of 4 pods for their health, after 1 within 1h0m0s"))
	check.Equal(t, "looks again", s.Now.Add(time.Minute), d.Next)
	s.after(59 * time.Second).decide()
	check.Equal(t, "before", 0, len(s.plan().DeletePods))
	s.after(time.Second).decide()
	check.Equal(t, "then", 2, len(s.plan().DeletePods))
}
