package policies

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/test/check"
)

// wait has the supervisors of all pods say for which percentage of the time they wait, and that a step was made now. The last one counts for all that follow.
func (s *scene) wait(percent ...int32) *scene {
	for i := range s.Pods {
		s.Pods[i].Process.Waits = new(percent[min(i, len(percent)-1)])
		s.makesStep(i)
	}
	return s
}

func (s *scene) straggler() string {
	c := meta.FindStatusCondition(s.status().Conditions, v1alpha1.ConditionStraggler)
	if c == nil {
		return "none"
	}
	return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
}

func TestStragglers(t *testing.T) {
	const named = "True OthersWait: the other ranks of the task wait for llm-1-worker-0 on n00; half of all wait for 60% of the time, and a straggler for 30%"
	for name, tc := range map[string]struct {
		waits  []int32
		change func(*scene)
		want   string
	}{
		"one of four":                        {[]int32{30, 60}, func(*scene) {}, named},
		"all wait alike":                     {[]int32{50, 60}, func(*scene) {}, "none"},
		"one waits less, and not by half":    {[]int32{31, 60}, func(*scene) {}, "none"},
		"the others hardly wait":             {[]int32{0, 19}, func(*scene) {}, "none"},
		"two of four":                        {[]int32{15, 15, 60}, func(*scene) {}, "none"},
		"no rank waits, as where GPUs do":    {[]int32{0}, func(*scene) {}, "none"},
		"one does not say":                   {[]int32{15, 60}, func(s *scene) { s.Pods[3].Process.Waits = nil }, "none"},
		"one is not heard":                   {[]int32{15, 60}, func(s *scene) { s.Pods[3].Process = nil }, "none"},
		"one is at the barrier":              {[]int32{15, 60}, func(s *scene) { s.Pods[3].Process.State = gang.ProcessWaiting }, "none"},
		"one evaluates, and the others wait": {[]int32{15, 60}, func(s *scene) { s.Pods[0].Training.Phase = v1alpha1.PhaseEvaluate }, "none"},
		"no step is made":                    {[]int32{15, 60}, func(s *scene) { s.after(time.Minute) }, "none"},
		"the ranks are independent":          {[]int32{15, 60}, func(s *scene) { s.Job.Spec.Tasks[0].Independent = true }, "none"},
	} {
		t.Run(name, func(t *testing.T) {
			s := supervised(4).wait(tc.waits...)
			tc.change(s)
			s.decide()
			check.Equal(t, "condition", tc.want, s.straggler())
		})
	}
}

// Ranks of one task alone do the same work.
func TestStragglersOfOneTask(t *testing.T) {
	job := aJob().tasks(task("learner", 1), task("actor", 3))
	job.Spec.Supervisor = &v1alpha1.Supervisor{}
	s := aScene(job).started().placed()
	for i := range s.Pods {
		s.reports(i, gang.ProcessRunning)
	}
	s.decide()
	s.wait(0, 60).decide()
	check.Equal(t, "a learner that actors wait for", "none", s.straggler())
	s.wait(0, 60, 5, 60).decide()
	check.Equal(t, "a slow actor", true, strings.Contains(s.straggler(), "wait for llm-1-actor-1 on"))
}

// A straggler is said for ten minutes, whatever follows, and once where it stays one.
func TestAStragglerIsSaidForAWhile(t *testing.T) {
	s := supervised(4).wait(15, 60)
	s.decide()
	check.Equal(t, "message of the job", true, strings.HasPrefix(s.status().Message, "the other ranks of the task wait for llm-1-worker-0"))
	writes := 0
	look := func(d time.Duration, percent ...int32) {
		before := s.status().DeepCopy()
		s.after(d).wait(percent...).decide()
		before.Progress = s.status().Progress
		if !equality.Semantic.DeepEqual(before, s.status()) {
			writes++
		}
	}
	for i := range int32(30) {
		look(time.Minute, i%16, 70)
	}
	check.Equal(t, "writes while it stays", 0, writes)
	look(time.Minute, 60)
	check.Equal(t, "once it is none", "False NoStraggler: no ranks are known that the others wait for", s.straggler())
	look(time.Minute, 60, 15, 60)
	check.Equal(t, "another one", true, strings.Contains(s.straggler(), "worker-1"))
	look(9*time.Minute, 60)
	check.Equal(t, "another one, later", true, strings.Contains(s.straggler(), "worker-1"))
	s.fails(0, 1)
	s.decide()
	check.Equal(t, "once the gang is restarted", "False NoStraggler: no ranks are known that the others wait for", s.straggler())
}

// A gang whose ranks say how long they wait is looked at each minute while it makes steps.
func TestWhenStragglersAreLookedFor(t *testing.T) {
	s := supervised(4)
	s.decide()
	quiet := s.decide().Next
	s.wait(60)
	check.Equal(t, "while it makes steps", s.Now.Add(time.Minute), s.decide().Next)
	s.after(time.Minute)
	check.Equal(t, "while it makes none", false, s.decide().Next.Equal(s.Now.Add(time.Minute)))
	check.Equal(t, "before anything is known", time.Time{}, quiet)
}

// drawn are the percentages that ranks wait for within 50 s, whose steps differ by a tenth at random, and one of which is slower by a factor.
func drawn(dice *rand.Rand, ranks int, slower float64) []int32 {
	const steps, exchange = 100, 0.05
	worked, took := make([]float64, ranks), 0.0
	own := make([]float64, ranks)
	for r := range own {
		own[r] = 1 + 0.02*dice.NormFloat64()
	}
	own[0] *= slower
	for range steps {
		longest := 0.0
		for r := range ranks {
			d := own[r] * max(0.5, 1+0.1*dice.NormFloat64())
			worked[r], longest = worked[r]+d, max(longest, d)
		}
		took += longest + exchange
	}
	out := make([]int32, ranks)
	for r := range out {
		out[r] = int32(100 * (1 - worked[r]/took))
	}
	return out
}

// Of a thousand gangs of healthy ranks none has a straggler, and each of a hundred with one that is slower by half, or by more, does.
func TestStragglersOfAThousandGangs(t *testing.T) {
	dice := rand.New(rand.NewPCG(1, 2))
	for _, ranks := range []int{3, 4, 8, 32, 128} {
		s := large(int32(ranks))
		s.Job.Spec.Supervisor = &v1alpha1.Supervisor{}
		for i := range s.Pods {
			s.reports(i, gang.ProcessRunning)
		}
		s.decide()
		for i := range s.Pods {
			s.reports(i, gang.ProcessRunning)
		}
		named := func(slower float64) string {
			s.wait(drawn(dice, ranks, slower)...)
			return jobOf(&s.Observation, s.status()).stragglers(s.status())
		}
		for range 200 {
			if told := named(1); told != "" {
				t.Errorf("%d healthy ranks: %s", ranks, told)
			}
		}
		for range 20 {
			slower := 1.5 + 2*dice.Float64()
			if told := named(slower); !strings.Contains(told, "wait for llm-1-worker-0 on n00;") {
				t.Errorf("%d ranks, of which one is %.1f times slower: %q", ranks, slower, told)
			}
		}
	}
}
