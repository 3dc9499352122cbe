// For how long a job ran, and what the rest was lost to.

package policies

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/test/check"
)

// availability tells what a status records of it: times since the start of the scene, and what is lost.
func (s *scene) availability() string {
	a := s.status().Availability
	if a == nil {
		return "never ready"
	}
	at := func(t metav1.MicroTime) string { return t.Sub(sceneStart.Truncate(time.Microsecond)).String() }
	told := []string{"from " + at(a.StartTime)}
	if i := a.Interruption; i != nil {
		told = append(told, fmt.Sprintf("interrupted at %s by %s of %d", at(i.StartTime), i.Cause, i.Incident))
	}
	for _, l := range a.LostTime {
		told = append(told, fmt.Sprintf("lost %s to %d %s", time.Duration(l.Milliseconds)*time.Millisecond, l.Interruptions, l.Cause))
	}
	if a.SuspendedMilliseconds > 0 {
		told = append(told, fmt.Sprintf("suspended for %s", time.Duration(a.SuspendedMilliseconds)*time.Millisecond))
	}
	if a.EndTime != nil {
		told = append(told, "until "+at(*a.EndTime))
	}
	return strings.Join(told, ", ")
}

// ready makes ranks ready again, where they are.
func (s *scene) ready(ranks ...int) {
	for _, i := range ranks {
		s.Pods[i].Ready, s.Pods[i].Failure = true, gang.Failure{}
	}
	s.decide()
}

func (s *scene) resumed() {
	s.Job.Spec.Suspend = false
	s.decide()
	s.started()
}

func (s *scene) suspended() {
	s.Job.Spec.Suspend = true
	s.decide()
	s.VolcanoJobs, s.Pods = nil, nil
}

