// Budgets: what is charged, and to whom.

package policies

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/test/check"
)

// mends crashes a rank and brings it back, some time later.
func (s *scene) mends(i int, after time.Duration) {
	s.after(after).crash(i, 1)
	s.decide()
	if gang.Finished(s.status()) {
		return
	}
	s.back(i, s.Pods[i].Node)
}

func TestATasksOwnBudget(t *testing.T) {
	all := withRules(rule("r", step(v1alpha1.RestartPod, 0)))
	tests := map[string]struct {
		jobs, tasks    *v1alpha1.RestartPolicy
		heads, workers int // restarts, in turn
		failed         string
		charged        []int // the job's, the workers' own
	}{
		"both within theirs":       {policy(all, budget(1, 1000)), policy(budget(2, 1000)), 1, 2, "", []int{1, 2}},
		"the task's is used up":    {policy(all, budget(1, 1000)), policy(budget(2, 1000)), 1, 3, "the budget of task worker of 2 charged restarts in 16m40s is used up: ", []int{1, 2}},
		"the job's is used up":     {policy(all, budget(1, 1000)), policy(budget(2, 1000)), 2, 0, "the budget of 1 charged restarts in 16m40s is used up: ", []int{1, 0}},
		"none of the task's own":   {policy(all, budget(2, 1000)), policy(), 1, 1, "", []int{2, 0}},
		"none of its own, used up": {policy(all, budget(2, 1000)), policy(), 1, 2, "the budget of 2 charged restarts in 16m40s is used up: ", []int{2, 0}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := twoTasks(tc.jobs, tc.tasks)
			for range tc.heads {
				s.mends(0, time.Minute)
			}
			for range tc.workers {
				s.mends(2, time.Minute)
			}
			message := ""
			if c := meta.FindStatusCondition(s.status().Conditions, v1alpha1.ConditionFailed); c != nil {
				message = c.Message
				check.Equal(t, "reason", v1alpha1.ReasonBudgetExhausted, c.Reason)
			}
			if tc.failed == "" || !strings.HasPrefix(message, tc.failed) {
				check.Equal(t, "failed", tc.failed, message)
			}
			check.Equal(t, "charged", tc.charged, []int{len(s.status().Restarts.ChargedTimes), len(s.status().Tasks[1].ChargedTimes)})
			check.Equal(t, "in all", int32(tc.charged[0]+tc.charged[1]), s.status().Restarts.Charged)
		})
	}
}

// The window of a budget is open at its start: a charge counts until it is as old.
func TestTheWindowOfABudget(t *testing.T) {
	for name, tc := range map[string]struct {
		after time.Duration
		state v1alpha1.State
	}{
		"a charge within it":      {99 * time.Second, v1alpha1.StateFailed},
		"a charge that is as old": {100 * time.Second, v1alpha1.StateRunning},
	} {
		t.Run(name, func(t *testing.T) {
			s := running(2)
			s.Now = sceneStart.Truncate(time.Second)
			s.Job.Spec.RestartPolicy = policy(budget(1, 100))
			s.mends(0, 0)
			s.mends(0, tc.after)
			check.Equal(t, "state", tc.state, s.status().State)
		})
	}
	t.Run("what is older is forgotten", func(t *testing.T) {
		s := running(2)
		s.Job.Spec.RestartPolicy = policy(budget(2, 100))
		for range 4 {
			s.mends(0, time.Minute)
		}
		check.Equal(t, "times", 2, len(s.status().Restarts.ChargedTimes))
		check.Equal(t, "charged", int32(4), s.status().Restarts.Charged)
	})
}

