// Events that never come: the operator goes on with what it last heard, and does nothing to what works by now.

package chaos

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// restartedAlone is what a failed pod leads to.
var restartedAlone = outcome{
	Incidents: []string{"PodFailed by rule everything-else: RestartPod (0), Recovered, charged"},
	Restarts:  v1alpha1.Restarts{Total: 1, Pod: 1, Charged: 1},
	Ranks:     []string{"untouched", "same node", "untouched"},
	Lives:     []int32{0, 1, 0},
}

func TestAnEventNeverComes(t *testing.T) {
	fail := func(l *lane, _ int) { l.must(testCluster.FailPod(l.ctx, keyOf(l.ranks()[1]), 1), "fail the pod") }
	tests := map[string]struct {
		recovery
		// which event is lost, of a pod, and of the node that it is on.
		loses func(e event, pod, node string) bool
	}{
		"failed":    {recovery{strike: fail, want: restartedAlone}, func(e event, pod, _ string) bool { return e.about("pods", pod, watch.Modified) }},
		"deleted":   {recovery{strike: fail, want: restartedAlone}, func(e event, pod, _ string) bool { return e.about("pods", pod, watch.Deleted) }},
		"node-gone": {recoveries["node"], func(e event, _, node string) bool { return e.about("nodes", node, watch.Deleted) }},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var ears lossy
			l := newLane(t, "lost-"+name, 1, 5, hears(&ears))
			l.run(l.trainingJob(3))
			before, made := l.before(), l.watchPods()
			struck := l.ranks()[1]
			ears.lose(func(e event) bool { return tc.loses(e, struck.Name, struck.Spec.NodeName) })
			tc.strike(l, 1)
			l.awaitAny("an event is lost", func(context.Context) (bool, error) { return ears.missed() > 0, nil })
			l.replay()
			ears.again()
			l.recovered(before)
			want := tc.want
			want.State = v1alpha1.StateRunning
			if diff := cmp.Diff(want, l.outcome(before)); diff != "" {
				t.Errorf("the outcome differs (-want +got):\n%s", diff)
			}
			if n := made(); n != 1 {
				t.Errorf("%d pods were made, want 1", n)
			}
		})
	}
}

// A container is ready again, and the operator does not hear of it before the next step is due.
func TestARecoveryIsNotHeardOf(t *testing.T) {
	var ears lossy
	l := newLane(t, "lost-ready", 1, 3, hears(&ears))
	l.run(l.trainingJob(2, func(j *v1alpha1.TrainingJob) {
		j.Spec.Tasks[0].Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
		j.Spec.RestartPolicy.Rules = []v1alpha1.Rule{{
			Name:  "crash",
			Match: v1alpha1.Match{Events: []v1alpha1.EventType{v1alpha1.AnyEvent}},
			Steps: []v1alpha1.Step{{Action: v1alpha1.RestartJob, AfterSeconds: 3600}},
		}}
	}))
	before, pod := l.before(), l.ranks()[1]
	l.must(testCluster.RestartContainers(l.ctx, keyOf(pod), cluster.Termination{ExitCode: 1}), "crash a container")
	l.await("an incident is open", func() bool { return len(l.job.Status.Incidents) == 1 })

	ears.lose(func(e event) bool { return e.about("pods", pod.Name, "") && isReady(e.pod()) })
	l.must(testCluster.ContainersReady(l.ctx, keyOf(pod)), "let the container be ready")
	l.awaitAny("the event is lost", func(context.Context) (bool, error) { return ears.missed() > 0, nil })
	l.clock.advance(2 * time.Hour)
	l.replay()
	ears.again()
	l.recovered(before)
	want := outcome{
		State: v1alpha1.StateRunning, Incidents: []string{"PodNotReady by rule crash:, Recovered"},
		Ranks: []string{"untouched", "untouched"}, Lives: []int32{0, 0},
	}
	if diff := cmp.Diff(want, l.outcome(before)); diff != "" {
		t.Errorf("the outcome differs (-want +got):\n%s", diff)
	}
}

// A silent node answers again, and the operator does not hear of it before the pod there counts as dead.
func TestTheReturnOfANodeIsNotHeardOf(t *testing.T) {
	var ears lossy
	l := newLane(t, "lost-return", 1, 4, hears(&ears))
	l.run(l.trainingJob(3, func(j *v1alpha1.TrainingJob) {
		j.Spec.RestartPolicy.UnreachableNode = &v1alpha1.UnreachableNode{Policy: v1alpha1.ForceDelete, AfterSeconds: ptr.To[int32](3600)}
		j.Spec.RestartPolicy.Rules = []v1alpha1.Rule{{
			Name:  "replace",
			Match: v1alpha1.Match{Events: []v1alpha1.EventType{v1alpha1.AnyEvent}},
			Steps: []v1alpha1.Step{{Action: v1alpha1.RestartPod}},
		}}
	}))
	before, pod := l.before(), l.ranks()[1]
	node := pod.Spec.NodeName
	l.must(testCluster.StopHeartbeat(l.ctx, node), "stop the heartbeat")
	l.readiness(node, corev1.ConditionUnknown)
	l.await("the pod is asked to end", func() bool { return l.pods()[pod.Name].DeletionTimestamp != nil })
	l.idle()

	ears.lose(func(e event) bool { return e.about("nodes", node, "") })
	l.readiness(node, corev1.ConditionTrue)
	l.awaitAny("the event is lost", func(context.Context) (bool, error) { return ears.missed() > 0, nil })
	l.clock.advance(2 * time.Hour)
	l.replay()
	if is := l.pods()[pod.Name]; is.UID != pod.UID {
		t.Errorf("the pod on node %s was taken away, and the node answers", node)
	}
	ears.again()
	l.must(testCluster.StartHeartbeat(l.ctx, node), "start the heartbeat")
	l.recovered(before)
	if diff := cmp.Diff([]int32{0, 1, 0}, l.outcome(before).Lives); diff != "" {
		t.Errorf("the incarnations (-want +got):\n%s", diff)
	}
}

// readiness sets what is known of a node, as its kubelet or the node controller does.
func (l *lane) readiness(node string, status corev1.ConditionStatus) {
	l.t.Helper()
	n := &corev1.Node{}
	l.must(testCluster.Client().Get(l.ctx, client.ObjectKey{Name: node}, n), "read a node")
	patch := client.StrategicMergeFrom(n.DeepCopy())
	for i := range n.Status.Conditions {
		if c := &n.Status.Conditions[i]; c.Type == corev1.NodeReady {
			c.Status, c.LastTransitionTime, c.LastHeartbeatTime = status, metav1.Now(), metav1.Now()
		}
	}
	l.must(testCluster.Client().Status().Patch(l.ctx, n, patch), "say whether a node is ready")
}
