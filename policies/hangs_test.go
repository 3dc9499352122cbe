// Hangs: a rule for Stalled acts where steps are overdue and the processes show, too, that nothing computes.

package policies

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/test/check"
)

// hanging is a gang under rules whose steps are overdue, and whose ranks wait, but for some that do something else.
func hanging(other gang.Activity, others []int, rules ...v1alpha1.Rule) *scene {
	return hangingOf(3, other, others, rules...)
}

func hangingOf(ranks int32, other gang.Activity, others []int, rules ...v1alpha1.Rule) *scene {
	s := counting(ranks)
	s.Job.Spec.RestartPolicy = &v1alpha1.RestartPolicy{Rules: rules}
	s.do(gang.ActivityIdle, other, others...)
	s.after(time.Minute).decide()
	return s
}

// behind has the first rank say that no rank has launched a collective for some time, and that some are behind. All say their phases.
func (s *scene) behind(still time.Duration, ranks ...int) *scene {
	said := &gang.Collectives{Hosts: len(s.Pods), StillSince: s.Now.Add(-still)}
	for i := range s.Pods {
		s.Pods[i].Process.Addresses = []string{fmt.Sprintf("10.0.0.%d", i)}
		if s.Pods[i].Training == nil {
			s.says(i, gang.TrainingProgress{Phase: v1alpha1.PhaseTrain})
		}
		s.Pods[i].Training.Phases = true
		if slices.Contains(ranks, i) {
			said.Behind = append(said.Behind, s.Pods[i].Process.Addresses...)
		}
	}
	s.Pods[0].Process.Collectives = said
	return s
}

// spin has the GPUs of ranks execute kernels and move no data for some time.
func (s *scene) spin(time time.Duration, ranks ...int) *scene {
	for _, i := range ranks {
		s.Pods[i].SpinsSince = s.Now.Add(-time)
	}
	return s
}

func hangs(steps ...func(*v1alpha1.Rule)) v1alpha1.Rule {
	return rule("hangs", append([]func(*v1alpha1.Rule){on(v1alpha1.Stalled)}, steps...)...)
}

// One line has the programs of a gang that hangs restarted. All other failures stay under the default rules.
func TestARuleForStalledIsOneLine(t *testing.T) {
	s := hanging(gang.ActivityStopped, []int{2}, hangs(step(v1alpha1.RestartProcesses, 0)))
	check.Equal(t, "incidents in the pass that finds the stall", 0, len(s.status().Incidents))
	s.decide()
	check.Equal(t, "incidents", []summary{{v1alpha1.Stalled, v1alpha1.ClassMaintenance, "hangs", 1, ""}}, s.summaries())
	check.Equal(t, "cause", v1alpha1.Cause{Pod: "llm-1-worker-2", Node: "n02", Reason: "Stopped"}, s.incident(t).Cause)
	check.Equal(t, "steps", []string{"RestartProcesses@0"}, s.fired(t))
	check.Equal(t, "epoch", int64(2), s.status().Epoch)
	check.Equal(t, "lives", []int32{0, 0, 0}, s.lives())
	check.Equal(t, "charged", int32(0), s.status().Restarts.Charged)
	check.Equal(t, "stalled", "", s.stalled())
	s.after(time.Second).decide()
	check.Equal(t, "outcome before they run", v1alpha1.Outcome(""), s.incident(t).Outcome)
	s.all(gang.ProcessRunning)
	s.after(time.Second).decide()
	check.Equal(t, "outcome", v1alpha1.OutcomeRecovered, s.incident(t).Outcome)
	s.fails(0, 1)
	s.decide()
	check.Equal(t, "rule of another failure", "program-fails", s.status().Incidents[1].Rule)
}

// stuck has programs not stop for the restart that has begun, while the others wait for them, and lets minutes pass.
func (s *scene) stuck(minutes int, ranks ...int) {
	for i := range s.Pods {
		s.Pods[i].Process = &gang.Process{Epoch: s.status().Epoch, State: gang.ProcessWaiting, HeardSince: s.Now}
		if slices.Contains(ranks, i) {
			s.Pods[i].Process.State = gang.ProcessStopping
		}
	}
	for range minutes {
		s.after(time.Minute).decide()
	}
}

