// No rank goes to an excluded or quarantined node, however healthy that looks.

package chaos

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// The node that was silent comes back, rebooted, with the Node object that it had, and by then is all that home has: the next
// rank to lose its node waits until the exclusion has ended, and for the step after that.
func TestExcludedNodeIsNotUsedBeforeItsTime(t *testing.T) {
	l := newLane(t, "excluded", 1, 3, func(l *lane) { l.timeout += silentFor })
	l.run(l.trainingJob(2, func(j *v1alpha1.TrainingJob) {
		j.Spec.RestartPolicy.ExcludeNodeSeconds = ptr.To[int32](15)
		j.Spec.RestartPolicy.UnreachableNode = &v1alpha1.UnreachableNode{Policy: v1alpha1.ForceDelete, AfterSeconds: ptr.To[int32](1)}
		j.Spec.RestartPolicy.Rules = []v1alpha1.Rule{{
			Name:  "twice",
			Match: v1alpha1.Match{Events: []v1alpha1.EventType{v1alpha1.AnyEvent}},
			Steps: []v1alpha1.Step{{Action: v1alpha1.RestartPod}, {Action: v1alpha1.RestartPod, AfterSeconds: 16}},
		}}
	}))
	failed, other := l.ranks()[1].Spec.NodeName, l.ranks()[0].Spec.NodeName

	before := l.before()
	l.must(testCluster.StopHeartbeat(l.ctx, failed), "stop the heartbeat")
	l.await("a node is excluded", func() bool { return len(l.job.Status.ExcludedNodes) == 1 })
	excluded := l.job.Status.ExcludedNodes
	if excluded[0].Name != failed {
		t.Fatalf("excluded nodes %v, want %s", excluded, failed)
	}
	l.recovered(before)
	l.must(testCluster.StartHeartbeat(l.ctx, failed), "start the heartbeat")
	l.must(testCluster.AwaitNodes(l.ctx, corev1.ConditionTrue, failed), "wait for the node")

	before = l.before()
	l.loseNode(other)
	l.recovered(before)

	pod := l.ranks()[0]
	if pod.Spec.NodeName != failed {
		t.Errorf("the rank is on node %s, want %s: no other is left", pod.Spec.NodeName, failed)
	}
	placed, err := time.Parse(time.RFC3339Nano, pod.Annotations[v1alpha1.AnnotationPlacedTime])
	l.must(err, "read when the pod was placed")
	if placed.Before(excluded[0].Until.Time) {
		t.Errorf("the rank was sent to node %s at %s, which was excluded until %s", failed, placed, excluded[0].Until)
	}
}

// A taint that says nothing of this job keeps it away, from a rank's own node, too.
func TestQuarantinedNodeIsNotUsed(t *testing.T) {
	l := newLane(t, "quarantined", 2, 4)
	l.run(l.trainingJob(3))
	before := l.before()
	own := l.ranks()[1].Spec.NodeName
	l.must(testCluster.Taint(l.ctx, corev1.Taint{Key: "example.com/quarantine", Effect: corev1.TaintEffectNoSchedule}, own), "taint the node")

	l.must(testCluster.FailPod(l.ctx, keyOf(l.ranks()[1]), 1), "fail the pod")
	l.recovered(before)

	if got := l.outcome(before).Ranks[1]; got != "at home" {
		t.Errorf("the rank of the quarantined node is %s, want it elsewhere at home", got)
	}
}
