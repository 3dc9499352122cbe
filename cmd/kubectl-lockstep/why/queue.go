// The queue: what it has left for a gang that waits, and who uses the rest.

package why

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/capacity"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
	"github.com/lockstep-dev/lockstep/fit"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// impossible tells what keeps a gang from ever being placed, while the cluster is as it is.
func impossible(s *Snapshot) []Fact {
	var out []Fact
	for _, f := range capacity.Of(s.Job, &capacity.Cluster{Queue: s.Queue, NoQueue: s.NoQueue, Nodes: s.Nodes, Topology: s.Topology}) {
		out = append(out, Fact(f))
	}
	return out
}

// queue tells how much is left of what the queue of a gang that waits may use, and who uses the rest.
func queue(s *Snapshot) []Fact {
	q := s.Queue
	if q == nil || capacity.Closed(q) {
		return nil
	}
	asks := s.requests()
	out := s.shortOf(asks, "may not use more than %s (spec.capability)", q.Spec.Capability)
	if len(out) == 0 {
		out = s.shortOf(asks, "deserves %s (spec.deserved)", q.Spec.Deserved)
	}
	if len(out) > 0 || s.PodGroup == nil || !pending(s.PodGroup) {
		return out
	}
	out = told("Queue "+q.Name, "Queue %s is open, and its limits leave room for the gang. What share of the cluster the scheduler allows it is only in the scheduler's metrics volcano_queue_*.", q.Name)
	for _, name := range slices.Sorted(maps.Keys(asks)) {
		if strings.Contains(string(name), "/") { // GPUs and other devices
			out = append(out, s.users(name)...)
		}
	}
	return out
}

// shortOf tells of which resources a job that has no node yet asks for more than a limit of its queue leaves.
func (s *Snapshot) shortOf(asks corev1.ResourceList, limited string, limits corev1.ResourceList) []Fact {
	if slices.ContainsFunc(s.Pods, func(p corev1.Pod) bool { return p.Spec.NodeName != "" }) {
		return nil // what the job has already is among what the queue has allocated
	}
	var out []Fact
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		asked, limit, allocated := asks[name], limits[name], s.Queue.Status.Allocated[name]
		total := asked.DeepCopy()
		total.Add(allocated)
		if !asked.IsZero() && total.Cmp(limit) > 0 {
			out = append(out, told("spec.tasks, Queue "+s.Queue.Name, "All pods of the job ask for %s of %s. Queue %s "+limited+", and %s are allocated.",
				asked.String(), name, s.Queue.Name, limit.String(), allocated.String())...)
			out = append(out, s.users(name)...)
		}
	}
	return out
}

// users tells which jobs use a resource of the queue, or have it reserved.
func (s *Snapshot) users(name corev1.ResourceName) []Fact {
	if s.Usage == nil {
		return nil
	}
	var parts []string
	var more resource.Quantity
	all := s.Usage.Users(s.Queue.Name, name, s.Job)
	for i, u := range all {
		switch {
		case i >= maxNames:
			more.Add(u.Quantity)
		case u.Reserved:
			parts = append(parts, fmt.Sprintf("%s (%s, reserved: its pods have no nodes yet)", u.Name, u.Quantity.String()))
		default:
			parts = append(parts, fmt.Sprintf("%s (%s)", u.Name, u.Quantity.String()))
		}
	}
	if n := len(all) - maxNames; n > 0 {
		parts = append(parts, fmt.Sprintf("%s (%s)", lines.Count(n, "other"), more.String()))
	}
	if len(parts) == 0 {
		return nil
	}
	return told("PodGroups, Pods", "Others that use %s of queue %s: %s.", name, s.Queue.Name, strings.Join(parts, ", "))
}

// requests are the resources that all pods of a job ask for.
func (s *Snapshot) requests() corev1.ResourceList {
	job, sum := gang.Effective(s.Job, &s.Job.Status), corev1.ResourceList{}
	for i := range job.Spec.Tasks {
		t := &job.Spec.Tasks[i]
		for name, q := range resourcehelper.PodRequests(fit.PodOf(&t.Template), resourcehelper.PodResourcesOptions{}) {
			q.Mul(int64(t.Replicas))
			q.Add(sum[name])
			sum[name] = q
		}
	}
	return sum
}