func TestWhatIsCounted(t *testing.T) {
	r := func(parts ...func(*v1alpha1.Rule)) v1alpha1.Rule {
		return rule("r", append(parts, step(v1alpha1.RestartPod, 0), step(v1alpha1.RestartJob, 60))...)
	}
	tests := map[string]struct {
		rule               v1alpha1.Rule
		story              func(*scene)
		charged, uncharged int32
	}{
		"the program's fault, once for its ladder": {r(), func(s *scene) { s.crash(1, 1); s.decide(); s.after(time.Minute) }, 1, 0},
		"the node's, once for its ladder":          {r(), func(s *scene) { s.lose("n01"); s.decide(); s.after(time.Minute) }, 0, 1},
		"never":                                    {r(charged(v1alpha1.ChargeNever)), func(s *scene) { s.crash(1, 1); s.decide(); s.after(time.Minute) }, 0, 1},
		"always":                                   {r(charged(v1alpha1.ChargeAlways)), func(s *scene) { s.lose("n01"); s.decide(); s.after(time.Minute) }, 1, 0},
		"nothing before a step":                    {rule("r", step(v1alpha1.RestartPod, 90)), func(s *scene) { s.crash(1, 1); s.decide(); s.lose("n02") }, 0, 0},
		"nothing that is ignored":                  {rule("r", step(v1alpha1.Ignore, 0)), func(s *scene) { s.crash(1, 1) }, 0, 0},
		"nothing of a job that fails":              {rule("r", step(v1alpha1.FailJob, 0)), func(s *scene) { s.crash(1, 1) }, 0, 0},
		"a resumed job":                            {r(charged(v1alpha1.ChargeAlways)), func(s *scene) { s.Job.Spec.Suspend = true; s.decide(); s.Job.Spec.Suspend = false }, 0, 0},
		"a deleted Volcano Job":                    {r(charged(v1alpha1.ChargeAlways)), func(s *scene) { s.VolcanoJobs = nil }, 0, 1},
		"an uncharged one whose ranks all fell by themselves after it made them again": {rule("r", step(v1alpha1.RestartJob, 0), step(v1alpha1.RestartJob, 3600)), func(s *scene) {
			s.lose("n01")
			s.decide()
			for i := range s.Pods {
				s.replace(i)
			}
			s.decide()
			for i, n := range []string{"n00", "n03", "n02"} {
				s.bind(i, n)
			}
			s.crashAll()
			s.VolcanoJobs[0].Ended = true
		}, 1, 0},
		"a charged one that fell again, twice": {rule("r", step(v1alpha1.RestartJob, 0), step(v1alpha1.RestartJob, 3600)), func(s *scene) {
			s.crashAll()
			s.decide()
			for i := range s.Pods {
				s.replace(i)
			}
			s.decide()
			for i, n := range []string{"n00", "n01", "n02"} {
				s.bind(i, n)
			}
			s.crashAll()
			s.VolcanoJobs[0].Ended = true
			s.after(10 * time.Second)
		}, 2, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := running(3, tc.rule)
			tc.story(s)
			s.decide()
			check.Equal(t, "charged", tc.charged, s.status().Restarts.Charged)
			check.Equal(t, "uncharged", tc.uncharged, s.status().Restarts.Uncharged)
			check.Equal(t, "times", int(tc.charged), len(s.status().Restarts.ChargedTimes))
			s.decide()
			check.Equal(t, "charged, decided again", tc.charged, s.status().Restarts.Charged)
		})
	}
}

// The death of a node explains crashes that were charged: they are refunded.
func TestRefunds(t *testing.T) {
	tests := map[string]struct {
		rule    v1alpha1.Rule
		after   time.Duration
		change  func(*scene)
		class   v1alpha1.FailureClass
		charged int32
	}{
		"a node that is gone":            {others, time.Second, func(s *scene) { s.lose("n02") }, v1alpha1.ClassInfrastructure, 0},
		"a node that does not answer":    {others, 45 * time.Second, func(s *scene) { s.breakNode("n02") }, v1alpha1.ClassInfrastructure, 0},
		"just in time":                   {others, time.Minute, func(s *scene) { s.lose("n02") }, v1alpha1.ClassInfrastructure, 0},
		"too late":                       {others, time.Minute + 1, func(s *scene) { s.lose("n02") }, v1alpha1.ClassUser, 1},
		"another crash explains nothing": {others, time.Second, func(s *scene) { s.crash(2, 1) }, v1alpha1.ClassUser, 1},
		"what is always charged":         {rule("r", step(v1alpha1.RestartPod, 0), step(v1alpha1.RestartPod, 600), charged(v1alpha1.ChargeAlways)), time.Second, func(s *scene) { s.lose("n02") }, v1alpha1.ClassInfrastructure, 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := running(4, tc.rule)
			s.crash(0, 1)
			s.crash(1, 1)
			s.decide()
			check.Equal(t, "charged at first", int32(1), s.status().Restarts.Charged)
			s.replace(0)
			s.replace(1)
			s.decide()
			s.after(tc.after)
			tc.change(s)
			s.decide()
			first := s.status().Incidents[0]
			check.Equal(t, "class", tc.class, first.Class)
			check.Equal(t, "charged", tc.charged, s.status().Restarts.Charged)
			check.Equal(t, "the incident is", tc.charged > 0, first.Charged)
			check.Equal(t, "times", int(tc.charged), len(s.status().Restarts.ChargedTimes))
		})
	}
	t.Run("to the task's own budget", func(t *testing.T) {
		s := twoTasks(policy(withRules(others)), policy(budget(1, 1000)))
		s.crash(2, 1)
		s.decide()
		check.Equal(t, "charged", 1, len(s.status().Tasks[1].ChargedTimes))
		s.lose("n03")
		s.after(time.Second).decide()
		check.Equal(t, "refunded", 0, len(s.status().Tasks[1].ChargedTimes))
		check.Equal(t, "counts", v1alpha1.Restarts{Total: 1, Pod: 1, Uncharged: 1}, s.status().Restarts)
		check.Equal(t, "cause", "n03", s.incident(t).Cause.Node)
		check.Equal(t, "trigger", v1alpha1.NodeGone, s.incident(t).Trigger)
	})
	t.Run("to a budget that was another when it was charged", func(t *testing.T) {
		s := twoTasks(nil, policy(withRules(others)))
		s.crash(2, 1)
		s.decide()
		check.Equal(t, "charged", 1, len(s.status().Restarts.ChargedTimes))
		s.Job.Spec.Tasks[1].RestartPolicy = policy(withRules(others), budget(1, 1000))
		s.lose("n03")
		s.after(time.Second).decide()
		check.Equal(t, "refunded", 0, len(s.status().Restarts.ChargedTimes))
		check.Equal(t, "counts", v1alpha1.Restarts{Total: 1, Pod: 1, Uncharged: 1}, s.status().Restarts)
	})
	t.Run("before any step: nothing was paid", func(t *testing.T) {
		s := running(3, rule("r", step(v1alpha1.RestartPod, 30)))
		s.crash(0, 1)
		s.decide()
		s.lose("n01")
		s.after(time.Second).decide()
		s.after(30 * time.Second).decide()
		check.Equal(t, "counts", v1alpha1.Restarts{Total: 1, Pod: 1, Uncharged: 1}, s.status().Restarts)
		check.Equal(t, "excluded", []string{"n01"}, s.excluded())
	})
}