// A program that is blocked for good, as by a disk, cannot be stopped. Where its rule has no step left, the next rule has: its pod moves. Where all ranks are
// blocked, as by a file system that they share, no other node is better, and they wait.
func TestAProgramThatIsBlockedForGood(t *testing.T) {
	restart := hangs(step(v1alpha1.RestartProcesses, 0))
	moves := summary{v1alpha1.ProcessStuck, v1alpha1.ClassInfrastructure, "everything-else", 1, ""}
	hung := func(class v1alpha1.FailureClass, pods int32, outcome v1alpha1.Outcome) summary {
		return summary{v1alpha1.Stalled, class, "hangs", pods, outcome}
	}
	for name, tc := range map[string]struct {
		blocked, stuck []int
		want           []summary
	}{
		"one":                            {[]int{0}, []int{0}, []summary{hung(v1alpha1.ClassInfrastructure, 1, v1alpha1.OutcomeFailed), moves}},
		"all":                            {[]int{0, 1, 2}, []int{0, 1, 2}, []summary{hung(v1alpha1.ClassInfrastructure, 3, "")}},
		"one of all that were blocked":   {[]int{0, 1, 2}, []int{0}, []summary{hung(v1alpha1.ClassInfrastructure, 3, v1alpha1.OutcomeFailed), moves}},
		"one where none was known to be": {nil, []int{0}, []summary{hung(v1alpha1.ClassMaintenance, 3, v1alpha1.OutcomeFailed), moves}},
	} {
		t.Run(name, func(t *testing.T) {
			activity := gang.ActivityBlocked
			if tc.blocked == nil {
				activity = gang.ActivityIdle
			}
			s := hanging(activity, tc.blocked, restart)
			s.decide()
			s.stuck(4, tc.stuck...)
			check.Equal(t, "incidents", tc.want, s.summaries())
		})
	}
}

// A program that is not heard for a moment after its restart is not stuck, however long another rank has been loading since.
func TestAProgramThatIsNotHeardIsNotStuck(t *testing.T) {
	s := hanging(gang.ActivityStopped, []int{0}, hangs(step(v1alpha1.RestartProcesses, 0)))
	s.decide()
	s.all(gang.ProcessRunning)
	s.Pods[1].Ready = false
	s.after(200 * time.Second).decide()
	s.Pods[0].Process = nil
	s.after(time.Second).decide()
	check.Equal(t, "incidents", []summary{{v1alpha1.Stalled, v1alpha1.ClassMaintenance, "hangs", 1, ""}}, s.summaries())
}

// A rule that does nothing about programs that cannot be stopped leaves the incident of their restart as it is.
func TestProgramsThatAreStuckMayBeIgnored(t *testing.T) {
	s := hanging(gang.ActivityBlocked, []int{1}, hangs(step(v1alpha1.RestartProcesses, 0)),
		rule("stuck", on(v1alpha1.ProcessStuck), step(v1alpha1.Ignore, 0)), rule("rest", on(v1alpha1.AnyEvent), step(v1alpha1.RestartPod, 90)))
	s.decide()
	for i := range s.Pods {
		s.Pods[i].Ready = false
	}
	s.stuck(6, 1)
	check.Equal(t, "incidents", []summary{{v1alpha1.Stalled, v1alpha1.ClassInfrastructure, "hangs", 1, ""}}, s.summaries())
	check.Equal(t, "lives", []int32{0, 0, 0}, s.lives())
}

// One rank is seen to be blocked before the others are: it is not the cause of a hang of all.
func TestAHangThatAllJoin(t *testing.T) {
	s := hanging(gang.ActivityBlocked, []int{1}, hangs(step(v1alpha1.RestartProcesses, 60)))
	s.decide()
	check.Equal(t, "cause", "llm-1-worker-1", s.incident(t).Cause.Pod)
	s.do(gang.ActivityBlocked, gang.ActivityBlocked)
	s.after(10 * time.Second).decide()
	check.Equal(t, "cause once all are blocked", v1alpha1.Cause{Reason: "Blocked"}, s.incident(t).Cause)
	s.after(50 * time.Second).decide()
	check.Equal(t, "excluded nodes", 0, len(s.status().ExcludedNodes))
}

// Ranks that share a node are blocked by that node, and not by what the gang shares.
func TestAHangOfOneNode(t *testing.T) {
	s := counting(3)
	for i := range s.Pods {
		s.Pods[i].Node = "n00"
	}
	s.Job.Spec.RestartPolicy = &v1alpha1.RestartPolicy{Rules: []v1alpha1.Rule{hangs(step(v1alpha1.MigratePod, 0))}}
	s.decide()
	s.do(gang.ActivityBlocked, gang.ActivityBlocked)
	s.after(time.Minute).decide()
	s.decide()
	check.Equal(t, "node of the cause", "n00", s.incident(t).Cause.Node)
	check.Equal(t, "excluded nodes", 1, len(s.status().ExcludedNodes))
}

// What the processes of a gang that has stalled do is heard without a pass, and looked at again where a rule is for it.
func TestAStallIsLookedAtAgainUnderARule(t *testing.T) {
	s := hanging(gang.ActivityBusy, []int{0}, hangs(step(v1alpha1.RestartProcesses, 0)))
	check.Equal(t, "next", s.Now.Add(10*time.Second), s.decide().Next)
	check.Equal(t, "supervisors look closer", true, s.plan().Order.Stalled)
	s.do(gang.ActivityIdle, gang.ActivityIdle)
	s.after(10 * time.Second).decide()
	check.Equal(t, "steps", []string{"RestartProcesses@0"}, s.fired(t))
	s = hanging(gang.ActivityBusy, []int{0})
	check.Equal(t, "next without a rule", s.status().Progress.UpdateTime.Add(5*time.Minute), s.decide().Next)
}

