package real

import (
	"context"
	"regexp"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// A program that nobody here wrote: its agents find together again when one container ends, and the
// kubelet starts that one again.
func TestTorchrunResumesAfterAKilledContainer(t *testing.T) {
	s := torchrun(t, "torchrun", 120)
	before := s.pods()
	s.resumesPrinting("one agent killed", func() error { return ground.KillContainers(s.ctx, s.key(2)) })
	s.survivorsStay(before)
	s.atHome(before)
}

// The agents and workers of a killed node's peers do not end, so that the gang counts as running, and
// its rank is replaced after the default's 90 s.
func TestTorchrunResumesAfterAKilledNode(t *testing.T) {
	s := torchrun(t, "torchnode", 120)
	before := s.pods()
	s.resumesPrinting("the node of one agent killed", func() error { return s.powerOff(before[2].Spec.NodeName) })
	s.survivorsStay(before, 2)
	s.atHome(before)
	s.blames(before, 2)
}

// torchrun is a job of torchrun that has come to step 30.
func torchrun(t *testing.T, name string, steps int, change ...func(*Training)) *scenario {
	t.Helper()
	if err := ground.LoadTorch(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := &scenario{Training: ground.NewTorchrun(name, 3, steps), t: t, ctx: context.WithoutCancel(t.Context())}
	inOneRack(s.Training)
	for _, f := range change {
		f(s.Training)
	}
	s.removedAtTheEnd()
	s.must(ground.Client().Create(s.ctx, s.Job))
	s.must(s.awaitPrinted("event=checkpoint rank=0 step=30"))
	return s
}

// resumesPrinting does something to the gang, and waits until it has printed that it trains again, and
// has completed.
func (s *scenario) resumesPrinting(what string, disturb func() error) {
	s.t.Helper()
	began := time.Now()
	s.must(disturb())
	s.must(s.awaitPrinted("event=resumed rank=[0-2] step=([3-9][0-9]|[1-9][0-9]{2})"))
	s.t.Logf("%s: trains again after %s", what, time.Since(began).Round(10*time.Millisecond))
	s.must(s.AwaitJob(s.ctx, "the job has completed", func(job *v1alpha1.TrainingJob) bool {
		return job.Status.State == v1alpha1.StateCompleted
	}))
}

// awaitPrinted waits until a rank has printed a line that matches.
func (s *scenario) awaitPrinted(pattern string) error {
	wanted := regexp.MustCompile(pattern)
	return await(s.ctx, "a rank prints "+pattern, func(ctx context.Context) (bool, error) {
		for _, pod := range s.pods() {
			log, err := s.Log(ctx, pod, 1000)
			if err == nil && wanted.MatchString(log) {
				return true, nil
			}
		}
		return false, nil
	})
}
