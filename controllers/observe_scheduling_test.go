// What Volcano says of pods that have no node, and of pods that it cannot make.

package controllers

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/test/check"
)

func TestFitErrors(t *testing.T) {
	tests := map[string]struct {
		message string
		want    []string
	}{
		"of one kind":                    {"0/18 nodes are unavailable: 18 Insufficient nvidia.com/gpu.", []string{"Insufficient nvidia.com/gpu"}},
		"in a HyperNode":                 {"In hyperNode gpu-r1: 0/6 nodes are unavailable: 6 Insufficient nvidia.com/gpu.", []string{"Insufficient nvidia.com/gpu"}},
		"of several, one with a comma":   {"0/3 nodes are unavailable: 1 node(s) pod number exceeded, 2 claims a, b.", []string{"claims a, b", "node(s) pod number exceeded"}},
		"the same in another order":      {"0/3 nodes are unavailable: 2 claims a, b, 1 node(s) pod number exceeded.", []string{"claims a, b", "node(s) pod number exceeded"}},
		"taints":                         {"0/3 nodes are unavailable: 1 node(s) had untolerated taint {a: b, c}, 2 node(s) had untolerated taint {hold.lockstep.dev/x-1: 17}.", []string{policies.HeldByOthers, "node(s) had untolerated taint {a}"}},
		"of another pod of the gang":     {"pod group is not ready, 2 Pending; Pending: 2 Unschedulable. Origin reason is a-1: 0/1 nodes are unavailable: 1 no volume.", []string{"no volume"}},
		"nothing but an incomplete gang": {"pod group is not ready, 2 Pending, 2 minAvailable; Pending: 2 Unschedulable", nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
				{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: tc.message},
			}}}
			check.Equal(t, "reasons", tc.want, reasonsOf(pod))
			pod.Status.Conditions[0].Reason = "Schedulable"
			check.Equal(t, "of a pod that waits for its gang", nil, reasonsOf(pod))
		})
	}
}

// Volcano prints the API server's error as a Go value into its event.
func TestThePodsThatVolcanoCannotMake(t *testing.T) {
	e := newEnv(t, aJob())
	e.settle()
	failed := func(after time.Duration, message string) *corev1.Event {
		return &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: key.Namespace, Name: "failed." + after.String()},
			InvolvedObject: corev1.ObjectReference{Name: "llm-1"}, Type: corev1.EventTypeWarning, Reason: "FailedCreate",
			Message: message, LastTimestamp: metav1.NewTime(t0.Add(after)),
		}
	}
	e.Must(e.API.Create(t.Context(), failed(2*time.Second, `Error creating pods: [failed to create pod llm-1-worker-0, err: &errors.StatusError{ErrStatus:v1.Status{Status:"Failure", Message:"pods \"llm-1-worker-0\" is forbidden: no PriorityClass with name nope was found", Reason:"Forbidden", Code:403}}]`)))
	e.Must(e.API.Create(t.Context(), failed(-time.Second, "something else, before")))
	e.Clock.SetTime(t0.Add(20 * time.Second))
	e.settle()
	want := `Volcano has made 0 of the 2 pods of the gang, and fails to make the others: pods are forbidden: no PriorityClass with name nope was found`
	check.Equal(t, "message", want, e.job().Status.Message)
	has(t, e.Told(), "Warning PodsNotCreated "+want)
}

// Volcano tries less and less often: a manager that was started since may see no other error for minutes.
func TestErrorsOfBeforeTheManagerWasStarted(t *testing.T) {
	e := newEnv(t, aJob())
	e.settle()
	e.Must(e.API.Create(t.Context(), &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: key.Namespace, Name: "failed"},
		InvolvedObject: corev1.ObjectReference{Name: "llm-1"}, Type: corev1.EventTypeWarning, Reason: "FailedCreate",
		Message: "exceeded quota", LastTimestamp: metav1.NewTime(t0.Add(2 * time.Second)),
	}))
	e.Clock.SetTime(t0.Add(15 * time.Second))
	e.restart(interceptor.Funcs{})
	e.settle()
	e.Clock.SetTime(t0.Add(35 * time.Second))
	e.settle()
	check.Equal(t, "message", "Volcano has made 0 of the 2 pods of the gang, and fails to make the others: exceeded quota", e.job().Status.Message)
}

// A round of the scheduler names one of several reasons at random.
func TestFitErrorsOfTheLastMinute(t *testing.T) {
	pods := func(messages ...string) []corev1.Pod {
		out := make([]corev1.Pod, len(messages))
		for i, m := range messages {
			out[i].Status.Conditions = []corev1.PodCondition{{
				Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/1 nodes are unavailable: 1 " + m + ".",
			}}
		}
		return out
	}
	var m memory
	at := func(seconds int) time.Time { return t0.Add(time.Duration(seconds) * time.Second) }
	check.Equal(t, "one round", []string{"gpu"}, m.noteFitErrors(pods("gpu"), at(0)))
	check.Equal(t, "another", []string{"gpu", "rdma"}, m.noteFitErrors(pods("rdma"), at(1)))
	check.Equal(t, "the first again", []string{"gpu", "rdma"}, m.noteFitErrors(pods("gpu"), at(2)))
	check.Equal(t, "a minute after the last of one", []string{"gpu"}, m.noteFitErrors(pods("gpu"), at(61)))
	check.Equal(t, "too many", []string{"a", "b", "c", "d", "e", "2 more"}, m.noteFitErrors(pods("a", "b", "c", "d", "e", "f"), at(62)))
	check.Equal(t, "no pod looks for a node", nil, m.noteFitErrors(nil, at(63)))
	check.Equal(t, "later", []string{"rdma"}, m.noteFitErrors(pods("rdma"), at(64)))
}
