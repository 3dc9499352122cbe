package policies

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/test/check"
)

// wait has the supervisors of all pods say for which percentage of the time they wait, and that a step was made now. The last one counts for all that follow.
func (s *scene) wait(percent ...int32) *scene {
	for i := range s.Pods {
		n := percent[min(i, len(percent)-1)]
		s.Pods[i].Process.Waits = &gang.Waits{Least: n, Most: n}
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

const noStraggler = "False NoStraggler: no ranks are known that the others wait for"

func TestStragglers(t *testing.T) {
	const named = "True OthersWait: the others may wait for llm-1-worker-0 on n00, which waits for 30% of its time and half of its peers for 60%"
	for name, tc := range map[string]struct {
		waits  []int32
		change func(*scene)
		want   string
	}{
		"one of four":                      {[]int32{30, 60}, func(*scene) {}, named},
		"all wait alike":                   {[]int32{50, 60}, func(*scene) {}, "none"},
		"one waits less, and not by half":  {[]int32{31, 60}, func(*scene) {}, "none"},
		"the others hardly wait":           {[]int32{0, 19}, func(*scene) {}, "none"},
		"two of four":                      {[]int32{15, 15, 60}, func(*scene) {}, "none"},
		"no rank waits, as where GPUs do":  {[]int32{0}, func(*scene) {}, "none"},
		"the others wait less at times":    {[]int32{30, 60}, func(s *scene) { s.each(func(p *gang.Pod) { p.Process.Waits.Least = 30 }) }, "none"},
		"one waits more at times":          {[]int32{30, 60}, func(s *scene) { s.Pods[0].Process.Waits.Most = 60 }, "none"},
		"one does not say":                 {[]int32{15, 60}, func(s *scene) { s.Pods[3].Process.Waits = nil }, "none"},
		"one is not heard":                 {[]int32{15, 60}, func(s *scene) { s.Pods[3].Process = nil }, "none"},
		"one is at the barrier":            {[]int32{15, 60}, func(s *scene) { s.Pods[3].Process.State = gang.ProcessWaiting }, "none"},
		"steps of more than half a round":  {[]int32{15, 60}, func(s *scene) { s.Pods[2].Training.StepTime = 31 * time.Second }, "none"},
		"steps of unknown length":          {[]int32{15, 60}, func(s *scene) { s.Pods[2].Training.StepTime = 0 }, "none"},
		"no step was made":                 {[]int32{15, 60}, func(s *scene) { s.each(func(p *gang.Pod) { p.Training = nil }) }, "none"},
		"steps were made in another epoch": {[]int32{15, 60}, func(s *scene) { s.each(func(p *gang.Pod) { p.Training.Epoch-- }) }, "none"},
		"the ranks are independent":        {[]int32{15, 60}, func(s *scene) { s.Job.Spec.Tasks[0].Independent = true }, "none"},
	} {
		t.Run(name, func(t *testing.T) {
			s := supervised(4)
			s.after(time.Minute).wait(tc.waits...)
			tc.change(s)
			s.decide()
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

// Ranks of one task alone do the same work, and each task has its own stragglers. While a rank that says steps has only begun to, or evaluates, nothing is known of any.
func TestStragglersOfTasks(t *testing.T) {
	job := aJob().tasks(task("learner", 1), task("actor", 3), task("judge", 3))
	job.Spec.Supervisor = &v1alpha1.Supervisor{}
	s := aScene(job).started().placed()
	s.each(func(p *gang.Pod) { p.Process = &gang.Process{Epoch: 1} })
	s.decide()
	s.wait(0, 60).decide()
	check.Equal(t, "a learner that actors wait for", "none", s.straggler())
	s.wait(0, 60, 5, 60, 60, 20, 60)
	for i := range s.Pods {
		if i > 0 {
			s.Pods[i].Training = nil
		}
	}
	s.Pods[0].Process.Waits = nil
	s.decide()
	check.Equal(t, "while the learner, which says the steps, does not train", "none", s.straggler())
	s.Pods[0].Process.Waits = &gang.Waits{}
	s.decide()
	check.Equal(t, "two slow ones", "True OthersWait: the others may wait for llm-1-actor-1 on n02, which waits for 5% of its time and half of its peers for 60%; "+
		"llm-1-judge-1 on n05, which waits for 20% of its time and half of its peers for 60%", s.straggler())
}

// PyTorch's master does what its workers do, and can be the slow one among two of them.
func TestAStragglingMaster(t *testing.T) {
	job := aJob().tasks(task("master", 1), task("worker", 2))
	job.Spec.Supervisor = &v1alpha1.Supervisor{}
	job.Spec.Framework = &v1alpha1.Framework{PyTorch: &v1alpha1.PyTorch{Master: "master", Worker: "worker"}}
	s := aScene(job).started().placed()
	s.each(func(p *gang.Pod) { p.Process = &gang.Process{Epoch: 1} })
	s.decide()
	s.after(time.Minute).wait(30, 60).decide()
	const named = "True OthersWait: the others may wait for llm-1-master-0 on n00, which waits for 30% of its time and half of its peers for 60%"
	check.Equal(t, "condition", named, s.straggler())
	for range 11 {
		s.after(time.Minute).wait(20, 60).decide()
	}
	check.Equal(t, "while it stays", named, s.straggler())

	job = aJob().tasks(task("master", 1), task("worker", 4))
	job.Spec.Supervisor, job.Spec.Framework = &v1alpha1.Supervisor{}, s.Job.Spec.Framework
	job.Spec.Tasks[0].Independent = true
	s = aScene(job).started().placed()
	s.each(func(p *gang.Pod) {
		if p.Task == "worker" {
			p.Process = &gang.Process{Epoch: 1}
		}
	})
	s.decide()
	s.after(time.Minute)
	for i := range s.Pods {
		if p := &s.Pods[i]; p.Process != nil {
			n := int32(60)
			if p.Index == 2 {
				n = 10
			}
			p.Process.Waits = &gang.Waits{Least: n, Most: n}
			s.makesStep(i)
		}
	}
	s.decide()
	check.Equal(t, "beside a master that is independent", true, strings.Contains(s.straggler(), "worker-2"))
}

// A straggler is said for ten minutes at least, and once, while it stays one, or nothing else is known.
func TestAStragglerIsSaidForAWhile(t *testing.T) {
	s := supervised(4)
	look := func(d time.Duration, percent ...int32) {
		s.after(d).wait(percent...).decide()
	}
	look(time.Minute, 15, 60)
	check.Equal(t, "message of the job", true, strings.HasPrefix(s.status().Message, "the others may wait for llm-1-worker-0"))
	first := s.straggler()
	for i := range int32(30) {
		look(time.Minute, i%45, 60)
	}
	check.Equal(t, "while it stays", first, s.straggler())
	s.after(time.Minute).wait(60)
	s.Pods[3].Process.Waits = nil
	s.decide()
	check.Equal(t, "while one rank does not say", first, s.straggler())
	s.Pods[2].Ready = false
	s.wait(60).decide()
	check.Equal(t, "while a pod is not ready", first, s.straggler())
	s.Pods[2].Ready = true
	s.each(func(p *gang.Pod) { p.Process = nil })
	s.decide()
	check.Equal(t, "while none is heard, as where the manager has just started", first, s.straggler())
	s.each(func(p *gang.Pod) { p.Process = &gang.Process{Epoch: 1} })
	look(time.Second, 60)
	check.Equal(t, "once it is none", noStraggler, s.straggler())
	look(time.Second, 60, 15, 60)
	check.Equal(t, "another one", true, strings.Contains(s.straggler(), "worker-1"))
	look(9*time.Minute, 60)
	check.Equal(t, "that is none soon", true, strings.Contains(s.straggler(), "worker-1"))
	look(time.Minute, 60, 44, 0, 60)
	look(time.Minute, 60, 44, 0, 60)
	check.Equal(t, "beside another", true, strings.Contains(s.straggler(), "worker-2") && !strings.Contains(s.straggler(), "worker-1"))
	s.fails(0, 1)
	s.decide()
	check.Equal(t, "once the gang is restarted", noStraggler, s.straggler())
}

// A gang whose ranks seem to be stragglers in turns, as a hostile program can have it, says so twice in ten minutes.
func TestStragglersAreWrittenSeldom(t *testing.T) {
	s := supervised(4)
	said, written := s.straggler(), 0
	for i := range 3600 {
		waits := []int32{60, 60, 60, 60}
		if i%2 == 0 {
			waits[i/2%4] = 0
		}
		s.after(time.Second).wait(waits...).decide()
		if now := s.straggler(); now != said {
			said, written = now, written+1
		}
	}
	if written < 6 || written > 12 {
		t.Errorf("written %d times in an hour", written)
	}
}

// What cannot be compared any more is no straggler after ten minutes.
func TestAStragglerThatCannotBeCompared(t *testing.T) {
	for name, change := range map[string]func(*scene){
		"steps take long":        func(s *scene) { s.each(func(p *gang.Pod) { p.Training.StepTime = time.Minute }) },
		"a rank has ended":       func(s *scene) { s.reports(3, gang.ProcessSucceeded) },
		"it is on another node":  func(s *scene) { s.Pods[0].Node = "n09"; s.Pods[0].Process.Waits = nil },
		"it is of another shape": func(s *scene) { s.Job.Spec.Tasks[0].Independent = true },
	} {
		t.Run(name, func(t *testing.T) {
			s := supervised(4)
			s.after(time.Minute).wait(15, 60).decide()
			s.after(10*time.Minute).wait(15, 60)
			change(s)
			s.decide()
			check.Equal(t, "condition", noStraggler, s.straggler())
		})
	}
}

// The ranks of one node of three or more may be stragglers together.
func TestStragglersOfANode(t *testing.T) {
	for nodes, want := range map[string]string{"0123": "True", "01": "none", "0001": "none"} {
		s := large(16)
		s.Job.Spec.Supervisor = &v1alpha1.Supervisor{}
		for i := range s.Pods {
			s.Pods[i].Node = "n0" + nodes[i*len(nodes)/16:][:1]
		}
		s.all(gang.ProcessRunning)
		s.decide()
		s.all(gang.ProcessRunning)
		s.after(time.Minute).wait(5, 5, 5, 5, 60).decide()
		check.Equal(t, "nodes "+nodes, want, strings.Fields(s.straggler())[0])
	}
}

// The clock of another manager may have been ahead.
func TestAStragglerOfATimeToCome(t *testing.T) {
	s := supervised(4)
	s.after(24*time.Hour).wait(15, 60).decide()
	s.after(-23 * time.Hour).wait(60).decide()
	check.Equal(t, "condition", noStraggler, s.straggler())
}

// A gang whose ranks say how long they wait is looked at each minute.
func TestWhenStragglersAreLookedFor(t *testing.T) {
	s := supervised(4)
	check.Equal(t, "before anything is known", time.Time{}, s.decide().Next)
	s.after(time.Second).wait(60)
	s.Pods[1].Process.Waits = nil
	check.Equal(t, "once something is", s.Now.Add(time.Minute), s.decide().Next)
}

// drill is a gang that trains for some time: its ranks compute for a step, and wait for the slowest of them.
type drill struct {
	ranks         int
	step, slower  float64 // in seconds, and of rank 0
	pause, others float64 // of rank 0 every ten minutes, while the others wait, and of all
	busy          [][]float64
	told          []gang.Waits
	offset        []float64
}

const drillSlots = 360 // of 10 s

// play trains for an hour.
func (d *drill) play(dice *rand.Rand) {
	own, end := make([]float64, d.ranks), float64(10*drillSlots)
	d.busy, d.offset, d.told = make([][]float64, d.ranks), make([]float64, d.ranks), make([]gang.Waits, d.ranks)
	for r := range own {
		own[r], d.offset[r], d.busy[r] = d.step*(1+0.02*dice.NormFloat64()), 10*dice.Float64(), make([]float64, drillSlots)
	}
	own[0] *= d.slower
	next := 600 * dice.Float64()
	for t := 0.0; t < end; {
		longest := 0.0
		for r := range own {
			took := own[r] * max(0.5, 1+0.1*dice.NormFloat64())
			d.computes(r, t, t+took)
			longest = max(longest, took)
		}
		t += longest + 0.05*d.step
		if t > next {
			d.computes(0, t, t+d.pause)
			t, next = t+d.pause+d.others, next+600
		}
	}
}

// computes adds what a rank computes to its times of 10 s, which begin at other moments than those of the others.
func (d *drill) computes(r int, from, to float64) {
	for slot := max(0, int((from-d.offset[r])/10)); slot < drillSlots; slot++ {
		begin := d.offset[r] + float64(10*slot)
		if begin >= to {
			return
		}
		d.busy[r][slot] += max(0, min(to, begin+10)-max(from, begin))
	}
}

// look has the scene see what the ranks have said by a time: what differs by little is not said again.
func (d *drill) look(s *scene, now float64) {
	for r := range d.told {
		last := int((now - d.offset[r]) / 10)
		var rounds []int32
		for ; len(rounds) < 5; last -= 6 {
			busy := 0.0
			for _, b := range d.busy[r][max(0, last-6):max(0, last)] {
				busy += b
			}
			rounds = append(rounds, int32(100-busy/0.6))
		}
		slices.Sort(rounds)
		is := gang.Waits{Least: rounds[1], Most: rounds[3]}
		if was := d.told[r]; max(is.Least-was.Least, was.Least-is.Least, is.Most-was.Most, was.Most-is.Most) >= 5 {
			d.told[r] = is
		}
		s.Pods[r].Process.Waits = new(d.told[r])
	}
}

// names are the stragglers that are said after a look.
func (d *drill) names(s *scene) (out []string) {
	for _, f := range jobOf(&s.Observation, s.status()).compare(s.status()).stragglers() {
		out = append(out, f.Name)
	}
	return out
}

// Of a thousand gangs of healthy ranks none has a straggler in an hour, whatever pauses they make, and one that is slower by half or more is named by the fifth look.
func TestStragglersOfAThousandGangs(t *testing.T) {
	dice := rand.New(rand.NewPCG(1, 2))
	for _, ranks := range []int{3, 4, 8, 32} {
		s := large(int32(ranks))
		s.Job.Spec.Supervisor = &v1alpha1.Supervisor{}
		s.all(gang.ProcessRunning)
		s.decide()
		s.all(gang.ProcessRunning)
		s.wait(0)
		for range 250 {
			d := &drill{ranks: ranks, slower: 1, step: 0.5 * math.Pow(60, dice.Float64())}
			switch dice.IntN(3) {
			case 0:
				d.pause = 110 * dice.Float64()
			case 1:
				d.others = 110 * dice.Float64()
			}
			d.play(dice)
			for now := 320.0; now < 3590; now += 60 {
				if d.look(s, now); len(d.names(s)) > 0 {
					t.Errorf("%d healthy ranks, steps of %.1f s, pauses of %.0f s and %.0f s: %v at %.0f s", ranks, d.step, d.pause, d.others, d.names(s), now)
				}
			}
		}
		for range 25 {
			d := &drill{ranks: ranks, slower: 1.5 + 2*dice.Float64()}
			d.step = 30 / d.slower * dice.Float64()
			d.play(dice)
			var named []string
			for now := 320.0; now < 320+5*60; now += 60 {
				d.look(s, now)
				named = d.names(s)
			}
			check.Equal(t, fmt.Sprintf("of %d ranks, steps of %.1f s, one that is %.1f times slower", ranks, d.step, d.slower), []string{"llm-1-worker-0"}, named)
		}
	}
}

// The nodes on which a job has had stragglers stay known, the latest first.
func TestNodesOfStragglers(t *testing.T) {
	s := supervised(9)
	for round := range 10 {
		slow := round % 9
		for i := range s.Pods {
			s.Pods[i].Process.Waits = &gang.Waits{Least: 60, Most: 60}
		}
		s.Pods[slow].Process.Waits = &gang.Waits{Least: 20, Most: 20}
		for range 20 {
			s.after(time.Minute)
			for i := range s.Pods {
				s.makesStep(i)
			}
			s.decide()
		}
	}
	check.Equal(t, "nodes", []string{"n00", "n08", "n07", "n06", "n05", "n04", "n03", "n02"}, s.status().StragglerNodes)
}
