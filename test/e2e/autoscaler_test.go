// Autoscalers: what Karpenter and Cluster Autoscaler do to a node that they remove.

package e2e

import (
	"context"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// Each taints the node, evicts its pods until no eviction is refused, and then has the Node deleted.
func TestARankLeavesANodeThatAnAutoscalerRemoves(t *testing.T) {
	for name, a := range map[string]struct {
		begin, end func(*scenario, string)
	}{
		// MarkToBeDeleted in cluster-autoscaler/utils/taints/taints.go, and evictPod in core/scaledown/actuation/drain.go. The cloud provider deletes the Node.
		"cluster-autoscaler": {
			begin: func(s *scenario, node string) {
				s.taint(node, corev1.Taint{Key: "ToBeDeletedByClusterAutoscaler", Value: strconv.FormatInt(time.Now().Unix(), 10), Effect: corev1.TaintEffectNoSchedule})
			},
			end: func(s *scenario, node string) { s.must(testCluster.DeleteNode(s.ctx, node), "delete the node") },
		},
		// pkg/controllers/node/termination/controller.go of Karpenter 1.0: the Node is deleted, and its finalizer stays until it is empty.
		"karpenter": {
			begin: func(s *scenario, node string) {
				s.finalize(node, true)
				s.must(client.IgnoreNotFound(testCluster.Client().Delete(s.ctx, s.node(node))), "delete the node")
				s.taint(node, corev1.Taint{Key: "karpenter.sh/disrupted", Effect: corev1.TaintEffectNoSchedule})
			},
			end: func(s *scenario, node string) { s.finalize(node, false) },
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
			a.begin(s, victim.Spec.NodeName)
			s.awaitAny("the pod is evicted, or has left", func(ctx context.Context) (bool, error) {
				err := evict(ctx, victim)
				switch {
				case apierrors.IsTooManyRequests(err):
					return false, nil
				case apierrors.IsConflict(err): // another pod of its name
					return true, nil
				}
				return true, client.IgnoreNotFound(err)
			})
			s.awaitAny("the node is empty", func(ctx context.Context) (bool, error) {
				is := &corev1.Pod{}
				err := testCluster.Client().Get(ctx, client.ObjectKeyFromObject(&victim), is)
				return apierrors.IsNotFound(err) || is.UID != victim.UID, client.IgnoreNotFound(err)
			})
			a.end(s, victim.Spec.NodeName)
			s.recovered(1)
			s.untouched(before, victim.Name)
			if inc := s.job.Status.Incidents[0]; len(s.job.Status.Incidents) != 1 || inc.Trigger != v1alpha1.NodeCordoned || s.job.Status.Restarts.Charged != 0 {
				t.Errorf("there are %d incidents, the first by %s, and %d restarts are charged", len(s.job.Status.Incidents), inc.Trigger, s.job.Status.Restarts.Charged)
			}
		})
	}
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
