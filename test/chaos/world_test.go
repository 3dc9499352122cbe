// What there is of a lane's job in the cluster.

package chaos

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// pods are the job's pods, by name.
func (l *lane) pods() map[string]corev1.Pod {
	l.t.Helper()
	list := &corev1.PodList{}
	l.must(testCluster.Client().List(l.ctx, list, client.InNamespace(l.pool.Name), client.HasLabels{v1alpha1.LabelJob}), "list the pods")
	out := map[string]corev1.Pod{}
	for _, p := range list.Items {
		out[p.Name] = p
	}
	return out
}

// ranks are the pods of the present attempt, by rank.
func (l *lane) ranks() []corev1.Pod {
	l.t.Helper()
	pods := l.pods()
	var out []corev1.Pod
	for i := range l.job.Spec.Tasks[0].Replicas {
		out = append(out, pods[fmt.Sprintf("%s-%d-worker-%d", l.job.Name, l.job.Status.Attempt, i)])
	}
	return out
}

func keyOf(pod corev1.Pod) client.ObjectKey { return client.ObjectKeyFromObject(&pod) }

// nodes are the nodes of the pool, by name.
func (l *lane) nodes() map[string]corev1.Node {
	l.t.Helper()
	list := &corev1.NodeList{}
	l.must(testCluster.Client().List(l.ctx, list, client.MatchingLabels(l.pool.NodeSelector())), "list the nodes")
	out := map[string]corev1.Node{}
	for _, n := range list.Items {
		out[n.Name] = n
	}
	return out
}

// held are the nodes of the pool that carry a hold.
func (l *lane) held() []string {
	l.t.Helper()
	var out []string
	for name, n := range l.nodes() {
		if slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return strings.HasPrefix(t.Key, v1alpha1.HoldTaintPrefix) }) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// loseNode deletes a node, as a cloud does with a machine that is gone.
func (l *lane) loseNode(name string) corev1.Node {
	l.t.Helper()
	node := l.nodes()[name]
	l.must(testCluster.DeleteNode(l.ctx, name), "delete node "+name)
	return node
}

// bringNode makes a healthy node after the model of another.
func (l *lane) bringNode(model corev1.Node, name string) {
	l.t.Helper()
	node := &corev1.Node{Status: model.Status}
	node.Name, node.Labels, node.Annotations = name, model.Labels, model.Annotations
	node.Labels[corev1.LabelHostname] = name
	l.must(testCluster.Client().Create(l.ctx, node), "create node "+name)
	l.must(testCluster.AwaitNodes(l.ctx, corev1.ConditionTrue, name), "wait for node "+name)
}

func versions[T any, P interface {
	*T
	client.Object
}](items []T) []string {
	var out []string
	for i := range items {
		out = append(out, P(&items[i]).GetName()+"@"+P(&items[i]).GetResourceVersion())
	}
	slices.Sort(out)
	return out
}
