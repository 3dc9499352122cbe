package policies

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/test/check"
)

var threeSteps = rule("three", on(v1alpha1.AnyEvent), step(v1alpha1.RestartPod, 10), step(v1alpha1.RestartJob, 40), step(v1alpha1.RelocateJob, 100))

func TestStepsFireWhenTheyAreDue(t *testing.T) {
	tests := map[string]struct {
		looks []time.Duration // since the failure was seen
		fired []string
		next  time.Duration
	}{
		"before the first":       {[]time.Duration{9 * time.Second}, nil, 10 * time.Second},
		"at the first":           {[]time.Duration{10 * time.Second}, []string{"RestartPod@10"}, 40 * time.Second},
		"once":                   {[]time.Duration{10 * time.Second, 11 * time.Second, 39 * time.Second}, []string{"RestartPod@10"}, 40 * time.Second},
		"each in its time":       {[]time.Duration{10 * time.Second, 40 * time.Second, 100 * time.Second}, []string{"RestartPod@10", "RestartJob@40", "RelocateJob@100"}, 700 * time.Second},
		"late, with the gap":     {[]time.Duration{35 * time.Second, 40 * time.Second, 64 * time.Second}, []string{"RestartPod@35"}, 65 * time.Second},
		"late, after the gap":    {[]time.Duration{35 * time.Second, 65 * time.Second}, []string{"RestartPod@35", "RestartJob@65"}, 125 * time.Second},
		"very late, one by one":  {[]time.Duration{time.Hour, time.Hour + time.Second}, []string{"RestartPod@3600"}, time.Hour + 30*time.Second},
		"none is left to be due": {[]time.Duration{10 * time.Second, 40 * time.Second, 100 * time.Second, time.Hour}, []string{"RestartPod@10", "RestartJob@40", "RelocateJob@100"}, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := running(2, threeSteps)
			// Its node is silent and asks for proof, so that nothing but the ladder is due.
			s.Job.Spec.RestartPolicy.UnreachableNode = &v1alpha1.UnreachableNode{Policy: v1alpha1.RequireProof}
			s.Job.Spec.RestartPolicy.ExcludeNodeSeconds = ptr.To[int32](0)
			s.Job.Spec.Hold = &v1alpha1.Hold{Policy: v1alpha1.HoldOnRecovery, Seconds: new(int32)}
			s.breakNode("n01")
			s.decide()
			var d Decision
			for _, at := range tc.looks {
				s.Now = sceneStart.Add(at)
				d = s.decide()
			}
			check.Equal(t, "fired", tc.fired, s.fired(t))
			want := time.Time{}
			if tc.next > 0 {
				want = sceneStart.Add(tc.next)
			}
			check.Equal(t, "next", want.String(), d.Next.String())
		})
	}
}

func TestStepsAreCancelledByRecovery(t *testing.T) {
	s := running(3)
	s.unready(1)
	s.decide()
	s.Pods[1].Ready = true
	s.after(90 * time.Second).decide()
	check.Equal(t, "fired", nil, s.fired(t))
	check.Equal(t, "lives", []int32{0, 0, 0}, s.lives())
	check.Equal(t, "outcome", v1alpha1.OutcomeRecovered, s.incident(t).Outcome)
}

func TestWhatAStepRestarts(t *testing.T) {
	tests := map[string]struct {
		action  v1alpha1.Action
		lives   []int32 // head, then the workers
		deleted []string
		home    bool
		count   v1alpha1.Restarts
	}{
		"pod":      {v1alpha1.RestartPod, []int32{0, 0, 1, 0}, []string{"3"}, true, v1alpha1.Restarts{Total: 1, Pod: 1, Uncharged: 1}},
		"task":     {v1alpha1.RestartTask, []int32{0, 1, 1, 1}, []string{"2", "3", "4"}, true, v1alpha1.Restarts{Total: 1, Task: 1, Uncharged: 1}},
		"job":      {v1alpha1.RestartJob, []int32{1, 1, 1, 1}, []string{"1", "2", "3", "4"}, true, v1alpha1.Restarts{Total: 1, Job: 1, Uncharged: 1}},
		"relocate": {v1alpha1.RelocateJob, []int32{1, 1, 1, 1}, []string{"1", "2", "3", "4"}, false, v1alpha1.Restarts{Total: 1, Relocations: 1, Uncharged: 1}},
		"ignore":   {v1alpha1.Ignore, []int32{0, 0, 0, 0}, nil, true, v1alpha1.Restarts{}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			job := aJob().tasks(task("head", 1), task("worker", 3))
			job.Spec.RestartPolicy = &v1alpha1.RestartPolicy{Rules: []v1alpha1.Rule{rule("r", step(tc.action, 0), charged(v1alpha1.ChargeNever))}}
			s := aScene(job).started().placed()
			s.crash(2, 1)
			s.decide()
			check.Equal(t, "lives", tc.lives, s.lives())
			check.Equal(t, "deleted", tc.deleted, s.deleted())
			check.Equal(t, "at home", tc.home, s.status().Placement != nil)
			check.Equal(t, "restarts", tc.count, s.status().Restarts)
		})
	}
}

