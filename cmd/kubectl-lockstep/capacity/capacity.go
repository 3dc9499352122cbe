// Package capacity finds what keeps a gang from ever being placed while its cluster and its queue are as they are: a queue that
// does not exist, is closed or may not use enough; pods that no node is large enough for; HyperNodes that are too small. It also
// names the jobs that use what a queue may use, and says what each node is to a job. It reads nothing.
//
// What Of finds is certain: it takes each node for empty and healthy. A gang without a finding may have to wait all the same.
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
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/fit"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/topology"
)

// Cluster is what a gang is compared with, as far as it could be read.
type Cluster struct {
	// Queue of the job; nil where it was not read. NoQueue reports that there is none of its name.
	Queue   *scheduling.Queue
	NoQueue bool
	// Nodes of the cluster, or at least those that the nodeSelectors of the job select; empty where they were not read.
	Nodes []corev1.Node
	// Topology is the HyperNodes with their nodes; nil where it was not read.
	Topology *topology.Topology
	// Pods of the job, of every attempt. Usage is what all pods of the cluster take; nil where it was not read. Only Standings looks at them.
	Pods  []corev1.Pod
	Usage *Usage
}

// Fact is one sentence of an answer.
type Fact struct {
	Text string `json:"text"`
	// Source is what it was read from, such as status.incidents or Queue research.
	Source string `json:"source,omitempty"`
}

// Told makes a fact with its source.
func Told(source, format string, args ...any) []Fact {
	return []Fact{{Text: fmt.Sprintf(format, args...), Source: source}}
}

// Of finds what keeps the gang of a job, at its present size, from ever being placed. The job has its defaults.
func Of(job *v1alpha1.TrainingJob, c *Cluster) []Fact {
	job = gang.Effective(job, &job.Status)
	needs := needsOf(job, gang.Replicas(job)-gang.MinMember(job))
	out := queue(job, c)
	if len(c.Nodes) == 0 {
		return out
	}
	if tooLarge := pods(needs, c.Nodes); len(tooLarge) > 0 {
		return append(out, tooLarge...) // no HyperNode has room for these
	}
	return append(out, places(job, needs, c)...)
}

// queue finds what is wrong with the queue of a job.
func queue(job *v1alpha1.TrainingJob, c *Cluster) []Fact {
	if c.NoQueue {
		return Told("Queues", "Queue %s does not exist: `kubectl get queues` lists those that do.", job.Spec.Queue)
	}
	if c.Queue == nil {
		return nil
	}
	source := "Queue " + c.Queue.Name
	if Closed(c.Queue) {
		return Told(source, "Queue %s is %s: Volcano starts nothing from it until it is open again.", c.Queue.Name, c.Queue.Status.State)
	}
	var out []Fact
	for _, name := range sortedNames(c.Queue.Spec.Capability) {
		limit, least := c.Queue.Spec.Capability[name], leastOf(job, name)
		if least.Cmp(limit) > 0 {
			out = append(out, Told(source, "Queue %s is too small for the gang: it may not use more than %s of %s (spec.capability), and the gang needs %s at once.",
				c.Queue.Name, limit.String(), name, least.String())...)
		}
	}
	return out
}

// Closed reports whether a queue starts nothing.
func Closed(q *scheduling.Queue) bool {
	return q.Status.State == scheduling.QueueStateClosed || q.Status.State == scheduling.QueueStateClosing
}

// pods finds tasks with pods that no node is large enough for.
func pods(needs []need, nodes []corev1.Node) []Fact {
	var out []Fact
	for i := range needs {
		n := &needs[i]
		selected := n.selected(nodes)
		name, largest, short := n.shortOf(selected)
		asked := n.requests[name]
		switch {
		case len(selected) == 0:
			out = append(out, Told("Nodes", "No node is one that the nodeSelector (%s) and the node affinity of task %s select.",
				labels.SelectorFromSet(n.pod.Spec.NodeSelector), n.task.Name)...)
		case short:
			out = append(out, Told("Nodes", "No node is large enough for a pod of task %s: it asks for %s of %s, and no node has more than %s.",
				n.task.Name, asked.String(), name, largest.String())...)
		case n.room(selected) == 0:
			out = append(out, Told("Nodes", "No node has all that a pod of task %s asks for at once: %s.", n.task.Name, list(n.requests))...)
		}
	}
	return out
}

// places finds gangs, and partitions of them, that no place has room for.
func places(job *v1alpha1.TrainingJob, needs []need, c *Cluster) []Fact {
	out := fits("the gang", job.Spec.NetworkTopology, needs, c)
	if len(out) > 0 {
		return out
	}
	for i := range needs {
		task := needs[i].task
		if task.Partition == nil || !gang.IsHard(task.Partition.NetworkTopology) {
			continue
		}
		one := needs[i]
		one.pods = int64(task.Partition.Size)
		out = append(out, fits("a partition of task "+task.Name, task.Partition.NetworkTopology, []need{one}, c)...)
	}
	return out
}