func TestAvailability(t *testing.T) {
	patient := []v1alpha1.Rule{rule("r", step(v1alpha1.RestartPod, 600))}
	tests := map[string]struct {
		rules []v1alpha1.Rule
		story func(*scene)
		want  string
	}{
		"the gang is ready": {patient, func(*scene) {}, "from 0s"},
		"a failure": {patient, func(s *scene) { s.after(time.Minute).crash(1, 1); s.decide() },
			"from 0s, interrupted at 1m0s by PodFailed of 1"},
		"a failure, and time passes": {patient, func(s *scene) { s.after(time.Minute).crash(1, 1); s.decide(); s.after(time.Minute).decide() },
			"from 0s, interrupted at 1m0s by PodFailed of 1"},
		"a recovery in place": {patient, func(s *scene) { s.after(time.Minute).unready(1); s.decide(); s.after(20 * time.Second).ready(1) },
			"from 0s, lost 20s to 1 PodNotReady"},
		"a recovery by a new pod": {nil, func(s *scene) {
			s.after(time.Minute).crash(1, 1)
			s.decide()
			s.after(1500*time.Millisecond).back(1, "n01")
		},
			"from 0s, lost 1.5s to 1 PodFailed"},
		"two of a cause, and one of another": {patient, func(s *scene) {
			for range 2 {
				s.unready(1)
				s.decide()
				s.after(time.Second).ready(1)
			}
			s.breakNode("n02")
			s.decide()
			s.node("n02", func(n *gang.Node) { n.Ready = true })
			s.after(3 * time.Second).decide()
		}, "from 0s, lost 2s to 2 PodNotReady, lost 3s to 1 NodeNotReady"},
		"a stronger event is the cause": {patient, func(s *scene) {
			s.unready(1)
			s.decide()
			s.after(time.Second).breakNode("n01")
			s.decide()
		}, "from 0s, interrupted at 0s by NodeNotReady of 1"},
		"a second incident while the first is open": {patient, func(s *scene) {
			s.unready(1)
			s.decide()
			s.after(2 * time.Minute).breakNode("n02") // too late to be the cause
			s.decide()
		}, "from 0s, interrupted at 0s by PodNotReady of 1"},
		"a second incident that ends after the first": {patient, func(s *scene) {
			s.unready(1)
			s.decide()
			s.after(2 * time.Minute).breakNode("n02")
			s.decide()
			s.after(time.Minute).ready(1)
			s.node("n02", func(n *gang.Node) { n.Ready = true })
			s.after(time.Minute).decide()
			check.Equal(t, "incidents", 2, len(s.status().Incidents))
		}, "from 0s, lost 4m0s to 1 PodNotReady"},
		"what is only degraded interrupts nothing": {patient, func(s *scene) { s.ail(degraded, 1); s.decide() }, "from 0s"},
		"a failure beside what is only degraded": {patient, func(s *scene) {
			s.ail(degraded, 1)
			s.decide()
			s.after(time.Minute).crash(2, 1)
			s.unready(1) // its peer is lost
			s.decide()
		}, "from 0s, interrupted at 1m0s by PodFailed of 2"},
		"a failure while another incident waits for its step": {patient, func(s *scene) {
			s.ail(failed, 1)
			s.decide()
			s.after(time.Minute).breakNode("n02")
			s.decide()
		}, "from 0s, interrupted at 1m0s by NodeNotReady of 2"},
		"a step interrupts what still ran": {[]v1alpha1.Rule{rule("r", step(v1alpha1.MigratePod, 60))}, func(s *scene) {
			s.ail(degraded, 1)
			s.decide()
			s.after(time.Minute).decide()
		}, "from 0s, interrupted at 1m0s by HealthDegraded of 1"},
		"the whole job is restarted": {[]v1alpha1.Rule{rule("r", step(v1alpha1.RestartJob, 0))}, func(s *scene) {
			s.crash(1, 1)
			s.decide()
			s.after(time.Second)
			for i := range s.Pods {
				s.replace(i)
			}
			s.decide()
			s.after(time.Second).placed()
		}, "from 0s, lost 2s to 1 PodFailed"},
		"a new attempt": {nil, func(s *scene) {
			s.VolcanoJobs, s.Pods = nil, nil
			s.decide()
			s.after(time.Second).started().after(time.Second).placed()
		}, "from 0s, lost 2s to 1 VolcanoJobDeleted"},
		"a failure that no rule matches": {[]v1alpha1.Rule{rule("r", on(v1alpha1.NodeGone), step(v1alpha1.RestartPod, 0))},
			func(s *scene) { s.crash(1, 1); s.decide(); s.after(time.Second).decide() }, "from 0s, interrupted at 0s by NoIncident of 0"},
		"an incident that is seen later than the gang stops": {patient, func(s *scene) {
			s.unready(1)
			s.Pods[1].StartedTime = s.Now.Add(-time.Hour)
			s.Pods[1].Conditions = notReadySince(s.Now)
			s.decide()
			s.after(gang.EndReportedWithin).decide()
		}, "from 0s, interrupted at 0s by PodNotReady of 1"},
		"not ready for a moment": {patient, func(s *scene) {
			s.unready(1)
			s.Pods[1].StartedTime = s.Now.Add(-time.Hour)
			s.Pods[1].Conditions = notReadySince(s.Now)
			s.decide()
			s.after(time.Second).ready(1)
		}, "from 0s, lost 1s to 1 NoIncident"},
		"suspended": {patient, func(s *scene) { s.after(time.Minute).suspended(); s.after(time.Minute).decide() },
			"from 0s, interrupted at 1m0s by Suspended of 0"},
		"resumed": {patient, func(s *scene) {
			s.after(time.Minute).suspended()
			s.after(time.Hour).resumed()
		}, "from 0s, interrupted at 1h1m0s by JobResumed of 0, suspended for 1h0m0s"},
		"resumed, and ready": {patient, func(s *scene) {
			s.after(time.Minute).suspended()
			s.after(time.Hour).resumed()
			s.after(time.Minute).placed()
		}, "from 0s, suspended for 1h1m0s"},
		"resumed, ready with a rank less, and down again": {patient, func(s *scene) {
			s.Job.Spec.MinAvailable = ptr.To[int32](2)
			s.after(time.Minute).suspended()
			s.after(time.Hour).resumed()
			s.bind(0, "n00")
			s.bind(1, "n01")
			s.after(time.Minute).decide()
			s.after(time.Minute).crash(1, 1)
			s.decide()
			s.after(time.Second).ready(1)
			s.Pods[1].Phase = corev1.PodRunning
			s.after(time.Second).decide()
		}, "from 0s, lost 2s to 1 JobResumed, suspended for 1h1m0s"},
		"suspended in the middle of a recovery": {patient, func(s *scene) {
			s.crash(1, 1)
			s.decide()
			s.after(time.Minute).suspended()
			s.after(time.Minute).resumed()
			s.after(time.Minute).placed()
		}, "from 0s, lost 1m0s to 1 PodFailed, suspended for 2m0s"},
		"the clock steps back": {patient, func(s *scene) { s.unready(1); s.decide(); s.after(-time.Minute).ready(1) },
			"from 0s, lost 0s to 1 PodNotReady"},
		"the manager was away": {patient, func(s *scene) { s.crash(1, 1); s.decide(); s.after(time.Hour).back(1, "n01") },
			"from 0s, lost 1h0m0s to 1 PodFailed"},
		"a manager that knew of none": {patient, func(s *scene) { s.status().Availability = nil; s.after(time.Minute).decide() }, "from 1m0s"},
		"completed": {patient, func(s *scene) {
			s.after(time.Minute)
			s.succeed(0)
			s.decide()
			s.succeed(1)
			s.succeed(2)
			s.after(time.Minute).decide()
			s.after(time.Hour).decide()
		}, "from 0s, until 2m0s"},
		"pods that complete": {patient, func(s *scene) {
			s.unready(1)
			s.Pods[1].Completing = true
			s.after(time.Minute).decide()
		}, "from 0s"},
		"failed": {[]v1alpha1.Rule{rule("r", step(v1alpha1.FailJob, 60))}, func(s *scene) {
			s.crash(1, 1)
			s.decide()
			s.after(time.Minute).decide()
			s.after(time.Minute).decide()
		}, "from 0s, lost 1m0s to 1 PodFailed, until 1m0s"},
		"failed while it is suspended": {patient, func(s *scene) {
			s.suspended()
			s.after(time.Minute)
			s.status().Conditions = append(s.status().Conditions, metav1.Condition{Type: v1alpha1.ConditionFailed, Status: metav1.ConditionTrue, Reason: "R"})
			s.decide()
		}, "from 0s, suspended for 1m0s, until 1m0s"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := running(3, tc.rules...)
			tc.story(s)
			check.Equal(t, "availability", tc.want, s.availability())
			before := s.status().DeepCopy()
			s.after(time.Second).decide()
			check.Equal(t, "a second later", before.Availability, s.status().Availability)
		})
	}
}

