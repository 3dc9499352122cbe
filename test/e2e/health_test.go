// What a NodeHealth says moves the pods that it concerns, and no other.

package e2e

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// reported says of a node what its agent would say.
func (s *scenario) reported(node string, status v1alpha1.NodeHealthStatus) {
	s.t.Helper()
	health := &v1alpha1.NodeHealth{ObjectMeta: metav1.ObjectMeta{Name: node}}
	s.must(testCluster.Client().Create(s.ctx, health), "create the NodeHealth")
	patch := client.MergeFrom(health.DeepCopy()) // the manager writes its verdict beside it
	health.Status = status
	s.must(testCluster.Client().Status().Patch(s.ctx, health, patch), "report")
	s.t.Cleanup(func() { s.must(testCluster.Client().Delete(s.ctx, health), "delete the NodeHealth") })
}

// podOf is a pod as reports name it.
func podOf(p corev1.Pod) string { return p.Namespace + "/" + p.Name }

func fault(state v1alpha1.HealthState, pods ...string) v1alpha1.HealthReport {
	return v1alpha1.HealthReport{
		Source: "dcgm", Entity: "nvlink/GPU-0/3", Signal: "NVLinkDown", State: state, Since: metav1.Now(),
		Message: "link 3 is down", Pods: pods,
	}
}

func TestFailedLinkMovesThePodThatUsesIt(t *testing.T) {
	s := newScenario(t, "linkfailed", 2, 6)
	s.run(s.trainingJob(4))
	before, victim := s.pods(), s.pod(1)
	home := s.rackOf(victim.Spec.NodeName)

	s.reported(victim.Spec.NodeName, v1alpha1.NodeHealthStatus{Reports: []v1alpha1.HealthReport{fault(v1alpha1.HealthStateFailed, podOf(victim))}})
	s.await("the incident opens", func() bool { return len(s.job.Status.Incidents) == 1 })
	s.recovered(1)

	s.untouched(before, victim.Name)
	s.atHome(home)
	if s.pod(1).Spec.NodeName == victim.Spec.NodeName {
		t.Error("the pod is back beside the failed link")
	}
	inc := s.job.Status.Incidents[0]
	if inc.Trigger != v1alpha1.HealthFailed || inc.Cause.Signal != "NVLinkDown" || inc.Class != v1alpha1.ClassInfrastructure || inc.Charged {
		t.Errorf("incident %+v", inc)
	}
	for _, args := range [][]string{{s.job.Name}, {s.job.Name, "worker-1"}} {
		s.answers(args, "Node "+victim.Spec.NodeName+": dcgm reports NVLinkDown of nvlink/GPU-0/3, Failed since", "link 3 is down. [NodeHealth "+victim.Spec.NodeName+"]")
	}
}

func TestDegradedLinkMovesThePodWhenItsTimeIsOver(t *testing.T) {
	s := newScenario(t, "linkdegraded", 1, 6)
	s.run(s.trainingJob(3, rules(rule("degraded", v1alpha1.HealthDegraded, step(v1alpha1.MigratePod, 3600)))))
	before, victim := s.pods(), s.pod(1)

	s.reported(victim.Spec.NodeName, v1alpha1.NodeHealthStatus{Reports: []v1alpha1.HealthReport{fault(v1alpha1.HealthStateDegraded, podOf(victim))}})
	s.noticed(1)
	s.untouched(before)
	s.due(v1alpha1.MigratePod)
	s.recovered(1)

	s.untouched(before, victim.Name)
	if s.pod(1).Spec.NodeName == victim.Spec.NodeName {
		t.Error("the pod is back on the node that it was migrated from")
	}
}

// No evidence, no action: not by what nobody can tell, nor by what concerns another pod.
func TestUnknownHealthMovesNothing(t *testing.T) {
	s := newScenario(t, "healthunknown", 1, 6)
	s.run(s.trainingJob(3))
	before, node := s.pods(), s.pod(1).Spec.NodeName

	s.reported(node, v1alpha1.NodeHealthStatus{
		Sources: []v1alpha1.HealthSource{{Name: "dcgm", State: v1alpha1.HealthUnknown, Message: "nv-hostengine does not answer"}},
		Reports: []v1alpha1.HealthReport{fault(v1alpha1.HealthStateFailed, namespace+"/another-pod")},
	})
	s.settled()
	s.untouched(before)
	s.await("no incident opens", func() bool { return len(s.job.Status.Incidents) == 0 })
}
