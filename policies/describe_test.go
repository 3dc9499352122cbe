package policies

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/test/check"
)

func conditionReason(s *scene, condition string) string {
	if c := meta.FindStatusCondition(s.status().Conditions, condition); c != nil {
		return c.Reason
	}
	return ""
}

func TestStates(t *testing.T) {
	tests := map[string]struct {
		story   func() *scene
		state   v1alpha1.State
		reasons map[string]string // of conditions
	}{
		"just made": {func() *scene { s := aScene(aJob().tasks(task("worker", 2))); s.decide(); return s },
			v1alpha1.StateQueued, map[string]string{v1alpha1.ConditionScheduled: v1alpha1.ReasonQueued, v1alpha1.ConditionRecovering: v1alpha1.ReasonNoIncident}},
		"waits for its queue": {func() *scene { s := starting(2); s.PodGroup.Pending = true; s.decide(); return s },
			v1alpha1.StateQueued, map[string]string{v1alpha1.ConditionScheduled: v1alpha1.ReasonQueued}},
		"waits for its pods": {func() *scene { return starting(2) },
			v1alpha1.StateStarting, map[string]string{v1alpha1.ConditionScheduled: v1alpha1.ReasonPodsPending, v1alpha1.ConditionRunning: v1alpha1.ReasonPodsNotReady}},
		"placed and not ready": {func() *scene {
			s := starting(2)
			for i := range s.Pods {
				s.bind(i, "n00")
				s.Pods[i].Ready, s.Pods[i].WasReady = false, false
			}
			s.decide()
			return s
		}, v1alpha1.StateStarting, map[string]string{v1alpha1.ConditionScheduled: v1alpha1.ReasonPodsScheduled, v1alpha1.ConditionRunning: v1alpha1.ReasonPodsNotReady}},
		"runs": {func() *scene { return running(2) },
			v1alpha1.StateRunning, map[string]string{v1alpha1.ConditionScheduled: v1alpha1.ReasonPodsScheduled, v1alpha1.ConditionRunning: v1alpha1.ReasonPodsReady}},
		"recovers": {func() *scene { s := running(2); s.crash(0, 1); s.decide(); return s },
			v1alpha1.StateRecovering, map[string]string{v1alpha1.ConditionRecovering: v1alpha1.ReasonIncidentOpen, v1alpha1.ConditionRunning: v1alpha1.ReasonPodsNotReady}},
		"has recovered": {func() *scene {
			s := running(2)
			s.unready(0)
			s.decide()
			s.Pods[0].Ready = true
			s.decide()
			return s
		},
			v1alpha1.StateRunning, map[string]string{v1alpha1.ConditionRecovering: v1alpha1.ReasonRecovered, v1alpha1.ConditionRunning: v1alpha1.ReasonPodsReady}},
		"is suspended": {func() *scene { s := running(2); s.Job.Spec.Suspend = true; s.decide(); return s },
			v1alpha1.StateSuspended, map[string]string{v1alpha1.ConditionSuspended: v1alpha1.ReasonSuspended, v1alpha1.ConditionScheduled: v1alpha1.ReasonVolcanoJobNotNeeded}},
		"has completed": {func() *scene { s := running(2); s.succeed(0); s.succeed(1); s.decide(); return s },
			v1alpha1.StateCompleted, map[string]string{v1alpha1.ConditionCompleted: v1alpha1.ReasonTasksSucceeded, v1alpha1.ConditionRunning: v1alpha1.ReasonVolcanoJobNotNeeded}},
		"is refused": {func() *scene {
			s := aScene(aJob().tasks(task("worker", 2)))
			s.Refused = "queue not found"
			s.decide()
			return s
		}, v1alpha1.StateRefused, map[string]string{v1alpha1.ConditionScheduled: v1alpha1.ReasonVolcanoJobRefused}},
		"has no queue": {withoutQueue,
			v1alpha1.StateRefused, map[string]string{v1alpha1.ConditionScheduled: v1alpha1.ReasonVolcanoJobRefused}},
		"loses its queue while it runs": {func() *scene { s := running(2); s.QueueMissing = true; s.decide(); return s },
			v1alpha1.StateRunning, map[string]string{v1alpha1.ConditionScheduled: v1alpha1.ReasonPodsScheduled}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := tc.story()
			check.Equal(t, "state", tc.state, s.status().State)
			for condition, want := range tc.reasons {
				check.Equal(t, condition, want, conditionReason(s, condition))
			}
		})
	}
}

func TestAClosedQueueIsTold(t *testing.T) {
	s := starting(2)
	s.PodGroup.Pending, s.QueueClosed = true, true
	s.decide()
	check.Equal(t, "message", "queue default is closed", s.status().Message)
	s.QueueClosed = false
	s.decide()
	check.Equal(t, "message", "waits for room in queue default", s.status().Message)
}