func TestFailJobFails(t *testing.T) {
	s := running(3, rule("bad-config", exits(v1alpha1.ExitCodesIn, "", 2), step(v1alpha1.FailJob, 0)))
	s.crash(1, 2)
	s.decide()
	check.Equal(t, "state", v1alpha1.StateFailed, s.status().State)
	check.Equal(t, "outcome", v1alpha1.OutcomeFailed, s.incident(t).Outcome)
	check.Equal(t, "stop", StopFailed, s.plan().Stop)
	check.Equal(t, "charged", int32(0), s.status().Restarts.Charged)
}

// Two incidents are open and ten are remembered when the first is given up.
func TestGivingUpForgetsIncidentsOnTheWay(t *testing.T) {
	s := running(3, rule("shrug", on(v1alpha1.PodFailed), step(v1alpha1.Ignore, 0)), rule("rest", step(v1alpha1.RestartPod, 60)))
	for range 10 {
		s.unready(0)
		s.after(time.Minute).decide()
		s.Pods[0].Ready = true
		s.decide()
	}
	s.crash(0, 1)
	s.after(time.Minute).decide()
	s.crash(1, 1)
	s.after(time.Minute).decide()
	s.crash(2, 1)
	s.VolcanoJobs[0].Ended = true
	s.after(time.Minute).decide()
	check.Equal(t, "state", v1alpha1.StateFailed, s.status().State)
}

// Ten incidents have come and gone while the first one was open.
func TestAnIncidentThatHasJustEndedIsRemembered(t *testing.T) {
	tests := map[string]struct {
		ends func(*scene)
		want v1alpha1.Outcome
	}{
		"it recovers":   {func(s *scene) { s.Pods[1].Ready = true }, v1alpha1.OutcomeRecovered},
		"it is too old": {func(s *scene) { s.after(time.Hour) }, v1alpha1.OutcomeFailed},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := running(3, rule("late", step(v1alpha1.RestartPod, 3600)))
			s.Job.Spec.RestartPolicy.Budget = &v1alpha1.Budget{MaxRestarts: new(int32)}
			s.unready(1)
			s.decide()
			for range 10 {
				s.after(2 * time.Minute).breakNode("n00")
				s.decide()
				s.node("n00", func(n *gang.Node) { n.Ready, n.SilentSince = true, time.Time{} })
				s.decide()
			}
			tc.ends(s)
			s.decide()
			var ids []int32
			for _, inc := range s.status().Incidents {
				ids = append(ids, inc.ID)
			}
			check.Equal(t, "remembered", []int32{1, 3, 4, 5, 6, 7, 8, 9, 10, 11}, ids)
			check.Equal(t, "outcome of the first", tc.want, s.status().Incidents[0].Outcome)
		})
	}
}

func TestCharges(t *testing.T) {
	user, infrastructure := func(s *scene) { s.crash(1, 1) }, func(s *scene) { delete(s.Nodes, "n01") }
	tests := map[string]struct {
		charge  v1alpha1.Charge
		failure func(*scene)
		want    int32
	}{
		"the user's own, by default":         {"", user, 1},
		"the user's own":                     {v1alpha1.ChargeAuto, user, 1},
		"the infrastructure's":               {v1alpha1.ChargeAuto, infrastructure, 0},
		"the infrastructure's, always":       {v1alpha1.ChargeAlways, infrastructure, 1},
		"the user's own, never":              {v1alpha1.ChargeNever, user, 0},
		"what the user deleted":              {v1alpha1.ChargeAuto, func(s *scene) { s.replace(1) }, 0},
		"what another job preempted":         {v1alpha1.ChargeAuto, func(s *scene) { s.Pods[1].Deleting, s.Pods[1].Disrupted = true, "PreemptionByScheduler" }, 0},
		"one incident of several, only once": {v1alpha1.ChargeAuto, func(s *scene) { s.crashAll() }, 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := running(3, rule("r", step(v1alpha1.RestartPod, 0), step(v1alpha1.RestartJob, 10), charged(tc.charge)))
			tc.failure(s)
			s.decide()
			s.after(10 * time.Second).decide()
			check.Equal(t, "charged", tc.want, s.status().Restarts.Charged)
			check.Equal(t, "fired", []string{"RestartPod@0", "RestartJob@10"}, s.fired(t))
		})
	}
}

