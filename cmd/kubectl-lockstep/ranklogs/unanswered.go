// Unanswered: what to do where the kubelet that has a log does not answer the API server.

package ranklogs

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Unanswered explains an error of the API server that could not get a log from the kubelet of a node. The node is nil where it
// does not exist, or could not be read.
func Unanswered(s *Source, job string, node *corev1.Node, err error) error {
	return fmt.Errorf("the kubelet of node %s does not give the log of pod %s: %s. "+
		"The log is on that node: try again when the node answers, and `kubectl lockstep why %s %s` says what becomes of the rank meanwhile. The API server says: %w",
		s.Node, s.Pod, readyStory(node), job, s.Rank, err)
}

// readyStory tells whether a node is ready.
func readyStory(node *corev1.Node) string {
	if node == nil {
		return "the node could not be read"
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return "the node is Ready, so its port 10250 may be out of reach, or its kubelet has just stopped"
		}
		if c.Type == corev1.NodeReady {
			return fmt.Sprintf("Ready of the node is %s since %s UTC, reason %s", c.Status, c.LastTransitionTime.UTC().Format(time.DateTime), c.Reason)
		}
	}
	return "the node has never been Ready"
}