// Nothing counts before the gang was ready once.
func TestAvailabilityBeginsWithTheFirstReadyGang(t *testing.T) {
	s := starting(3)
	check.Equal(t, "behind their gates", "never ready", s.availability())
	s.bind(0, "n00")
	s.bind(1, "n01")
	s.after(time.Minute).decide()
	check.Equal(t, "one is missing", "never ready", s.availability())
	s.crash(0, 1)
	s.decide()
	check.Equal(t, "one fails", "never ready", s.availability())
	s.suspended()
	s.after(time.Minute).resumed()
	check.Equal(t, "resumed", "never ready", s.availability())
	s.after(time.Minute).placed()
	check.Equal(t, "ready", "from 3m0s", s.availability())
}

// An elastic job runs at the size that it has.
func TestAvailabilityAtAnotherSize(t *testing.T) {
	elastic := func() *scene {
		job := aJob().tasks(task("worker", 3, downTo(2))).policy(withRules(rule("r", on(v1alpha1.NodeGone), step(v1alpha1.ShrinkTask, 60))))
		return aScene(job).started().placed()
	}
	s := elastic()
	s.fill("n00", "n01", "n02")
	delete(s.Nodes, "n02")
	s.decide()
	check.Equal(t, "a rank is lost", "from 0s, interrupted at 0s by NodeGone of 1", s.availability())
	s.after(time.Minute).decide()
	s.Pods = s.Pods[:2]
	s.decide()
	check.Equal(t, "it is given up", "from 0s, lost 1m0s to 1 NodeGone", s.availability())

	s = elastic()
	s.Job.Spec.Tasks[0].Replicas = 2
	s.decide()
	check.Equal(t, "the user gives one up", "from 0s", s.availability())
	s.Pods = s.Pods[:2]
	s.Job.Spec.Tasks[0].Replicas = 4
	s.after(time.Minute).decide()
	check.Equal(t, "the user adds two", "from 0s, interrupted at 1m0s by Resized of 0", s.availability())
	s.make(gang.Rank{Task: "worker", Index: 2}, false)
	s.make(gang.Rank{Task: "worker", Index: 3}, false)
	s.search(2)
	s.search(3)
	s.after(time.Minute).decide()
	check.Equal(t, "they find no room", "from 0s, interrupted at 1m0s by Resized of 0", s.availability())
	s.bind(2, "n02")
	s.bind(3, "n03")
	s.decide()
	check.Equal(t, "they are ready", "from 0s, lost 1m0s to 1 Resized", s.availability())

	// A rank that fails beside those that are added is a failure.
	s = elastic()
	s.Job.Spec.Tasks[0].Replicas = 4
	delete(s.Nodes, "n02")
	s.decide()
	check.Equal(t, "added and lost", "from 0s, interrupted at 0s by NodeGone of 1", s.availability())
}