func TestHangs(t *testing.T) {
	restart := hangs(step(v1alpha1.RestartProcesses, 0))
	tests := map[string]struct {
		scene func() *scene
		named []v1alpha1.IncidentRanks // nil for no incident
		cause v1alpha1.Cause
		class v1alpha1.FailureClass
	}{
		"one is stopped": {func() *scene { return hanging(gang.ActivityStopped, []int{1}, restart) },
			[]v1alpha1.IncidentRanks{{Task: "worker", Failed: "1"}}, v1alpha1.Cause{Pod: "llm-1-worker-1", Node: "n01", Reason: "Stopped"}, v1alpha1.ClassMaintenance},
		"one is stopped, and another computes": {func() *scene {
			s := hanging(gang.ActivityStopped, []int{1}, restart)
			s.Pods[2].Process.Activity = gang.ActivityBusy
			return s
		}, []v1alpha1.IncidentRanks{{Task: "worker", Failed: "1"}}, v1alpha1.Cause{Pod: "llm-1-worker-1", Node: "n01", Reason: "Stopped"}, v1alpha1.ClassMaintenance},
		"one is blocked": {func() *scene { return hanging(gang.ActivityBlocked, []int{1}, restart) },
			[]v1alpha1.IncidentRanks{{Task: "worker", Failed: "1"}}, v1alpha1.Cause{Pod: "llm-1-worker-1", Node: "n01", Reason: "Blocked"}, v1alpha1.ClassInfrastructure},
		"two are blocked": {func() *scene { return hanging(gang.ActivityBlocked, []int{0, 1}, restart) },
			[]v1alpha1.IncidentRanks{{Task: "worker", Failed: "0-1"}}, v1alpha1.Cause{Pod: "llm-1-worker-0", Node: "n00", Reason: "Blocked"}, v1alpha1.ClassInfrastructure},
		"all are blocked, as by a file system, and nobody is to blame": {func() *scene { return hanging(gang.ActivityBlocked, []int{0, 1, 2}, restart) },
			[]v1alpha1.IncidentRanks{{Task: "worker", Failed: "0-2"}}, v1alpha1.Cause{Reason: "Blocked"}, v1alpha1.ClassInfrastructure},
		"the only one is blocked": {func() *scene { return hangingOf(1, gang.ActivityBlocked, []int{0}, restart) },
			[]v1alpha1.IncidentRanks{{Task: "worker", Failed: "0"}}, v1alpha1.Cause{Pod: "llm-1-worker-0", Node: "n00", Reason: "Blocked"}, v1alpha1.ClassInfrastructure},
		"all wait, and nobody is to blame": {func() *scene { return hanging(gang.ActivityIdle, nil, restart) },
			[]v1alpha1.IncidentRanks{{Task: "worker", Failed: "0-2"}}, v1alpha1.Cause{Reason: "Idle"}, v1alpha1.ClassMaintenance},
		"one is behind in a collective": {func() *scene { return hanging(gang.ActivityBusy, []int{0, 1, 2}, restart).behind(time.Minute, 1) },
			[]v1alpha1.IncidentRanks{{Task: "worker", Failed: "1"}}, v1alpha1.Cause{Pod: "llm-1-worker-1", Node: "n01", Reason: "Behind"}, v1alpha1.ClassMaintenance},
		"one is behind, and waits": {func() *scene { return hanging(gang.ActivityBusy, []int{0, 2}, restart).behind(time.Minute, 1) },
			[]v1alpha1.IncidentRanks{{Task: "worker", Failed: "1"}}, v1alpha1.Cause{Pod: "llm-1-worker-1", Node: "n01", Reason: "Behind"}, v1alpha1.ClassMaintenance},
		"one is stopped, for which the others wait in a collective": {func() *scene {
			s := hanging(gang.ActivityBusy, []int{0, 2}, restart)
			s.Pods[1].Process.Activity = gang.ActivityStopped
			return s.behind(time.Minute, 1)
		}, []v1alpha1.IncidentRanks{{Task: "worker", Failed: "1"}}, v1alpha1.Cause{Pod: "llm-1-worker-1", Node: "n01", Reason: "Stopped"}, v1alpha1.ClassMaintenance},
		"none is behind: all may compute": {scene: func() *scene { return hanging(gang.ActivityBusy, []int{0, 1, 2}, restart).behind(time.Minute) }},
		"one is blocked, beside one that is behind": {func() *scene {
			s := hanging(gang.ActivityBusy, []int{0}, restart).behind(time.Minute, 0)
			s.Pods[1].Process.Activity = gang.ActivityBlocked
			return s
		}, []v1alpha1.IncidentRanks{{Task: "worker", Failed: "1"}}, v1alpha1.Cause{Pod: "llm-1-worker-1", Node: "n01", Reason: "Blocked"}, v1alpha1.ClassInfrastructure},
		"one is behind, and the program does not say its phases: it may evaluate": {scene: func() *scene {
			s := hanging(gang.ActivityBusy, []int{1}, restart).behind(time.Minute, 1)
			s.Pods[1].Training.Phases = false
			return s
		}},
		"one is behind, and another is in no communicator": {scene: func() *scene {
			s := hanging(gang.ActivityBusy, []int{1, 2}, restart).behind(time.Minute, 1)
			s.Pods[0].Process.Collectives.Hosts = 2
			return s
		}},
		"one is behind whose address another one has, too": {scene: func() *scene {
			s := hanging(gang.ActivityBusy, []int{0, 1, 2}, restart).behind(time.Minute, 1)
			s.Pods[2].Process.Addresses = s.Pods[1].Process.Addresses
			return s
		}},
		"one is behind for less than half the limit": {scene: func() *scene { return hanging(gang.ActivityBusy, []int{0, 1, 2}, restart).behind(29*time.Second, 1) }},
		"one is behind in a stream that has just come up": {scene: func() *scene {
			s := hanging(gang.ActivityBusy, []int{0, 1, 2}, restart).behind(time.Minute, 1)
			s.Pods[0].Process.HeardSince = s.Now
			return s
		}},
		"the GPUs of all spin, and a node did not answer for a while": {func() *scene {
			s := hanging(gang.ActivityBusy, []int{0, 1, 2}, restart).spin(time.Minute, 0, 1, 2)
			s.node("n01", func(n *gang.Node) { n.Ready = false })
			s.decide()
			s.node("n01", func(n *gang.Node) { n.Ready = true })
			s.after(10 * time.Second).decide()
			s.after(time.Minute).decide()
			return s
		}, []v1alpha1.IncidentRanks{{Task: "worker", Failed: "0-2"}}, v1alpha1.Cause{Reason: "Spinning"}, v1alpha1.ClassMaintenance},
		"the GPUs of all spin, and another leader hears of it": {func() *scene {
			s := counting(3)
			s.Job.Spec.RestartPolicy = &v1alpha1.RestartPolicy{Rules: []v1alpha1.Rule{restart}}
			s.do(gang.ActivityBusy, gang.ActivityBusy)
			s.spin(0, 0, 1, 2).after(40 * time.Second)
			s.Pods[0].Process.HeardSince, s.Pods[0].Training.MovedTime = s.Now, s.Now
			s.after(10 * time.Second)
			s.Pods[0].Process.HeardSince = s.Now // and its stream drops once
			s.after(time.Minute).decide()
			return s
		}, []v1alpha1.IncidentRanks{{Task: "worker", Failed: "0-2"}}, v1alpha1.Cause{Reason: "Spinning"}, v1alpha1.ClassMaintenance},
		"the GPUs of all that have some spin": {func() *scene { return hanging(gang.ActivityBusy, []int{1, 2}, restart).spin(time.Minute, 1, 2) },
			[]v1alpha1.IncidentRanks{{Task: "worker", Failed: "0-2"}}, v1alpha1.Cause{Reason: "Spinning"}, v1alpha1.ClassMaintenance},
		"the GPUs of all spun while steps came, and another leader hears of them": {scene: func() *scene {
			s := hanging(gang.ActivityBusy, []int{0, 1, 2}, restart).spin(time.Hour, 0, 1, 2)
			s.Pods[0].Process.HeardSince, s.Pods[0].Training.MovedTime = s.Now, s.Now
			return s.after(2 * time.Minute)
		}},
		"the GPUs of all spin, and a supervisor does not say when the last step was": {scene: func() *scene {
			s := hanging(gang.ActivityBusy, []int{0, 1, 2}, restart).spin(time.Minute, 0, 1, 2)
			s.Pods[0].Training.SaidTime = time.Time{}
			return s
		}},
		"the only GPU spins": {scene: func() *scene {
			s := hangingOf(1, gang.ActivityBusy, []int{0}, restart).spin(time.Minute, 0)
			s.Requests["worker"] = gpus(1)
			return s
		}},
		"the GPUs of the only rank spin": {func() *scene { return hangingOf(1, gang.ActivityBusy, []int{0}, restart).spin(time.Minute, 0) },
			[]v1alpha1.IncidentRanks{{Task: "worker", Failed: "0"}}, v1alpha1.Cause{Reason: "Spinning"}, v1alpha1.ClassMaintenance},
		"one is behind, and another mesh moves": {scene: func() *scene {
			s := hanging(gang.ActivityBusy, []int{0, 1, 2}, restart).behind(time.Minute, 1)
			s.Pods[2].Process.Collectives = &gang.Collectives{}
			return s
		}},
		// As in issue 1730 of NVIDIA/nccl, and 7344 of marin-community/marin.
		"the GPUs of all spin, and none is to blame": {func() *scene { return hanging(gang.ActivityBusy, []int{0, 1, 2}, restart).spin(time.Minute, 0, 1, 2) },
			[]v1alpha1.IncidentRanks{{Task: "worker", Failed: "0-2"}}, v1alpha1.Cause{Reason: "Spinning"}, v1alpha1.ClassMaintenance},
		"the GPUs of those spin that wait for one that is blocked": {func() *scene {
			s := hanging(gang.ActivityBusy, []int{0, 2}, restart).spin(30*time.Second, 0, 2)
			s.Pods[1].Process.Activity = gang.ActivityBlocked
			return s
		}, []v1alpha1.IncidentRanks{{Task: "worker", Failed: "1"}}, v1alpha1.Cause{Pod: "llm-1-worker-1", Node: "n01", Reason: "Blocked"}, v1alpha1.ClassInfrastructure},
		"the GPUs of all spin, and one is behind": {func() *scene {
			return hanging(gang.ActivityBusy, []int{0, 1, 2}, restart).behind(time.Minute, 1).spin(time.Minute, 0, 1, 2)
		}, []v1alpha1.IncidentRanks{{Task: "worker", Failed: "1"}}, v1alpha1.Cause{Pod: "llm-1-worker-1", Node: "n01", Reason: "Behind"}, v1alpha1.ClassMaintenance},
		"one computes, and the GPUs of the others spin": {scene: func() *scene {
			return hanging(gang.ActivityBusy, []int{0, 1, 2}, restart).spin(time.Minute, 0, 2)
		}},
		"the GPU of one has spun for less than half the limit": {scene: func() *scene {
			return hanging(gang.ActivityBusy, []int{0, 1, 2}, restart).spin(time.Minute, 0, 1).spin(29*time.Second, 2)
		}},
		"the GPU of one has spun while steps came": {scene: func() *scene {
			return hanging(gang.ActivityBusy, []int{0, 1, 2}, restart).spin(time.Minute, 0, 1).spin(90*time.Second, 2)
		}},
		"the GPU of one is said to spin since long before the last step": {scene: func() *scene {
			return hanging(gang.ActivityBusy, []int{0, 1, 2}, restart).spin(time.Minute, 0, 1).spin(2*time.Hour, 2)
		}},
		"one computes, as in an evaluation": {scene: func() *scene { return hanging(gang.ActivityBusy, []int{0}, restart) }},
		"one is blocked, and another computes": {scene: func() *scene {
			s := hanging(gang.ActivityBlocked, []int{1}, restart)
			s.Pods[2].Process.Activity = gang.ActivityBusy
			return s
		}},
		"one that counts otherwise makes a step": {scene: func() *scene {
			s := hanging(gang.ActivityIdle, nil, restart)
			s.steps(1)
			*s.Pods[1].Training.Step = 50
			return s
		}},
		"programs heal themselves": {scene: func() *scene {
			s := hanging(gang.ActivityStopped, []int{1}, restart)
			s.Job.Spec.Supervisor.Survivors = v1alpha1.SurvivorsKeep
			return s
		}},
		"of one it is not known": {scene: func() *scene { return hanging(gang.ActivityUnknown, []int{0}, restart) }},
		"one is not heard": {scene: func() *scene {
			s := hanging(gang.ActivityStopped, []int{1}, restart)
			s.Pods[2].Process = nil
			return s
		}},
		"one is of an earlier run": {scene: func() *scene {
			s := hanging(gang.ActivityStopped, []int{1}, restart)
			s.Pods[2].Process.Epoch = 0
			return s
		}},
		"a step comes": {scene: func() *scene {
			s := hanging(gang.ActivityStopped, []int{1}, restart)
			*s.Pods[0].Training.Step++
			s.Pods[0].Training.MovedTime = s.Now
			return s
		}},
		"one does not run": {scene: func() *scene {
			s := hanging(gang.ActivityStopped, []int{1}, restart)
			s.Pods[2].Process.State = gang.ProcessSucceeded
			return s
		}},
		"one evaluates": {scene: func() *scene {
			s := hanging(gang.ActivityStopped, []int{1}, restart)
			s.says(2, gang.TrainingProgress{Phase: v1alpha1.PhaseEvaluate})
			return s
		}},
		"another leader has heard of no step yet": {scene: func() *scene {
			s := hanging(gang.ActivityStopped, []int{1}, restart)
			s.Pods[0].Training = nil
			return s
		}},
		"the rule is for all events": {scene: func() *scene {
			return hanging(gang.ActivityStopped, []int{1}, rule("all", on(v1alpha1.AnyEvent), step(v1alpha1.RestartPod, 0)))
		}},
		"the rule names none": {scene: func() *scene {
			return hanging(gang.ActivityStopped, []int{1}, rule("all", step(v1alpha1.RestartPod, 0)))
		}},
		"there is no rule": {scene: func() *scene { return hanging(gang.ActivityStopped, []int{1}) }},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := tc.scene()
			s.decide()
			if tc.named == nil {
				check.Equal(t, "incidents", 0, len(s.status().Incidents))
				check.Equal(t, "epoch", int64(1), s.status().Epoch)
				return
			}
			inc := s.incident(t)
			check.Equal(t, "ranks", tc.named, inc.Ranks)
			check.Equal(t, "cause", tc.cause, inc.Cause)
			check.Equal(t, "class", tc.class, inc.Class)
		})
	}
}