// Where nothing changes, time alone changes no word of the status.
func TestStatusIsStableOverTime(t *testing.T) {
	stories := map[string]func(*scene){
		"running":    func(*scene) {},
		"waiting":    func(s *scene) { s.unready(1); s.decide() },
		"recovering": func(s *scene) { s.crash(1, 1); s.decide(); s.replace(1); s.decide() },
		"suspended":  func(s *scene) { s.Job.Spec.Suspend = true; s.decide() },
		"completed":  func(s *scene) { s.succeed(0); s.succeed(1); s.succeed(2); s.decide() },
	}
	for name, story := range stories {
		t.Run(name, func(t *testing.T) {
			s := running(3)
			story(s)
			before := s.status().DeepCopy()
			for range 5 {
				s.after(7 * time.Second).decide()
				check.Equal(t, "status", before, s.status())
			}
		})
	}
}

func TestRecoveringTellsTheStory(t *testing.T) {
	s := running(3)
	s.crash(1, 137)
	s.Pods[1].Failure.Containers[0].Reason = "OOMKilled"
	s.decide()
	want := "incident 1, PodFailed of pod llm-1-worker-1 on node n01, container train exited with 137 (OOMKilled): RestartPod"
	check.Equal(t, "incident", want, s.incident(t).Message)
	next := ", then RestartTask at 03:11:05 UTC"
	check.Equal(t, "condition", want+next, meta.FindStatusCondition(s.status().Conditions, v1alpha1.ConditionRecovering).Message)

	s.replace(1)
	for i := range 6 {
		name := []string{"n00", "n01", "n02", "n03", "n04", "n05"}[i]
		s.node(name, func(n *gang.Node) { n.Unschedulable = true })
	}
	s.decide()
	check.Equal(t, "condition", want+", waits for a healthy node in HyperNode rack-a"+next,
		meta.FindStatusCondition(s.status().Conditions, v1alpha1.ConditionRecovering).Message)
}

func TestCounts(t *testing.T) {
	s := aScene(aJob().tasks(task("worker", 4, independent))).started().placed()
	s.unready(0)
	s.succeed(1)
	s.Pods[2].Deleting = true
	s.decide()
	check.Equal(t, "ready", "1/4", s.status().Ready)
	check.Equal(t, "succeeded", int32(1), s.status().Tasks[0].Succeeded)
}

func TestAPodWhoseLifeIsOverIsNotReady(t *testing.T) {
	s := running(3)
	delete(s.Nodes, "n01") // nobody is there to say that the pod is not ready
	s.decide()
	check.Equal(t, "ready", "2/3", s.status().Ready)
}

func TestTheTransitionTimeIsThatOfTheTransition(t *testing.T) {
	s := running(2)
	first := meta.FindStatusCondition(s.status().Conditions, v1alpha1.ConditionRunning).LastTransitionTime
	s.after(time.Minute).unready(0)
	s.decide()
	second := meta.FindStatusCondition(s.status().Conditions, v1alpha1.ConditionRunning).LastTransitionTime
	check.Equal(t, "moved by", time.Minute, second.Sub(first.Time))
	s.after(time.Minute).decide()
	check.Equal(t, "kept", second, meta.FindStatusCondition(s.status().Conditions, v1alpha1.ConditionRunning).LastTransitionTime)
}

// Nobody has told yet that the pods there do not run.
func TestWhatIsOnALostNodeIsNotReady(t *testing.T) {
	s := running(3)
	delete(s.Nodes, "n01")
	s.breakNode("n02")
	s.decide()
	check.Equal(t, "ready", "1/3", s.status().Ready)
}

// Supervisors that nobody hears are no incident, and a job that runs says nothing else.
func TestSilentSupervisorsAreInTheMessage(t *testing.T) {
	for name, tc := range map[string]struct {
		ranks []string
		want  string
	}{
		"none":  {nil, ""},
		"one":   {[]string{"worker-1"}, "no stream from the supervisors of worker-1: their programs cannot be restarted in place"},
		"three": {[]string{"a-0", "a-1", "a-2"}, "no stream from the supervisors of a-0, a-1, a-2: their programs cannot be restarted in place"},
		"many":  {[]string{"a-0", "a-1", "a-2", "a-3", "a-4"}, "no stream from the supervisors of a-0, a-1, a-2 and 2 more: their programs cannot be restarted in place"},
	} {
		s := running(2)
		s.SilentRanks = tc.ranks
		s.decide()
		check.Equal(t, name, tc.want, s.status().Message)
	}
}

func withoutQueue() *scene {
	s := aScene(aJob().tasks(task("worker", 2)))
	s.QueueMissing = true
	s.decide()
	return s
}

// No Volcano Job is made that would be refused because its queue does not exist. The event of a new queue brings the job back.
func TestAJobWaitsForItsQueueToExist(t *testing.T) {
	s := withoutQueue()
	check.Equal(t, "creates the Volcano Job", false, PlanFor(&s.Observation, s.status()).Create)
	check.Equal(t, "message", "queue default does not exist: the job starts when it is created", s.status().Message)
	s.QueueMissing = false
	s.decide()
	check.Equal(t, "creates it once there is the queue", true, PlanFor(&s.Observation, s.status()).Create)
	check.Equal(t, "state", v1alpha1.StateQueued, s.status().State)
}
