// DaemonSets on the nodes of jobs, by Kubernetes' own DaemonSet controller.

package e2e

import (
	"context"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/controllers/volcano"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// Pods of DaemonSets run on where a job holds their nodes. One that ends returns at once if it tolerates holds, and otherwise once there is none.
func TestDaemonSetsOnHeldNodes(t *testing.T) {
	s := newScenario(t, "daemons", 1, 3)
	plain, tolerant := s.daemonSet("daemons-plain"), s.daemonSet("daemons-tolerant", corev1.Toleration{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule})
	all := func(d *appsv1.DaemonSetStatus) bool { return d.DesiredNumberScheduled == 3 && d.NumberReady == 3 }
	s.awaitDaemonSet(plain, "runs", all)
	s.awaitDaemonSet(tolerant, "runs", all)
	before := s.podsOf(plain)

	s.run(s.trainingJob(3, standing))
	s.awaitAny("all nodes are held", func(context.Context) (bool, error) {
		return !slices.ContainsFunc(s.pool.NodeNames(), func(name string) bool { return !slices.ContainsFunc(s.node(name).Spec.Taints, gang.IsHold) }), nil
	})
	for node, pod := range s.podsOf(plain) {
		if before[node].UID != pod.UID {
			t.Errorf("on %s is another pod than before", node)
		}
	}
	node := s.pod(1).Spec.NodeName
	for _, d := range []*appsv1.DaemonSet{plain, tolerant} {
		pod := s.podsOf(d)[node]
		s.must(testCluster.Client().Delete(s.ctx, &pod), "delete a pod of a DaemonSet")
	}
	s.awaitDaemonSet(plain, "is kept from all nodes, and lacks a pod", func(d *appsv1.DaemonSetStatus) bool {
		return d.DesiredNumberScheduled == 0 && d.NumberMisscheduled == 2
	})
	s.awaitDaemonSet(tolerant, "runs again", all)

	s.must(testCluster.Client().Delete(s.ctx, s.job), "delete the job")
	s.awaitDaemonSet(plain, "runs again", all)
}

// daemonSet makes a DaemonSet for the pool, until the test ends.
func (s *scenario) daemonSet(name string, tolerations ...corev1.Toleration) *appsv1.DaemonSet {
	s.t.Helper()
	labels := map[string]string{"daemonset": name}
	d := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: appsv1.DaemonSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			SchedulerName: volcano.SchedulerName, NodeSelector: s.pool.NodeSelector(), Tolerations: tolerations,
			TerminationGracePeriodSeconds: new(int64(0)), Containers: []corev1.Container{{Name: "main", Image: "device-plugin"}},
		}},
	}}
	s.must(testCluster.Client().Create(s.ctx, d), "create a DaemonSet")
	s.t.Cleanup(func() {
		s.must(testCluster.Client().Delete(s.ctx, d, client.PropagationPolicy(metav1.DeletePropagationForeground)), "delete the DaemonSet")
		s.awaitAny("its pods are gone", func(ctxT) (bool, error) { return len(s.podsOf(d)) == 0, nil })
	})
	return d
}

// awaitDaemonSet waits for the status of a DaemonSet.
func (s *scenario) awaitDaemonSet(d *appsv1.DaemonSet, what string, is func(*appsv1.DaemonSetStatus) bool) {
	s.t.Helper()
	s.awaitAny(d.Name+" "+what, func(ctx context.Context) (bool, error) {
		now := &appsv1.DaemonSet{}
		err := testCluster.Client().Get(ctx, client.ObjectKeyFromObject(d), now)
		return is(&now.Status), err
	})
}

// podsOf are the pods of a DaemonSet, by their nodes.
func (s *scenario) podsOf(d *appsv1.DaemonSet) map[string]corev1.Pod {
	s.t.Helper()
	list := &corev1.PodList{}
	s.must(testCluster.Client().List(s.ctx, list, client.InNamespace(namespace), client.MatchingLabels(d.Spec.Selector.MatchLabels)), "list the pods of a DaemonSet")
	pods := map[string]corev1.Pod{}
	for _, p := range list.Items {
		pods[p.Spec.NodeName] = p
	}
	return pods
}
