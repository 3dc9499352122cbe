// Needs: what a gang asks for at least, task by task.

package capacity

import (
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/fit"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// need is how many pods of a task have to run together, and what each asks for.
type need struct {
	task     *v1alpha1.Task
	pods     int64
	pod      *corev1.Pod
	requests corev1.ResourceList
}

// needsOf are the fewest pods of each task with which the gang is complete.
func needsOf(job *v1alpha1.TrainingJob) []need {
	rest := int64(gang.Replicas(job) - gang.MinMember(job))
	var out []need
	for i := range job.Spec.Tasks {
		t := &job.Spec.Tasks[i]
		if pods := int64(t.Replicas) - rest; pods > 0 {
			pod := fit.PodOf(&t.Template)
			out = append(out, need{task: t, pods: pods, pod: pod, requests: fit.Requests(pod)})
		}
	}
	return out
}

// leastOf is the least of a resource that the gang asks for: that of its smallest pods, as many as it needs.
func leastOf(job *v1alpha1.TrainingJob, name corev1.ResourceName) resource.Quantity {
	var each []resource.Quantity
	for i := range job.Spec.Tasks {
		t := &job.Spec.Tasks[i]
		each = append(each, slices.Repeat([]resource.Quantity{fit.Requests(fit.PodOf(&t.Template))[name]}, int(t.Replicas))...)
	}
	slices.SortFunc(each, func(a, b resource.Quantity) int { return a.Cmp(b) })
	var sum resource.Quantity
	for _, q := range each[:min(int(gang.MinMember(job)), len(each))] {
		sum.Add(q)
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

// room is how many pods of the task the nodes hold while nothing else is on them, of those that it may go to.
func (n *need) room(nodes []corev1.Node) int64 {
	var sum int64
	for _, node := range n.selected(nodes) {
		room := int64(math.MaxInt32)
		for name, asked := range n.requests {
			if has := node.Status.Allocatable[name]; !asked.IsZero() {
				room = min(room, int64(has.AsApproximateFloat64()/asked.AsApproximateFloat64()+1e-9))
			}
		}
		sum += room
	}
	return sum
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