// A step that is not due waits for as long as the gang hangs, and is not taken once steps come again.
func TestAHangThatEnds(t *testing.T) {
	s := hanging(gang.ActivityIdle, nil, hangs(step(v1alpha1.RestartProcesses, 60)))
	s.decide()
	check.Equal(t, "steps", 0, len(s.incident(t).Steps))
	s.after(59 * time.Second).decide()
	check.Equal(t, "outcome while it hangs", v1alpha1.Outcome(""), s.incident(t).Outcome)
	check.Equal(t, "stalled", true, s.stalled() != "")
	*s.Pods[0].Training.Step++
	s.Pods[0].Training.MovedTime = s.Now
	s.decide()
	s.after(time.Second).decide()
	check.Equal(t, "outcome", v1alpha1.OutcomeRecovered, s.incident(t).Outcome)
	check.Equal(t, "epoch", int64(1), s.status().Epoch)

	s = hanging(gang.ActivityIdle, nil, hangs(step(v1alpha1.RestartProcesses, 60)))
	s.decide()
	s.after(time.Minute).decide()
	check.Equal(t, "steps of one that hangs on", []string{"RestartProcesses@60"}, s.fired(t))
}

// One stall is one incident, whatever is seen of it for a while. Its step waits until it is seen.
func TestAHangThatIsNotSeenForAWhile(t *testing.T) {
	s := hanging(gang.ActivityIdle, nil, hangs(step(v1alpha1.RestartProcesses, 60)))
	s.decide()
	stream := s.Pods[2].Process
	s.Pods[2].Process = nil
	s.after(20 * time.Second).decide()
	s.after(50 * time.Second)
	check.Equal(t, "next", s.Now.Add(10*time.Second), s.decide().Next)
	check.Equal(t, "outcome", v1alpha1.Outcome(""), s.incident(t).Outcome)
	check.Equal(t, "steps", 0, len(s.incident(t).Steps))
	s.Pods[2].Process = stream
	s.do(gang.ActivityIdle, gang.ActivityBusy, 0)
	s.after(10 * time.Second).decide()
	check.Equal(t, "steps while one computes", 0, len(s.incident(t).Steps))
	s.do(gang.ActivityIdle, gang.ActivityIdle)
	s.after(10 * time.Second).decide()
	check.Equal(t, "steps", []string{"RestartProcesses@90"}, s.fired(t))
	check.Equal(t, "incidents", 1, len(s.status().Incidents))
}

