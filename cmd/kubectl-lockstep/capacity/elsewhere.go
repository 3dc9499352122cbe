// Elsewhere: where ranks that leave their nodes may go.

package capacity

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/fit"
	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/policies/placement"
)

// Elsewhere are the nodes of a job's home, apart from those that are left, that are good for a pod of one of the named tasks and have room
// for another one.
func Elsewhere(job *v1alpha1.TrainingJob, tasks, left []string, c *Cluster, u *Usage) []string {
	var home []string
	if p := job.Status.Placement; p != nil && c.Topology != nil {
		h, _ := c.Topology.Find(p.HyperNode)
		home = h.Nodes
	}
	var out []string
	for i := range c.Nodes {
		n := &c.Nodes[i]
		if slices.Contains(left, n.Name) || (len(home) > 0 && !slices.Contains(home, n.Name)) || placement.Excluded(&job.Status, n.Name) {
			continue
		}
		takes := func(t v1alpha1.Task) bool {
			pod := fit.PodOf(&t.Template)
			return slices.Contains(tasks, t.Name) && isGoodFor(job, pod, n) && u.hasRoomFor(pod, n)
		}
		if slices.ContainsFunc(job.Spec.Tasks, takes) {
			out = append(out, n.Name)
		}
	}
	return out
}

// isGoodFor reports whether a node is ready and schedulable, and takes a pod of a job. The job's own hold keeps none away.
func isGoodFor(job *v1alpha1.TrainingJob, pod *corev1.Pod, n *corev1.Node) bool {
	ready := slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
	if !ready || n.Spec.Unschedulable {
		return false
	}
	own := func(t corev1.Taint) bool { return t.Key == policies.HoldKey(job) }
	_, kept := fit.Untolerated(pod, n, own)
	return !kept && fit.Selected(pod, n) == nil
}