func TestBudget(t *testing.T) {
	crashes := func(s *scene, apart time.Duration, n int) {
		for range n {
			s.after(apart).crash(0, 1)
			s.decide()
			s.replace(0)
			s.bind(0, "n00")
			s.decide()
		}
	}
	job := func(maxRestarts, window int32) *scene {
		s := running(2)
		s.Job.Spec.RestartPolicy = &v1alpha1.RestartPolicy{Budget: &v1alpha1.Budget{MaxRestarts: &maxRestarts, WindowSeconds: window}}
		return s
	}
	t.Run("within it", func(t *testing.T) {
		s := job(3, 1000)
		crashes(s, time.Minute, 3)
		check.Equal(t, "state", v1alpha1.StateRunning, s.status().State)
		check.Equal(t, "charged", int32(3), s.status().Restarts.Charged)
	})
	t.Run("beyond it", func(t *testing.T) {
		s := job(3, 1000)
		crashes(s, time.Minute, 4)
		check.Equal(t, "state", v1alpha1.StateFailed, s.status().State)
		check.Equal(t, "charged", int32(3), s.status().Restarts.Charged)
		check.Equal(t, "reason", v1alpha1.ReasonBudgetExhausted, conditionReason(s, v1alpha1.ConditionFailed))
	})
	t.Run("the window slides", func(t *testing.T) {
		s := job(3, 100)
		crashes(s, 40*time.Second, 9)
		check.Equal(t, "state", v1alpha1.StateRunning, s.status().State)
		check.Equal(t, "charged", int32(9), s.status().Restarts.Charged)
	})
	t.Run("none at all", func(t *testing.T) {
		s := job(0, 100)
		crashes(s, time.Second, 1)
		check.Equal(t, "state", v1alpha1.StateFailed, s.status().State)
	})
	t.Run("what is not charged does not count", func(t *testing.T) {
		s := job(0, 100)
		s.replace(0)
		s.decide()
		check.Equal(t, "state", v1alpha1.StateRecovering, s.status().State)
	})
}

// A program that fails at once fails the job in the end, whatever the rules say of it.
func TestAVolcanoJobThatEndsAgainAndAgainIsChargedForEach(t *testing.T) {
	for name, r := range map[string]v1alpha1.Rule{
		"by the rule for it": rule("all", on(v1alpha1.AnyEvent), step(v1alpha1.RestartPod, 0), step(v1alpha1.RestartJob, 3600)),
		"by no rule":         rule("nodes", on(v1alpha1.NodeGone), step(v1alpha1.RestartPod, 0)),
	} {
		t.Run(name, func(t *testing.T) {
			s := running(2, r)
			s.Job.Spec.RestartPolicy.Budget = &v1alpha1.Budget{MaxRestarts: ptr.To[int32](3), WindowSeconds: 3600}
			for range 10 {
				if gang.Finished(s.status()) {
					break
				}
				s.crashAll()
				s.VolcanoJobs[0].Ended = true
				s.after(time.Minute).decide()
				s.VolcanoJobs, s.Pods = nil, nil
				s.started().placed()
			}
			check.Equal(t, "reason", v1alpha1.ReasonBudgetExhausted, conditionReason(s, v1alpha1.ConditionFailed))
			check.Equal(t, "charged", int32(3), s.status().Restarts.Charged)
		})
	}
}

func TestExclusions(t *testing.T) {
	tests := map[string]struct {
		story func(*scene)
		want  []string
	}{
		"a node that is gone":                {func(s *scene) { delete(s.Nodes, "n01") }, []string{"n01"}},
		"the user's own fault":               {func(s *scene) { s.crash(1, 1) }, nil},
		"somebody's wish":                    {func(s *scene) { s.Pods[1].Deleting = true }, nil},
		"killed by its kubelet":              {func(s *scene) { s.crash(1, 1); s.Pods[1].Disrupted = corev1.PodReasonTerminationByKubelet }, []string{"n01"}},
		"the others fall in its wake":        {func(s *scene) { s.breakNode("n01"); s.crash(0, 1); s.crash(2, 1) }, []string{"n01"}},
		"it falls in the wake of the others": {func(s *scene) { s.crash(0, 1); s.crash(1, 1); s.breakNode("n02") }, []string{"n02"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := running(3, rule("all", step(v1alpha1.RestartPod, 0)))
			tc.story(s)
			s.decide()
			var got []string
			for _, e := range s.status().ExcludedNodes {
				got = append(got, e.Name)
				check.Equal(t, "until", s.Now.Add(time.Hour).Truncate(time.Second).String(), e.Until.String())
			}
			check.Equal(t, "excluded", tc.want, got)
		})
	}
	t.Run("it ends", func(t *testing.T) {
		s := running(3)
		delete(s.Nodes, "n01")
		s.decide()
		s.after(time.Hour - 2*time.Second).decide()
		check.Equal(t, "excluded", 1, len(s.status().ExcludedNodes))
		s.after(2 * time.Second).decide()
		check.Equal(t, "excluded", 0, len(s.status().ExcludedNodes))
	})
	t.Run("it can be turned off", func(t *testing.T) {
		s := running(3)
		s.Job.Spec.RestartPolicy = &v1alpha1.RestartPolicy{ExcludeNodeSeconds: ptr.To[int32](0)}
		delete(s.Nodes, "n01")
		s.decide()
		check.Equal(t, "excluded", 0, len(s.status().ExcludedNodes))
	})
}