// A rank that counts lower than another one ends a stall by its steps, too.
func TestAStepOfARankThatCountsLowerEndsAStall(t *testing.T) {
	s := counting(3)
	s.steps(1)
	*s.Pods[1].Training.Step = 50
	s.after(time.Minute).decide()
	check.Equal(t, "stalled", true, s.stalled() != "")
	*s.Pods[1].Training.Step = 51
	s.Pods[1].Training.MovedTime = s.Now.Add(time.Second)
	s.after(time.Second).decide()
	check.Equal(t, "stalled after a step", "", s.stalled())
}

// Where all do the same nobody's node is to blame, and where one of them fails then the others have only waited.
func TestAHangOfAll(t *testing.T) {
	for _, a := range []v1alpha1.Action{v1alpha1.MigratePod, v1alpha1.RestartPod} {
		for _, does := range []gang.Activity{gang.ActivityIdle, gang.ActivityBlocked, gang.ActivityStopped} {
			s := hanging(does, []int{0, 1, 2}, hangs(step(a, 0)))
			s.decide()
			check.Equal(t, "steps", []string{string(a) + "@0"}, s.fired(t))
			check.Equal(t, "excluded", 0, len(s.status().ExcludedNodes))
		}
	}

	s := hanging(gang.ActivityIdle, nil, hangs(step(v1alpha1.RestartProcesses, 60)))
	s.decide()
	s.fails(0, 1)
	s.after(time.Second).decide()
	check.Equal(t, "rule", "program-fails", s.incident(t).Rule)
	check.Equal(t, "ranks", []v1alpha1.IncidentRanks{{Task: "worker", Failed: "0"}}, s.incident(t).Ranks)
}

