package policies

import (
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/incident"
	"github.com/lockstep-dev/lockstep/test/check"
)

func TestSuccess(t *testing.T) {
	twoTasks := func(policy ...string) *scene {
		job := aJob().tasks(task("head", 1), task("worker", 2))
		if len(policy) > 0 {
			job.Spec.SuccessPolicy = &v1alpha1.SuccessPolicy{Tasks: policy}
		}
		return aScene(job).started().placed()
	}
	tests := map[string]struct {
		story func() *scene
		state v1alpha1.State
		stop  Stop
	}{
		"every pod":              {func() *scene { s := twoTasks(); s.succeed(0); s.succeed(1); s.succeed(2); return s }, v1alpha1.StateCompleted, ""},
		"not every pod":          {func() *scene { s := twoTasks(); s.succeed(0); s.succeed(1); return s }, v1alpha1.StateRunning, ""},
		"the task that counts":   {func() *scene { s := twoTasks("head"); s.succeed(0); return s }, v1alpha1.StateCompleted, StopCompleted},
		"the task that does not": {func() *scene { s := twoTasks("head"); s.succeed(1); s.succeed(2); return s }, v1alpha1.StateRunning, ""},
		"every task that counts": {func() *scene { s := twoTasks("head", "worker"); s.succeed(0); return s }, v1alpha1.StateRunning, ""},
		"Volcano says so": {func() *scene {
			s := twoTasks()
			s.VolcanoJobs[0].Ended, s.VolcanoJobs[0].Succeeded = true, true
			s.Pods = nil
			return s
		}, v1alpha1.StateCompleted, ""},
		"Volcano says so, of another task": {func() *scene {
			s := twoTasks("head")
			s.VolcanoJobs[0].Succeeded = true
			return s
		}, v1alpha1.StateRunning, ""},
		"in the middle of a recovery": {func() *scene {
			s := twoTasks("head")
			s.crash(2, 1)
			s.decide()
			s.succeed(0)
			return s
		}, v1alpha1.StateCompleted, StopCompleted},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := tc.story()
			s.decide()
			check.Equal(t, "state", tc.state, s.status().State)
			p := s.plan()
			check.Equal(t, "stop", tc.stop, p.Stop)
			check.Equal(t, "open", false, gang.Finished(s.status()) && incident.AnyOpen(s.status()))
		})
	}
}

func TestTerminalStaysTerminal(t *testing.T) {
	ends := map[string]func(*scene){
		"completed": func(s *scene) { s.succeed(0); s.succeed(1) },
		"failed":    func(s *scene) { s.Job.Spec.ActiveDeadlineSeconds = ptr.To[int64](1); s.after(time.Second) },
	}
	afterwards := map[string]func(*scene){
		"a crash":                 func(s *scene) { s.crash(0, 1) },
		"its pods are deleted":    func(s *scene) { s.Pods = nil },
		"its Volcano Job is gone": func(s *scene) { s.VolcanoJobs, s.Pods = nil, nil },
		"it is suspended":         func(s *scene) { s.Job.Spec.Suspend = true },
		"its nodes are gone":      func(s *scene) { s.Nodes = nil },
		"a longer deadline":       func(s *scene) { s.Job.Spec.ActiveDeadlineSeconds = ptr.To[int64](100000) },
		"a day":                   func(s *scene) { s.after(24 * time.Hour) },
	}
	for end, finish := range ends {
		for name, change := range afterwards {
			t.Run(end+", then "+name, func(t *testing.T) {
				s := running(2)
				finish(s)
				s.decide()
				before := s.status().DeepCopy()
				change(s)
				s.decide()
				check.Equal(t, "state", before.State, s.status().State)
				check.Equal(t, "attempt", before.Attempt, s.status().Attempt)
				check.Equal(t, "incidents", before.Incidents, s.status().Incidents)
				check.Equal(t, "completion time", before.CompletionTime, s.status().CompletionTime)
				p := s.plan()
				if p.Create || len(p.Lift)+len(p.Hold) > 0 {
					t.Errorf("plans %+v", p)
				}
			})
		}
	}
}

