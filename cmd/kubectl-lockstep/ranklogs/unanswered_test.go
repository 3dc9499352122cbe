package ranklogs

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/test/check"
)

func TestAKubeletThatDoesNotAnswer(t *testing.T) {
	node := func(status corev1.ConditionStatus) *corev1.Node {
		return &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: status, Reason: "NodeStatusUnknown", LastTransitionTime: metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)),
		}}}}
	}
	for want, n := range map[string]*corev1.Node{
		"the node could not be read":    nil,
		"the node has never been Ready": {},
		"Ready of the node is Unknown since 2026-01-02 03:04:05 UTC, reason NodeStatusUnknown":      node(corev1.ConditionUnknown),
		"the node is Ready, so its port 10250 may be out of reach, or its kubelet has just stopped": node(corev1.ConditionTrue),
	} {
		err := Unanswered(&Source{Rank: "worker-1", Pod: "llama-1-worker-1", Node: "n1"}, "llama", n, errors.New("dial tcp"))
		check.Equal(t, "error", "the kubelet of node n1 does not give the log of pod llama-1-worker-1: "+want+
			". The log is on that node: try again when the node answers, and `kubectl lockstep why llama worker-1` says what becomes of the rank meanwhile. The API server says: dial tcp", err.Error())
	}
}