// What processes do is seen for a moment. A rank that is blocked is the culprit, whatever is seen before or after, and of one stall there is one incident.
func TestAHangOfWhichMoreIsSeen(t *testing.T) {
	for name, other := range map[string]struct {
		before, after []int
		wait          time.Duration
	}{
		"blocked, then all wait":        {[]int{1}, nil, 5 * time.Second},
		"blocked, then all wait, later": {[]int{1}, nil, 30 * time.Second},
		"all wait, then one is blocked": {nil, []int{1}, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			s := hanging(gang.ActivityBlocked, other.before, hangs(step(v1alpha1.RestartPod, 60)))
			s.decide()
			s.do(gang.ActivityIdle, gang.ActivityBlocked, other.after...)
			s.after(other.wait).decide()
			s.do(gang.ActivityIdle, gang.ActivityBlocked, 1)
			s.after(time.Minute).decide()
			check.Equal(t, "incidents", 1, len(s.status().Incidents))
			check.Equal(t, "lives", []int32{0, 1, 0}, s.lives())
			check.Equal(t, "cause", "llm-1-worker-1", s.incident(t).Cause.Pod)
			check.Equal(t, "class", v1alpha1.ClassInfrastructure, s.incident(t).Class)
		})
	}
}

// A rank that has said too few steps to have a limit ends a stall by its steps, and hangs by none.
func TestARankWithoutALimitMakesSteps(t *testing.T) {
	s := hanging(gang.ActivityIdle, nil, hangs(step(v1alpha1.RestartProcesses, 0)))
	s.steps(1)
	s.Pods[1].Training.Overdue = 0
	*s.Pods[1].Training.Step = 3
	s.decide()
	check.Equal(t, "incidents", 0, len(s.status().Incidents))
	check.Equal(t, "stalled", "", s.stalled())
	s.after(time.Minute).decide()
	check.Equal(t, "stalled, when its step is overdue by those of the others", true, s.stalled() != "")
}

