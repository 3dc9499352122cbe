// Stragglers: one rank takes three times as long as the others for each step.

package real

import (
	"context"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// The job says which rank the others wait for in four of five minutes, and touches nothing for that. The ranks share two processors: what they wait for these is not for one another.
func TestAStraggler(t *testing.T) {
	if err := ground.LoadTorch(t.Context()); err != nil {
		t.Fatal(err)
	}
	p := newPlays(t)
	defer p.record(t, stragglersFile)()
	count := p.of("three times slower")
	for round := range *hangs {
		t.Run(strconv.Itoa(round), func(t *testing.T) {
			s := &scenario{Training: ground.NewTorchrun("straggler", 8, 100_000), t: t, ctx: context.WithoutCancel(t.Context())}
			s.slows(p.chance.IntN(s.Ranks), count)
		})
	}
}

// slows has one rank be slow, and waits until it is named.
func (s *scenario) slows(rank int, count *faultCounts) {
	s.t.Helper()
	s.Supervise()
	s.WithoutAgents()
	s.setEnv("STEP_TIME", "0")
	s.setEnv("WORK_TIME", "0.03")
	s.removedAtTheEnd()
	s.must(ground.Client().Create(s.ctx, s.Job))
	s.must(s.AwaitJob(s.ctx, "the gang trains", func(job *v1alpha1.TrainingJob) bool {
		p := job.Status.Progress
		return job.Status.State == v1alpha1.StateRunning && p != nil && p.Step != nil
	}))
	before := s.pods()
	count.Played++
	began := time.Now()
	s.signal(rank, syscall.SIGUSR2)
	s.must(s.AwaitJob(s.ctx, "the straggler is named", func(job *v1alpha1.TrainingJob) bool {
		return meta.IsStatusConditionTrue(job.Status.Conditions, v1alpha1.ConditionStraggler)
	}))
	count.suspected(int(time.Since(began).Seconds()))
	told := meta.FindStatusCondition(s.Job.Status.Conditions, v1alpha1.ConditionStraggler).Message
	s.t.Log(told)
	if want := "the others may wait for " + before[rank].Name + " on " + before[rank].Spec.NodeName + ","; strings.HasPrefix(told, want) {
		count.Named++
	} else {
		s.errorf("the job says %q, and not %q", told, want)
	}
	s.survivorsStay(before)
	s.neverRestarted()
}