func TestDeadline(t *testing.T) {
	s := running(2)
	s.Job.Spec.ActiveDeadlineSeconds = ptr.To[int64](3600)
	start := s.status().StartTime.Time
	s.Now = start.Add(time.Hour - time.Second)
	d := s.decide()
	check.Equal(t, "state", v1alpha1.StateRunning, s.status().State)
	check.Equal(t, "next", start.Add(time.Hour).String(), d.Next.String())
	s.after(time.Second).decide()
	check.Equal(t, "state", v1alpha1.StateFailed, s.status().State)
	check.Equal(t, "reason", v1alpha1.ReasonDeadlineExceeded, conditionReason(s, v1alpha1.ConditionFailed))
	check.Equal(t, "stop", StopFailed, s.plan().Stop)
}

func TestSuspendAndResume(t *testing.T) {
	s := running(2)
	s.Job.Spec.ActiveDeadlineSeconds = ptr.To[int64](3600)
	s.crash(0, 1)
	s.decide()

	s.Job.Spec.Suspend = true
	s.decide()
	check.Equal(t, "state", v1alpha1.StateSuspended, s.status().State)
	check.Equal(t, "outcome", v1alpha1.OutcomeCancelled, s.incident(t).Outcome)
	check.Equal(t, "home", "rack-a", s.status().Placement.HyperNode)
	p := s.plan()
	check.Equal(t, "plan", Plan{DeleteVolcanoJobs: []string{"llm-1"}}, p)

	// The deadline does not run meanwhile.
	s.VolcanoJobs, s.Pods = nil, nil
	s.after(2 * time.Hour).decide()
	p = s.plan()
	check.Equal(t, "suspended still", v1alpha1.StateSuspended, s.status().State)
	check.Equal(t, "plan", true, p.Empty())

	s.Job.Spec.Suspend = false
	s.decide()
	check.Equal(t, "attempt", int32(2), s.status().Attempt)
	check.Equal(t, "trigger", v1alpha1.JobResumed, s.incident(t).Trigger)
	check.Equal(t, "lives", []int32{2, 2}, s.lives())
	check.Equal(t, "reason", v1alpha1.ReasonResumed, conditionReason(s, v1alpha1.ConditionSuspended))
	s.started()
	s.PodGroup.Pending = true
	s.decide()
	p = s.plan()
	check.Equal(t, "admit", false, p.Admit)
	check.Equal(t, "pinned to", []string{"host-n00"}, p.Lift[0].Target.In)
	s.PodGroup.Pending = false
	s.placed()
	check.Equal(t, "state", v1alpha1.StateRunning, s.status().State)
	check.Equal(t, "charged", int32(1), s.status().Restarts.Charged)
	s.after(time.Hour).decide()
	check.Equal(t, "the deadline starts again", v1alpha1.StateFailed, s.status().State)
}

// A job whose templates have changed while it was suspended, so that its nodes are none for its pods, is placed as one that never ran.
func TestAResumedJobLeavesNodesThatItsTemplatesExclude(t *testing.T) {
	s := running(2)
	s.Job.Spec.Suspend = true
	s.decide()
	s.VolcanoJobs, s.Pods = nil, nil
	s.Job.Spec.Suspend, s.Misplaced = false, true
	s.decide()
	check.Equal(t, "attempt", int32(2), s.status().Attempt)
	check.Equal(t, "home", (*v1alpha1.Placement)(nil), s.status().Placement)
	check.Equal(t, "incidents", 0, len(s.status().Incidents))
}

func TestSuspendedFromTheStart(t *testing.T) {
	job := aJob().tasks(task("worker", 2))
	job.Spec.Suspend = true
	s := aScene(job)
	s.decide()
	p := s.plan()
	check.Equal(t, "attempt", int32(0), s.status().Attempt)
	check.Equal(t, "plan", true, p.Empty())
	s.Job.Spec.Suspend = false
	s.decide()
	check.Equal(t, "attempt", int32(1), s.status().Attempt)
	check.Equal(t, "incidents", 0, len(s.status().Incidents))
}