// fits finds out whether some place that a topology allows could hold what is needed.
func fits(what string, t *v1alpha1.NetworkTopology, needs []need, c *Cluster) []Fact {
	var out []Fact
	confined := gang.IsHard(t) && t.HighestTierAllowed != nil && c.Topology != nil
	all, top, highest, lowest := c.Topology.All(), int32(0), "the cluster has no HyperNodes", "the cluster has none"
	if len(all) > 0 {
		top = all[len(all)-1].Tier
		highest, lowest = fmt.Sprintf("the highest HyperNode is of tier %d", top), fmt.Sprintf("the lowest is of tier %d", all[0].Tier)
	}
	// Volcano imagines a HyperNode above all others, with all nodes of the cluster: a topology that allows it confines to nothing. See
	// addClusterTopHyperNode in Volcano's pkg/scheduler/framework/session.go.
	if confined && *t.HighestTierAllowed > top {
		confined, out = false, Told("HyperNodes", "highestTierAllowed %d lets Volcano spread %s over all nodes: %s.", *t.HighestTierAllowed, what, highest)
	}
	if !confined {
		if lack, _ := lackOf(c.Nodes, needs); lack != "" {
			out = append(out, Told("Nodes", "The cluster is too small for %s, even if it were empty: %s.", what, lack)...)
		}
		return out
	}
	best, most, lack := "", int64(-1), ""
	for _, h := range all {
		if h.Tier > *t.HighestTierAllowed {
			break
		}
		switch lacks, n := lackOf(c.nodesOf(h), needs); {
		case lacks == "":
			return nil
		case n > most:
			best, most, lack = h.Name, n, lacks
		}
	}
	if most < 0 {
		return Told("HyperNodes", "No HyperNode is of tier %d at most, as networkTopology.highestTierAllowed of %s asks: %s.",
			*t.HighestTierAllowed, what, lowest)
	}
	return Told("HyperNodes", "No HyperNode of tier %d at most is large enough for %s, even if it were empty. The largest is %s: %s.",
		*t.HighestTierAllowed, what, best, lack)
}

// nodesOf are the nodes of a HyperNode.
func (c *Cluster) nodesOf(h topology.HyperNode) []corev1.Node {
	var out []corev1.Node
	for i := range c.Nodes {
		if h.Holds([]string{c.Nodes[i].Name}) {
			out = append(out, c.Nodes[i])
		}
	}
	return out
}

// lackOf is what nodes have too little of, and how many of the pods they have room for. It looks at each task and at each resource by
// itself. It is empty if they have room for all that is needed.
func lackOf(nodes []corev1.Node, needs []need) (lack string, holds int64) {
	for i := range needs {
		n := &needs[i]
		room := min(n.pods, n.room(nodes))
		if holds += room; room < n.pods && lack == "" {
			lack = fmt.Sprintf("it has room for %d of the %d pods of task %s that have to run together", room, n.pods, n.task.Name)
		}
	}
	asked := total(needs)
	for _, name := range sortedNames(asked) {
		var has resource.Quantity
		for i := range nodes {
			has.Add(nodes[i].Status.Allocatable[name])
		}
		if all := asked[name]; lack == "" && all.Cmp(has) > 0 {
			lack = fmt.Sprintf("it has %s of %s, and the pods that have to run together ask for %s", has.String(), name, all.String())
		}
	}
	return lack, holds
}

// need is how many pods of a task have to run together, and what each asks for.
type need struct {
	task     *v1alpha1.Task
	pods     int64
	pod      *corev1.Pod
	requests corev1.ResourceList
}

// needsOf are the fewest pods of each task that run while this many pods of the job are missing.
func needsOf(job *v1alpha1.TrainingJob, missing int32) []need {
	var out []need
	for i := range job.Spec.Tasks {
		t := &job.Spec.Tasks[i]
		if pods := int64(t.Replicas - missing); pods > 0 {
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
		each = append(each, slices.Repeat([]resource.Quantity{fit.Requests(fit.PodOf(&t.Template))[name]}, int(max(0, t.Replicas)))...)
	}
	slices.SortFunc(each, func(a, b resource.Quantity) int { return a.Cmp(b) })
	var sum resource.Quantity
	for _, q := range each[:min(int(gang.MinMember(job)), len(each))] {
		sum.Add(q)
	}
	return sum
}

// Requests are the resources that all pods of a job ask for.
func Requests(job *v1alpha1.TrainingJob) corev1.ResourceList {
	return total(needsOf(gang.Effective(job, &job.Status), 0))
}

// total is what the pods ask for together.
func total(needs []need) corev1.ResourceList {
	sum := corev1.ResourceList{}
	for i := range needs {
		for name, each := range needs[i].requests {
			each.Mul(needs[i].pods)
			each.Add(sum[name])
			sum[name] = each
		}
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
