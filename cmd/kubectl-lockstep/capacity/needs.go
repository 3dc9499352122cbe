// Needs: what a gang asks for at least, task by task.

package capacity

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/fit"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// need is how many pods of a task have to run together, and what each asks for.
type need struct {
	task     string
	pods     int64
	pod      *corev1.Pod
	requests corev1.ResourceList
}

// needsOf are the fewest pods of each task with which the gang is complete.
func needsOf(job *v1alpha1.TrainingJob) []need {
	all, least := int64(gang.Replicas(job)), int64(gang.MinMember(job))
	var out []need
	for i := range job.Spec.Tasks {
		t := &job.Spec.Tasks[i]
		if pods := int64(t.Replicas) - (all - least); pods > 0 {
			pod := fit.PodOf(&t.Template)
			out = append(out, need{task: t.Name, pods: pods, pod: pod, requests: fit.Requests(pod)})
		}
	}
	return out
}

// leastOf is the least of a resource that the gang asks for: that of its smallest pods, as many as it needs.
func leastOf(job *v1alpha1.TrainingJob, name corev1.ResourceName) resource.Quantity {
	type asked struct {
		each resource.Quantity
		pods int64
	}
	var tasks []asked
	for i := range job.Spec.Tasks {
		t := &job.Spec.Tasks[i]
		tasks = append(tasks, asked{fit.Requests(fit.PodOf(&t.Template))[name], int64(t.Replicas)})
	}
	slices.SortFunc(tasks, func(a, b asked) int { return a.each.Cmp(b.each) })
	var sum resource.Quantity
	left := int64(gang.MinMember(job))
	for _, t := range tasks {
		n := min(left, t.pods)
		t.each.Mul(n)
		sum.Add(t.each)
		left -= n
	}
	return sum
}

// selected are the nodes that a pod of the task may go to by its nodeSelector and node affinity.
func (n *need) selected(nodes []corev1.Node) []corev1.Node {
	var out []corev1.Node
	for i := range nodes {
		if fit.Selected(n.pod, &nodes[i]) == nil {
			out = append(out, nodes[i])
		}
	}
	return out
}

// unselectedStory tells what no node is, where the pods of the task may go to none.
func (n *need) unselectedStory(nodes []corev1.Node) string {
	selector := labels.SelectorFromSet(n.pod.Spec.NodeSelector)
	if !slices.ContainsFunc(nodes, func(node corev1.Node) bool { return selector.Matches(labels.Set(node.Labels)) }) {
		return fmt.Sprintf("has the labels %s, as the nodeSelector of task %s asks", selector, n.task)
	}
	return fmt.Sprintf("is one that the nodeSelector and the node affinity of task %s select", n.task)
}

// shortOf returns a resource that a pod asks for more of than any of the nodes has, and the most that one has.
func (n *need) shortOf(nodes []corev1.Node) (corev1.ResourceName, resource.Quantity, bool) {
	for _, name := range sortedNames(n.requests) {
		var largest resource.Quantity
		for i := range nodes {
			if has := nodes[i].Status.Allocatable[name]; has.Cmp(largest) > 0 {
				largest = has
			}
		}
		if asked := n.requests[name]; asked.Cmp(largest) > 0 {
			return name, largest, true
		}
	}
	return "", resource.Quantity{}, false
}

// room is how many pods of the task the nodes hold while nothing else is on them.
func (n *need) room(nodes []corev1.Node) int64 {
	var sum int64
	for i := range nodes {
		sum += n.roomOn(&nodes[i])
	}
	return sum
}

func (n *need) roomOn(node *corev1.Node) int64 {
	room := int64(math.MaxInt32)
	for name, asked := range n.requests {
		if has := node.Status.Allocatable[name]; !asked.IsZero() {
			room = min(room, int64(has.AsApproximateFloat64()/asked.AsApproximateFloat64()+1e-9))
		}
	}
	return room
}

func sortedNames(list corev1.ResourceList) []corev1.ResourceName {
	return slices.Sorted(maps.Keys(list))
}

// list names resources with their quantities.
func list(resources corev1.ResourceList) string {
	var out []string
	for _, name := range sortedNames(resources) {
		quantity := resources[name]
		out = append(out, quantity.String()+" of "+string(name))
	}
	return strings.Join(out, ", ")
}