func TestExpiry(t *testing.T) {
	s := running(2)
	s.Job.Spec.TTLSecondsAfterFinished = ptr.To[int32](60)
	check.Equal(t, "while it runs", false, s.decide().Delete)
	s.succeed(0)
	s.succeed(1)
	d := s.decide()
	end := s.status().CompletionTime.Time
	check.Equal(t, "next", end.Add(time.Minute).String(), d.Next.Truncate(time.Second).String())
	check.Equal(t, "at once", false, d.Delete)
	s.Now = end.Add(59 * time.Second)
	check.Equal(t, "before", false, s.decide().Delete)
	s.Now = end.Add(60 * time.Second)
	check.Equal(t, "then", true, s.decide().Delete)
}

func TestVolcanoJobsThatGoAway(t *testing.T) {
	tests := map[string]struct {
		story   func() *scene
		attempt int32
		trigger v1alpha1.EventType
		create  bool
	}{
		"deleted":       {func() *scene { s := running(2); s.VolcanoJobs = nil; return s }, 2, v1alpha1.VolcanoJobDeleted, true},
		"being deleted": {func() *scene { s := running(2); s.VolcanoJobs[0].Deleting = true; return s }, 2, v1alpha1.VolcanoJobDeleted, true},
		"deleted before it had pods": {func() *scene {
			s := aScene(aJob().tasks(task("worker", 2)))
			s.decide()
			return s
		}, 1, "", true},
		"deleted before it was placed":             {func() *scene { s := starting(2); s.VolcanoJobs = nil; return s }, 2, v1alpha1.VolcanoJobDeleted, true},
		"aborted before it was placed":             {func() *scene { s := starting(2); s.VolcanoJobs[0].Ended, s.Pods = true, nil; return s }, 2, v1alpha1.VolcanoJobEnded, true},
		"ended, and its pods have not said so yet": {func() *scene { s := running(2); s.VolcanoJobs[0].Ended = true; return s }, 1, "", false},
		"ended, its pods taken away":               {func() *scene { s := running(2); s.VolcanoJobs[0].Ended, s.Pods = true, nil; return s }, 2, v1alpha1.PodDeleted, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := tc.story()
			s.decide()
			check.Equal(t, "attempt", tc.attempt, s.status().Attempt)
			if tc.trigger != "" {
				check.Equal(t, "trigger", tc.trigger, s.incident(t).Trigger)
			}
			check.Equal(t, "create", tc.create, s.plan().Create)
			check.Equal(t, "charged", int32(0), s.status().Restarts.Charged)
			before := s.status().DeepCopy()
			s.decide()
			check.Equal(t, "decided twice", before.Attempt, s.status().Attempt)
		})
	}
}

// The caches of pods and of Volcano Jobs are filled side by side: the pods' end can be seen first.
func TestVolcanoJobDeletedAndItsPodsAreMissedFirst(t *testing.T) {
	s := running(2)
	s.Pods = nil
	s.decide()
	check.Equal(t, "trigger", v1alpha1.PodDeleted, s.incident(t).Trigger)

	s.VolcanoJobs = nil
	s.decide()
	check.Equal(t, "attempt", int32(2), s.status().Attempt)
	check.Equal(t, "create", true, s.plan().Create)
	check.Equal(t, "charged", int32(0), s.status().Restarts.Charged)

	s.decide()
	check.Equal(t, "attempt, decided twice", int32(2), s.status().Attempt)
}

// A resume is no restart. What the ladder does later, because the job does not become ready, counts.
func TestAResumeIsNoRestart(t *testing.T) {
	s := running(3, rule("r", step(v1alpha1.RestartJob, 0), step(v1alpha1.RestartTask, 600)))
	s.suspended()
	s.after(time.Hour).resumed()
	check.Equal(t, "resumed", v1alpha1.Restarts{}, s.status().Restarts)
	s.after(10 * time.Minute).decide()
	check.Equal(t, "not ready for long", v1alpha1.Restarts{Total: 1, Task: 1, Uncharged: 1}, s.status().Restarts)
}
