// Spares that take over the ranks of lost nodes.

package real

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// TestSparesTakeOverLostRanks powers off the node of a worker, and then that of rank 0. Each time a spare that has warmed up is the rank from then on: no pod is made before the gang trains.
func TestSparesTakeOverLostRanks(t *testing.T) {
	s := train(t, "takeover", 6, 600, func(t *Training) {
		t.TakeOver(1)
		t.Job.Spec.Supervisor.TakeOver.WarmUp = &v1alpha1.WarmUp{Command: []string{"/trainer", "-h"}} // the image has no other program
	})
	before := s.pods()
	for _, lost := range []int{3, 0} {
		spares, err := s.AwaitSpares(s.ctx, TaskOf(lost))
		s.must(err)
		spare := spares[TaskOf(lost)][0]
		s.warmedUp(spare)
		made := s.uids()
		s.must(s.AwaitSteps(s.ctx, s.LastStep()+20))
		early := map[string]bool{}
		s.resumes("a node killed that a spare takes over from", func() error {
			generation := s.Generation()
			if err := s.powerOff(before[lost].Spec.NodeName); err != nil {
				return err
			}
			early, err = s.boundBefore(generation, made)
			return err
		})
		for name := range early {
			s.errorf("pod %s was made and bound before the gang trained again", name)
		}
		if now := s.pods()[lost]; now.UID != spare.UID {
			s.errorf("rank %d is pod %s, want %s, which was its spare", lost, now.Name, spare.Name)
		}
	}
	s.must(s.Finish(s.ctx))
	s.survivorsStay(before, 0, 3)
	s.atHome(before)
	s.neverRestarted()
}

// boundBefore waits until the gang trains in another generation, and returns the names of the pods that were bound before, except those
// that were there already. The generation is read after the pods: a spare may be bound in place of the used one as soon as the gang
// trains again.
func (s *scenario) boundBefore(generation uint64, there map[string]bool) (map[string]bool, error) {
	early := map[string]bool{}
	err := await(s.ctx, "the gang trains again", func(ctx context.Context) (bool, error) {
		pods, err := s.Training.pods(ctx)
		if err != nil || s.Generation() != generation {
			return err == nil, err
		}
		for _, pod := range pods {
			if !there[string(pod.UID)] && pod.Spec.NodeName != "" {
				early[pod.Name] = true
			}
		}
		return false, nil
	})
	return early, err
}

// warmedUp checks that a spare which waits has run its command for that before, and once.
func (s *scenario) warmedUp(spare corev1.Pod) {
	s.t.Helper()
	log, err := nodeLog(&spare)
	s.must(err)
	cold, _, waits := strings.Cut(log, "state=WAITING")
	if !waits || !strings.Contains(cold, "state=WARMING_UP") || strings.Count(cold, "Usage of trainer") != 1 {
		s.errorf("spare %s has not warmed up, once, and waited then:\n%s", spare.Name, log)
	}
}

// all are all pods of the job, and uids theirs.
func (s *scenario) all() []corev1.Pod {
	s.t.Helper()
	pods, err := s.Training.pods(s.ctx)
	s.must(err)
	return pods
}

func (s *scenario) uids() map[string]bool {
	uids := map[string]bool{}
	for _, pod := range s.all() {
		uids[string(pod.UID)] = true
	}
	return uids
}
