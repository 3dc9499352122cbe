// Nodes that others empty: what Karpenter, Cluster Autoscaler and the GPU Operator do to them, replayed from their sources.

package e2e

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// Each begins to empty the node of a rank, waits until that has left, and then removes the node or gives it back.
func TestARankLeavesANodeThatOthersEmpty(t *testing.T) {
	for name, by := range map[string]struct {
		begin, end func(*scenario, string)
		wait       func(*scenario, corev1.Pod)
	}{
		// MarkToBeDeleted in cluster-autoscaler/utils/taints/taints.go, and evictPod in core/scaledown/actuation/drain.go. The cloud provider deletes the Node.
		"cluster-autoscaler": {
			begin: func(s *scenario, node string) {
				s.taint(node, corev1.Taint{Key: "ToBeDeletedByClusterAutoscaler", Value: strconv.FormatInt(time.Now().Unix(), 10), Effect: corev1.TaintEffectNoSchedule})
			},
			wait: (*scenario).evictsUntilGone,
			end:  func(s *scenario, node string) { s.must(testCluster.DeleteNode(s.ctx, node), "delete the node") },
		},
		// pkg/controllers/node/termination/controller.go of Karpenter 1.0: the Node is deleted, and its finalizer stays until it is empty.
		"karpenter": {
			begin: func(s *scenario, node string) {
				s.finalize(node, true)
				s.must(testCluster.Client().Delete(s.ctx, s.node(node)), "delete the node")
				s.taint(node, corev1.Taint{Key: "karpenter.sh/disrupted", Effect: corev1.TaintEffectNoSchedule})
			},
			wait: (*scenario).evictsUntilGone,
			end:  func(s *scenario, node string) { s.finalize(node, false) },
		},
		// The driver upgrade of pkg/upgrade in NVIDIA/k8s-operator-libs: a cordon, and then ScheduleCheckOnPodCompletion (pod_manager.go) until no pod of
		// waitForCompletion.podSelector runs.
		"gpu-operator": {
			begin: func(s *scenario, node string) { s.must(testCluster.Cordon(s.ctx, node), "cordon a node") },
			wait:  (*scenario).awaitsNoneRuns,
			end:   func(s *scenario, node string) { s.must(testCluster.Uncordon(s.ctx, node), "uncordon it") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScenario(t, name, 1, 6)
			s.run(s.trainingJob(3, rules(rule("maintenance", v1alpha1.NodeCordoned, step(v1alpha1.MigratePod, 0)))))
			before, victim := s.pods(), s.pod(1)
			s.protects("worker")
			if err := evict(s.ctx, victim); !apierrors.IsTooManyRequests(err) {
				t.Errorf("before, an eviction ends with %v", err)
			}
			by.begin(s, victim.Spec.NodeName)
			by.wait(s, victim)
			by.end(s, victim.Spec.NodeName)
			s.recovered(1)
			s.untouched(before, victim.Name)
			if inc := s.job.Status.Incidents[0]; len(s.job.Status.Incidents) != 1 || inc.Trigger != v1alpha1.NodeCordoned || s.job.Status.Restarts.Charged != 0 {
				t.Errorf("there are %d incidents, the first by %s, and %d restarts are charged", len(s.job.Status.Incidents), inc.Trigger, s.job.Status.Restarts.Charged)
			}
		})
	}
}

// evictsUntilGone evicts a pod again and again until that is not refused, and waits until it is gone.
func (s *scenario) evictsUntilGone(pod corev1.Pod) {
	s.t.Helper()
	s.awaitAny("the pod is evicted, or has left", func(ctx context.Context) (bool, error) {
		err := evict(ctx, pod)
		switch {
		case apierrors.IsTooManyRequests(err):
			return false, nil
		case apierrors.IsConflict(err): // another pod of its name
			return true, nil
		}
		return true, client.IgnoreNotFound(err)
	})
	s.awaitAny("the pod is gone", func(ctx context.Context) (bool, error) {
		is := &corev1.Pod{}
		err := testCluster.Client().Get(ctx, client.ObjectKeyFromObject(&pod), is)
		return apierrors.IsNotFound(err) || is.UID != pod.UID, client.IgnoreNotFound(err)
	})
}

// awaitsNoneRuns waits until no pod of a TrainingJob runs on the node of a pod.
func (s *scenario) awaitsNoneRuns(pod corev1.Pod) {
	s.t.Helper()
	s.awaitAny("no rank runs on the node", func(ctx context.Context) (bool, error) {
		pods := &corev1.PodList{}
		err := testCluster.Client().List(ctx, pods, client.HasLabels{v1alpha1.LabelJob}, client.MatchingFields{"spec.nodeName": pod.Spec.NodeName})
		return err == nil && !slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning }), err
	})
}

func (s *scenario) node(name string) *corev1.Node {
	s.t.Helper()
	node := &corev1.Node{}
	s.must(testCluster.Client().Get(s.ctx, client.ObjectKey{Name: name}, node), "get a node")
	return node
}

func (s *scenario) taint(node string, taint corev1.Taint) {
	s.t.Helper()
	s.must(testCluster.Taint(s.ctx, taint, node), "taint a node")
}

// finalize adds Karpenter's finalizer to a node, or removes it.
func (s *scenario) finalize(name string, add bool) {
	s.t.Helper()
	node := s.node(name)
	before := node.DeepCopy()
	if add {
		controllerutil.AddFinalizer(node, "karpenter.sh/termination")
	} else {
		controllerutil.RemoveFinalizer(node, "karpenter.sh/termination")
	}
	s.must(testCluster.Client().Patch(s.ctx, node, client.MergeFrom(before)), "patch a node")
}
