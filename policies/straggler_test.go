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

// looks has the ranks compared twice, a minute apart, after they have said the same.
func (s *scene) looks(percent ...int32) {
	s.after(time.Second).wait(percent...).decide()
	s.after(time.Minute).wait(percent...).decide()
}

func TestStragglers(t *testing.T) {
	const named = "True OthersWait: the others may wait for llm-1-worker-0 on n00, which waits for 30% of its time and half of its task for 60%"
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
		"steps of before the stream":         {[]int32{15, 60}, func(s *scene) { s.each(func(p *gang.Pod) { p.Process.HeardSince = s.Now }) }, "none"},
		"the ranks are independent":          {[]int32{15, 60}, func(s *scene) { s.Job.Spec.Tasks[0].Independent = true }, "none"},
	} {
		t.Run(name, func(t *testing.T) {
			s := supervised(4)
			for range 2 {
				s.all(gang.ProcessRunning)
				s.after(time.Minute).wait(tc.waits...)
				tc.change(s)
				s.decide()
			}
			check.Equal(t, "condition", tc.want, s.straggler())
		})
	}
}

// each changes all pods.
func (s *scene) each(change func(*gang.Pod)) {
	for i := range s.Pods {
		change(&s.Pods[i])
	}
}

// Ranks of one task alone do the same work, and each task has its own stragglers.
func TestStragglersOfTasks(t *testing.T) {
	job := aJob().tasks(task("learner", 1), task("actor", 3), task("judge", 3))
	job.Spec.Supervisor = &v1alpha1.Supervisor{}
	s := aScene(job).started().placed()
	s.each(func(p *gang.Pod) { p.Process = &gang.Process{Epoch: 1} })
	s.decide()
	s.looks(0, 60)
	check.Equal(t, "a learner that actors wait for", "none", s.straggler())
	s.looks(0, 60, 5, 60, 60, 20, 60)
	check.Equal(t, "two slow ones", "True OthersWait: the others may wait for llm-1-actor-1 on n02, which waits for 5% of its time and half of its task for 60%; "+
		"llm-1-judge-1 on n05, which waits for 20% of its time and half of its task for 60%", s.straggler())
}

// What one look shows may be a pause of one rank, of which its supervisor does not know.
func TestAStragglerByOneLook(t *testing.T) {
	s := supervised(4)
	s.after(time.Second).wait(10, 60).decide()
	check.Equal(t, "after one look", true, strings.HasPrefix(s.straggler(), "Unknown OthersMayWait: the others may wait for llm-1-worker-0"))
	s.after(30 * time.Second).wait(60).decide()
	check.Equal(t, "before the second", true, strings.HasPrefix(s.straggler(), "Unknown OthersMayWait"))
	s.after(30*time.Second).wait(60, 10, 60).decide()
	check.Equal(t, "by the second, another one", "False NoStraggler: no ranks are known that the others wait for", s.straggler())
	s.looks(60, 10, 60)
	check.Equal(t, "by two more", true, strings.HasPrefix(s.straggler(), "True OthersWait: the others may wait for llm-1-worker-1"))
}

// A straggler is said for ten minutes at least, once where it stays one, and while nothing else is known.
func TestAStragglerIsSaidForAWhile(t *testing.T) {
	s := supervised(4)
	s.looks(15, 60)
	check.Equal(t, "message of the job", true, strings.HasPrefix(s.status().Message, "the others may wait for llm-1-worker-0"))
	writes := 0
	look := func(d time.Duration, percent ...int32) {
		before := s.status().DeepCopy()
		s.after(d).wait(append(percent, 60)...)
		if len(percent) == 0 {
			s.each(func(p *gang.Pod) { p.Process.Waits = nil })
		}
		s.decide()
		before.Progress = s.status().Progress
		if !equality.Semantic.DeepEqual(before, s.status()) {
			writes++
		}
	}
	for i := range int32(30) {
		look(time.Minute, i%45, 60)
	}
	look(time.Minute)
	s.each(func(p *gang.Pod) { p.Process = nil }) // as where the manager has just started
	was := s.straggler()
	s.after(time.Minute).decide()
	check.Equal(t, "while nothing is heard", was, s.straggler())
	s.each(func(p *gang.Pod) { p.Process = &gang.Process{Epoch: 1} })
	check.Equal(t, "writes while it stays", 0, writes)
	look(time.Minute, 60)
	check.Equal(t, "once it is none", "False NoStraggler: no ranks are known that the others wait for", s.straggler())
	s.looks(60, 15, 60)
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
	s.after(time.Second).wait(60)
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
			s.after(time.Second).wait(drawn(dice, ranks, slower)...)
			return jobOf(&s.Observation, s.status()).comparable(s.status()).story()
		}
		for range 200 {
			if told := named(1); told != "" {
				t.Errorf("%d healthy ranks: %s", ranks, told)
			}
		}
		for range 20 {
			slower := 1.5 + 2*dice.Float64()
			if told := named(slower); !strings.Contains(told, "wait for llm-1-worker-0 on n00,") {
				t.Errorf("%d ranks, of which one is %.1f times slower: %q", ranks, slower, told)
			}
		}
	}
}
