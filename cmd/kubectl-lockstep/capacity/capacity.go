// Package capacity finds what keeps a gang from ever being placed while its cluster and its queue are as they are: a queue that
// does not exist, is closed or may not use enough; pods that no node is large enough for; HyperNodes that are too small. It also
// tells whose pods use what a queue may use. It reads nothing.
//
// What is found is certain: each node is taken for empty and well, so that a gang without a finding may have to wait all the same.
package capacity

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
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
}

// Finding is one reason why the gang cannot be placed, in a sentence.
type Finding struct {
	Text string
	// Source is what it was read from.
	Source string
}

func found(source, format string, args ...any) []Finding {
	return []Finding{{Text: fmt.Sprintf(format, args...), Source: source}}
}

// Of finds what keeps the gang of a job, at its present size, from ever being placed. The job has its defaults.
func Of(job *v1alpha1.TrainingJob, c *Cluster) []Finding {
	job = gang.Effective(job, &job.Status)
	out := queue(job, c)
	if len(c.Nodes) == 0 {
		return out
	}
	needs := needsOf(job)
	if tooLarge := pods(needs, c.Nodes); len(tooLarge) > 0 {
		return append(out, tooLarge...) // no HyperNode has room for these
	}
	return append(out, places(job, needs, c)...)
}

// queue finds what is wrong with the queue of a job.
func queue(job *v1alpha1.TrainingJob, c *Cluster) []Finding {
	if c.NoQueue {
		return found("Queues", "Queue %s does not exist: `kubectl get queues` lists those that do.", job.Spec.Queue)
	}
	if c.Queue == nil {
		return nil
	}
	source := "Queue " + c.Queue.Name
	if Closed(c.Queue) {
		return found(source, "Queue %s is %s: Volcano starts nothing from it until it is open again.", c.Queue.Name, c.Queue.Status.State)
	}
	var out []Finding
	for _, name := range sortedNames(c.Queue.Spec.Capability) {
		limit, least := c.Queue.Spec.Capability[name], leastOf(job, name)
		if least.Cmp(limit) > 0 {
			out = append(out, found(source, "Queue %s is too small for the gang: it may not use more than %s of %s (spec.capability), and the gang needs %s at once.",
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
func pods(needs []need, nodes []corev1.Node) []Finding {
	var out []Finding
	for i := range needs {
		n := &needs[i]
		selected := n.selected(nodes)
		name, largest, short := n.shortOf(selected)
		asked := n.requests[name]
		switch {
		case len(selected) == 0:
			out = append(out, found("Nodes", "No node is one that the nodeSelector (%s) and the node affinity of task %s select.",
				labels.SelectorFromSet(n.pod.Spec.NodeSelector), n.task.Name)...)
		case short && largest.IsZero():
			out = append(out, found("Nodes", "No node is large enough for a pod of task %s: it asks for %s of %s, and no node has any.", n.task.Name, asked.String(), name)...)
		case short:
			out = append(out, found("Nodes", "No node is large enough for a pod of task %s: it asks for %s of %s, and no node has more than %s.",
				n.task.Name, asked.String(), name, largest.String())...)
		case n.room(selected) == 0:
			out = append(out, found("Nodes", "No node has all that a pod of task %s asks for at once: %s.", n.task.Name, list(n.requests))...)
		}
	}
	return out
}
