package real

import (
	"context"
	"regexp"
	"testing"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// A program that nobody here wrote: its agents find together again when one container ends, and the
// kubelet starts that one again.
func TestTorchrunResumesAfterAKilledContainer(t *testing.T) {
	if err := ground.LoadTorch(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := &scenario{Training: ground.NewTorchrun("torchrun", 3, 120), t: t, ctx: context.WithoutCancel(t.Context())}
	t.Cleanup(func() {
		if t.Failed() {
			s.dump()
		}
		s.must(s.Delete(s.ctx))
	})
	s.must(ground.Client().Create(s.ctx, s.Job))
	s.must(s.awaitPrinted("event=checkpoint rank=0 step=30"))
	before := s.pods()
	s.must(ground.KillContainers(s.ctx, s.key(2)))
	s.must(s.awaitPrinted("event=resumed rank=[0-2] step=[3-9][0-9]"))
	s.must(s.AwaitJob(s.ctx, "the job has completed", func(job *v1alpha1.TrainingJob) bool {
		return job.Status.State == v1alpha1.StateCompleted
	}))
	s.sameUIDs(before)
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