// A rule for hangs may have the name of another one.
func TestNamesOfRulesForStalled(t *testing.T) {
	s := counting(3)
	s.Job.Spec.RestartPolicy = &v1alpha1.RestartPolicy{Rules: []v1alpha1.Rule{rule("program-fails", on(v1alpha1.Stalled), step(v1alpha1.FailJob, 0))}}
	s.decide()
	s.fails(0, 1)
	s.after(time.Second).decide()
	check.Equal(t, "steps for a program that fails", []string{"RestartProcesses@0"}, s.fired(t))

	s = counting(3)
	blocked := hangs(step(v1alpha1.FailJob, 0))
	blocked.Match.Reasons = []string{"Blocked"}
	s.Job.Spec.RestartPolicy = &v1alpha1.RestartPolicy{Rules: []v1alpha1.Rule{hangs(step(v1alpha1.RestartProcesses, 0))}}
	s.Job.Spec.Tasks[0].RestartPolicy = &v1alpha1.RestartPolicy{Rules: []v1alpha1.Rule{blocked}}
	s.do(gang.ActivityIdle, gang.ActivityStopped, 1)
	s.after(time.Minute).decide()
	s.decide()
	check.Equal(t, "incidents by the job's rule, in whose place the task has one", 0, len(s.status().Incidents))
}

// Tasks that differ in their rules for hangs alone fail together.
func TestATaskWithARuleForStalledFailsWithTheOthers(t *testing.T) {
	job := aJob().tasks(task("worker", 2), task("ps", 2))
	job.Spec.Supervisor = &v1alpha1.Supervisor{}
	job.Spec.Tasks[1].RestartPolicy = &v1alpha1.RestartPolicy{Rules: []v1alpha1.Rule{hangs(step(v1alpha1.RestartProcesses, 0))}}
	s := aScene(job).started().placed()
	s.all(gang.ProcessRunning)
	s.decide()
	s.crash(0, 137)
	s.crash(2, 137)
	s.Pods[0].Process, s.Pods[2].Process = nil, nil
	s.after(time.Hour).decide()
	check.Equal(t, "incidents", 1, len(s.status().Incidents))
}

// A step for pods replaces those that hang, and no others.
func TestAHangThatGetsAnotherPod(t *testing.T) {
	s := hanging(gang.ActivityBlocked, []int{1}, hangs(step(v1alpha1.RestartPod, 0)))
	s.decide()
	check.Equal(t, "lives", []int32{0, 1, 0}, s.lives())
	check.Equal(t, "excluded", "n01", s.status().ExcludedNodes[0].Name)

	s = hanging(gang.ActivityStopped, []int{1}, hangs(step(v1alpha1.RestartPod, 0)))
	s.decide()
	check.Equal(t, "lives", []int32{0, 1, 0}, s.lives())
	check.Equal(t, "excluded", 0, len(s.status().ExcludedNodes))
}

