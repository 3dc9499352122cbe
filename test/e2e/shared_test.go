// Two jobs that share nodes: neither keeps the other from its own place.

package e2e

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// halves makes the workers take half a node each, and lie apart.
func halves(j *v1alpha1.TrainingJob) {
	spec := &j.Spec.Tasks[0].Template.Spec
	spec.Containers[0].Resources.Limits = corev1.ResourceList{gpuResource: resource.MustParse("4")}
	spec.RestartPolicy = corev1.RestartPolicyOnFailure
	own := map[string]string{"halves": j.Name}
	j.Spec.Tasks[0].Template.Labels = own
	spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: own},
		}},
	}}
}

// beside is another job in the same pool.
func (s *scenario) beside(replicas int32, change ...func(*v1alpha1.TrainingJob)) *scenario {
	s.t.Helper()
	other := &scenario{t: s.t, ctx: s.ctx, pool: s.pool}
	named := func(j *v1alpha1.TrainingJob) { j.Name += "-other" }
	other.run(other.trainingJob(replicas, append([]func(*v1alpha1.TrainingJob){named}, change...)...))
	s.t.Cleanup(func() {
		if s.t.Failed() {
			s.t.Logf("the other job at the end:\n%s", other.dump())
			return
		}
		s.must(client.IgnoreNotFound(testCluster.Client().Delete(s.ctx, other.job)), "delete the other job")
		s.awaitAny("its pods are gone", func(ctxT) (bool, error) { return len(other.pods()) == 0, nil })
	})
	return other
}

func TestTwoJobsThatShareEveryNodeRestartAtOnceEachInItsPlace(t *testing.T) {
	s := newScenario(t, "shared", 1, 3)
	whole := rules(anything(step(v1alpha1.RestartJob, 1)))
	s.run(s.trainingJob(3, halves, whole))
	other := s.beside(3, halves, whole)
	before, othersBefore := s.nodesOfRanks(), other.nodesOfRanks()

	crash := cluster.Termination{ExitCode: 1}
	s.must(testCluster.RestartContainers(s.ctx, keyOf(s.pod(0)), crash), "crash a container")
	s.must(testCluster.RestartContainers(s.ctx, keyOf(other.pod(0)), crash), "crash one of the other job")
	s.recovered(1)
	other.recovered(1)

	s.sameNodes(before)
	other.sameNodes(othersBefore)
}
