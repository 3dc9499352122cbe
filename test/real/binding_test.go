// Ranks that return to nodes which their job holds, with no scheduler to place them.

package real

import (
	"errors"
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

func holdsItsNodes(t *Training) { t.Job.Spec.Hold = &v1alpha1.Hold{Policy: v1alpha1.HoldAlways} }

func TestRanksReturnWithoutTheScheduler(t *testing.T) {
	s := train(t, "direct", 6, 300, holdsItsNodes)
	before := s.pods()
	s.must(s.AwaitJob(s.ctx, "the job holds its nodes", func(job *v1alpha1.TrainingJob) bool { return len(job.Status.Holds) == 6 }))
	s.must(s.AwaitSteps(s.ctx, 25))
	scheduler := ground.Component(cluster.VolcanoScheduler)
	s.must(scheduler.Kill())
	stopped := true
	t.Cleanup(func() {
		if stopped {
			s.must(scheduler.Start(s.ctx))
		}
	})

	s.resumes("one pod deleted", func() error { return s.deletePods(3) })
	s.sameNodes(before)
	others := maps.Clone(before)
	delete(others, 3)
	s.survivorsStay(others)
	s.must(s.AwaitSteps(s.ctx, s.LastStep()+12))
	s.resumes("all pods deleted", func() error { return s.deletePods(0, 1, 2, 3, 4, 5) })
	s.sameNodes(before)
	s.must(scheduler.Start(s.ctx))
	stopped = false
	s.must(s.Finish(s.ctx))
	s.sameNodes(before)
}

// A node reboots before it is missed, and its GPUs are not there any more. Its kubelet would admit a pod that is bound there all
// the same: the job's hold brings none back.
func TestANodeThatLosesItsGPUsInAReboot(t *testing.T) {
	s := train(t, "reboot", 3, 200, inOneRack, holdsItsNodes)
	before := s.pods()
	node := before[1].Spec.NodeName
	s.must(s.AwaitJob(s.ctx, "the job holds its nodes", func(job *v1alpha1.TrainingJob) bool { return len(job.Status.Holds) == 3 }))
	s.must(s.AwaitSteps(s.ctx, 25))
	s.must(ground.LoseGPUs(s.ctx, node))
	t.Cleanup(func() { s.must(ground.FindGPUs(s.ctx, node)) })
	s.resumes("a node lost its GPUs in a reboot", func() error {
		return errors.Join(ground.PowerOff(s.ctx, node), ground.PowerOn(s.ctx, node))
	})
	s.must(s.Finish(s.ctx))
	s.survivorsStay(before, 1)
	s.atHome(before)
	s.blames(before, 1)
}

func (s *scenario) deletePods(ranks ...int) error {
	pods := s.pods()
	for _, rank := range ranks {
		pod := pods[rank]
		if err := ground.Client().Delete(s.ctx, &pod, client.Preconditions{UID: &pod.UID}); err != nil {
			return err
		}
	}
	return nil
}

// sameNodes checks that each rank is on the node that it was on before.
func (s *scenario) sameNodes(before map[int]corev1.Pod) {
	s.t.Helper()
	for rank, pod := range s.pods() {
		if was := before[rank].Spec.NodeName; pod.Spec.NodeName != was {
			s.errorf("rank %d is on %q, and was on %q", rank, pod.Spec.NodeName, was)
		}
	}
}
