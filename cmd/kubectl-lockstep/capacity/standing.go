// Standing: what each node is to a job that needs nodes.

package capacity

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/fit"
	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/placement"
)

// What a node is to a job, as it reads behind "is".
const (
	InQuarantine = "in quarantine"
	HeldByOthers = "held by other TrainingJobs"
	Free         = "free for its pods"
	UnknownUse   = "perhaps in use, as the pods of all namespaces could not be read"
)

// Obstacles are what keeps pods of a job from a node by what the node itself says, the worst first.
func Obstacles(job *v1alpha1.TrainingJob, n *corev1.Node) []string {
	var out []string
	note := func(is bool, what string) {
		if is {
			out = append(out, what)
		}
	}
	tainted := func(key string) bool {
		return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
	}
	note(!slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	}), "not ready")
	note(tainted(corev1.TaintNodeOutOfService), "out of service")
	note(tainted(v1alpha1.TaintQuarantine), InQuarantine)
	note(n.Spec.Unschedulable, "cordoned")
	note(slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return gang.IsHold(t) && t.Key != policies.HoldKey(job) }), HeldByOthers)
	return out
}

// Standings are what the nodes are to pods of a job, by name: of those of some tasks, or of all tasks where none is named. A node that
// none of these pods may select has none.
func (c *Cluster) Standings(job *v1alpha1.TrainingJob, tasks ...string) map[string]string {
	out := map[string]string{}
	for i := range job.Spec.Tasks {
		t := &job.Spec.Tasks[i]
		if len(tasks) > 0 && !slices.Contains(tasks, t.Name) {
			continue
		}
		pod := fit.PodOf(&t.Template)
		for j := range c.Nodes {
			if n := &c.Nodes[j]; out[n.Name] != Free && fit.Selected(pod, n) == nil {
				out[n.Name] = c.standing(job, pod, n)
			}
		}
	}
	return out
}

// standing is what a node is to a pod of a job.
func (c *Cluster) standing(job *v1alpha1.TrainingJob, pod *corev1.Pod, n *corev1.Node) string {
	if obstacles := Obstacles(job, n); len(obstacles) > 0 {
		return obstacles[0]
	}
	if p := job.Status.Placement; p != nil {
		if home, known := c.Topology.Find(p.HyperNode); known && !home.Holds([]string{n.Name}) {
			return "outside of home"
		}
	}
	taint, kept := fit.Untolerated(pod, n, gang.IsHold) // a hold of its own: Obstacles has the others
	switch {
	case placement.Excluded(&job.Status, n.Name):
		return "avoided by the job after a failure"
	case kept:
		return "tainted with " + taint.ToString()
	case !NewUsage(nil).hasRoomFor(pod, n):
		return "too small for its pods"
	case slices.ContainsFunc(c.Pods, func(p corev1.Pod) bool { return p.Spec.NodeName == n.Name && UsesNode(&p) }):
		return "in use by the job itself"
	case c.Usage == nil:
		return UnknownUse
	case !c.Usage.hasRoomFor(pod, n):
		return "in use by others"
	}
	return Free
}

// Elsewhere are the nodes that are free for a pod of one of the named tasks, apart from those that are left.
func Elsewhere(job *v1alpha1.TrainingJob, tasks, left []string, c *Cluster, u *Usage) []string {
	with := *c
	with.Usage = u
	var out []string
	for node, is := range with.Standings(job, tasks...) {
		if is == Free && !slices.Contains(left, node) {
			out = append(out, node)
		}
	}
	slices.Sort(out)
	return out
}