// Other incidents were charged before and after.
func TestARefundTakesTheChargeOfItsIncident(t *testing.T) {
	s := running(2)
	first := metav1.NewTime(s.Now.Add(-time.Minute))
	s.status().Restarts.ChargedTimes, s.status().Restarts.Charged = []metav1.Time{first}, 1
	s.crash(0, 1)
	s.decide()
	check.Equal(t, "charged", int32(2), s.status().Restarts.Charged)
	last := metav1.NewTime(s.Now.Add(time.Second))
	s.status().Restarts.ChargedTimes, s.status().Restarts.Charged = append(s.status().Restarts.ChargedTimes, last), 3
	s.lose("n01")
	s.after(time.Second).decide()
	check.Equal(t, "charged", int32(2), s.status().Restarts.Charged)
	var left []string
	for _, at := range s.status().Restarts.ChargedTimes {
		left = append(left, at.Truncate(time.Second).String())
	}
	check.Equal(t, "left", []string{first.Truncate(time.Second).String(), last.Truncate(time.Second).String()}, left)
}

// Two incidents are charged in the same second. The first takes another step then, which costs nothing: what it gets back is its own charge alone.
func TestARefundLeavesTheChargesOfTheSameSecond(t *testing.T) {
	s := twoTasks(policy(withRules(others)), policy(withRules(others), budget(1, 1000)))
	s.crashAll()
	s.decide()
	check.Equal(t, "charged at first", int32(2), s.status().Restarts.Charged)
	s.VolcanoJobs[0].Ended = true
	s.decide()
	check.Equal(t, "attempt", int32(2), s.status().Attempt)
	check.Equal(t, "charged", int32(2), s.status().Restarts.Charged)
	s.VolcanoJobs, s.Pods = nil, nil
	s.started()
	s.lose("n00")
	s.after(time.Second).decide()
	check.Equal(t, "counted", int32(1), s.status().Restarts.Charged)
	check.Equal(t, "charged to the job", 0, len(s.status().Restarts.ChargedTimes))
	check.Equal(t, "charged to the workers", 1, len(s.status().Tasks[1].ChargedTimes))
}

// The budget outlives the Volcano Job: whoever deletes that, or has it expire, gives back nothing of what was charged.
func TestTheBudgetSurvivesTheVolcanoJob(t *testing.T) {
	s := running(2)
	s.Job.Spec.RestartPolicy = policy(budget(2, 1000))
	s.mends(0, time.Minute)
	charged := s.status().Restarts.ChargedTimes
	check.Equal(t, "charged", 1, len(charged))

	s.VolcanoJobs, s.PodGroup, s.Pods = nil, nil, nil
	s.after(time.Minute).decide()
	check.Equal(t, "trigger", v1alpha1.VolcanoJobDeleted, s.incident(t).Trigger)
	check.Equal(t, "attempt", int32(2), s.status().Attempt)
	s.started().placed()
	check.Equal(t, "charged, after the Volcano Job was deleted", charged, s.status().Restarts.ChargedTimes)
	check.Equal(t, "counted", int32(1), s.status().Restarts.Charged)

	s.mends(0, time.Minute)
	check.Equal(t, "state, with one charge left", v1alpha1.StateRunning, s.status().State)
	s.mends(0, time.Minute)
	check.Equal(t, "state, with none", v1alpha1.StateFailed, s.status().State)
}