// A gang in which something else has failed does not hang.
func TestAFailureIsNoHang(t *testing.T) {
	s := hanging(gang.ActivityStopped, []int{1}, hangs(step(v1alpha1.RestartProcesses, 0)))
	s.breakNode("n02")
	s.decide()
	check.Equal(t, "trigger", v1alpha1.NodeNotReady, s.incident(t).Trigger)

	s = hanging(gang.ActivityStopped, []int{1}, hangs(step(v1alpha1.RestartProcesses, 60)))
	s.decide()
	s.fails(0, 1)
	s.decide()
	check.Equal(t, "rule of a program that gives up waiting", "program-fails", s.status().Incidents[1].Rule)
	check.Equal(t, "epoch", int64(2), s.status().Epoch)

	s = hanging(gang.ActivityStopped, []int{1}, hangs(step(v1alpha1.RestartProcesses, 60)))
	s.decide()
	s.fails(1, 137)
	s.decide()
	check.Equal(t, "rule of the one that hung", "program-fails", s.incident(t).Rule)
	check.Equal(t, "incidents", 1, len(s.status().Incidents))

	s = hanging(gang.ActivityStopped, []int{1}, hangs(step(v1alpha1.RestartProcesses, 0)))
	s.Pods[2].Signals = []gang.Signal{{Name: "NVLinkReplay"}}
	s.decide()
	s.decide()
	check.Equal(t, "incident of what is degraded", v1alpha1.HealthDegraded, s.incident(t).Trigger)
}

// A step is due in the pass in which a rank that counts nothing goes on.
func TestNoStepForAHangOfARankThatGoesOn(t *testing.T) {
	s := counting(3)
	s.phase(1, v1alpha1.PhaseTrain)
	s.Job.Spec.RestartPolicy = &v1alpha1.RestartPolicy{Rules: []v1alpha1.Rule{hangs(step(v1alpha1.RestartProcesses, 60))}}
	s.do(gang.ActivityIdle, gang.ActivityIdle)
	s.after(time.Minute).decide()
	s.decide()
	check.Equal(t, "incidents", 1, len(s.status().Incidents))
	s.after(time.Minute)
	s.phase(1, v1alpha1.PhaseTrain)
	s.decide()
	check.Equal(t, "epoch", int64(1), s.status().Epoch)
}

// A hang is first seen as one of all, and then its culprit is: the rule for that one decides.
func TestTheRuleOfACulpritThatIsSeenLater(t *testing.T) {
	blocked := rule("blocked", on(v1alpha1.Stalled), because("Blocked"), step(v1alpha1.MigratePod, 60))
	s := hanging(gang.ActivityIdle, nil, blocked, hangs(step(v1alpha1.FailJob, 300)))
	s.decide()
	check.Equal(t, "rule", "hangs", s.incident(t).Rule)
	s.do(gang.ActivityIdle, gang.ActivityBlocked, 1)
	s.after(10 * time.Second).decide()
	check.Equal(t, "cause", s.Pods[1].Name, s.incident(t).Cause.Pod)
	check.Equal(t, "rule of the culprit", "blocked", s.incident(t).Rule)
}

// What is seen of the processes changes every 10 s, as a program may have it: each stall costs few writes of the status.
func TestWritesOfAHangThatIsSeenDifferently(t *testing.T) {
	s := hanging(gang.ActivityBlocked, []int{1}, hangs(step(v1alpha1.RestartProcesses, 3600)))
	s.decide()
	writes := 0
	for i := range 180 {
		blocked := []int{1}
		if i%2 == 0 {
			blocked = []int{0, 1, 2}
		}
		s.do(gang.ActivityIdle, gang.ActivityBlocked, blocked...)
		s.after(10 * time.Second)
		before := s.status().DeepCopy()
		if s.decide(); !equality.Semantic.DeepEqual(before, s.status()) {
			writes++
		}
	}
	check.Equal(t, "writes", 1, writes)
}

// NCCL RAS, by which some versions crash, is asked where a rule acts on a stall.
func TestCollectivesAreNotAskedForWhereNothingActs(t *testing.T) {
	s := hanging(gang.ActivityBusy, []int{0}, hangs(step(v1alpha1.Ignore, 0)))
	check.Equal(t, "under a rule that ignores stalls", false, s.plan().Order.Stalled)
	s = hanging(gang.ActivityBusy, []int{0}, hangs(step(v1alpha1.RestartProcesses, 0)))
	check.Equal(t, "under a rule that acts", true, s.plan().Order.Stalled)
	s.Job.Annotations = map[string]string{v1alpha1.DryRun: "true"}
	s.decide()
	check.Equal(t, "in a dry run", false, s.plan().Order.Stalled)
}