// A job that is resumed without a place to go back to has no incident that says so.
func TestAvailabilityOfAJobThatIsResumedWithoutAHome(t *testing.T) {
	s := running(3, rule("r", step(v1alpha1.RelocateJob, 0)))
	s.crash(1, 1)
	s.decide()
	s.after(time.Minute).suspended()
	check.Equal(t, "home", nil, s.status().Placement)
	s.after(time.Minute).resumed()
	check.Equal(t, "incidents", 1, len(s.status().Incidents))
	check.Equal(t, "resumed", "from 0s, interrupted at 2m0s by JobResumed of 0, lost 1m0s to 1 PodFailed, suspended for 1m0s", s.availability())
}

func TestTimesAt(t *testing.T) {
	at := func(seconds int) metav1.MicroTime {
		return metav1.NewMicroTime(sceneStart.Add(time.Duration(seconds) * time.Second))
	}
	lost := func(milliseconds int64) []v1alpha1.LostTime {
		return []v1alpha1.LostTime{{Cause: "NodeGone", Interruptions: 1, Milliseconds: milliseconds}}
	}
	tests := map[string]struct {
		a    v1alpha1.Availability
		want Times
		ettr float64
	}{
		"ready ever since": {v1alpha1.Availability{}, Times{Running: 100 * time.Second}, 1},
		"begins just now":  {v1alpha1.Availability{StartTime: at(100)}, Times{}, 1},
		"something is lost": {v1alpha1.Availability{LostTime: lost(20000)},
			Times{Running: 80 * time.Second, Down: 20 * time.Second, Lost: lost(20000)}, 0.8},
		"down now, for the same cause": {v1alpha1.Availability{LostTime: lost(20000), Interruption: &v1alpha1.Interruption{StartTime: at(90), Cause: "NodeGone"}},
			Times{Running: 70 * time.Second, Down: 30 * time.Second, Lost: []v1alpha1.LostTime{{Cause: "NodeGone", Interruptions: 2, Milliseconds: 30000}}}, 0.7},
		"was suspended": {v1alpha1.Availability{LostTime: lost(20000), SuspendedMilliseconds: 50000},
			Times{Running: 30 * time.Second, Down: 20 * time.Second, Suspended: 50 * time.Second, Lost: lost(20000)}, 0.6},
		"suspended now": {v1alpha1.Availability{Interruption: &v1alpha1.Interruption{StartTime: at(60), Cause: v1alpha1.CauseSuspended}},
			Times{Running: 60 * time.Second, Suspended: 40 * time.Second}, 1},
		"over":                          {v1alpha1.Availability{LostTime: lost(20000), EndTime: new(at(40))}, Times{Running: 20 * time.Second, Down: 20 * time.Second, Lost: lost(20000)}, 0.5},
		"lost more than there was":      {v1alpha1.Availability{LostTime: lost(200000)}, Times{Down: 200 * time.Second, Lost: lost(200000)}, 0},
		"by a clock that is far behind": {v1alpha1.Availability{StartTime: at(1000)}, Times{}, 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if tc.a.StartTime.IsZero() {
				tc.a.StartTime = at(0)
			}
			before := tc.a.DeepCopy()
			got := TimesAt(&tc.a, at(100).Time)
			check.Equal(t, "times", tc.want, got)
			check.Equal(t, "ETTR", tc.ettr, got.ETTR())
			check.Equal(t, "the status is as it was", *before, tc.a)
		})
	}
}
