// Usage: what pods take of each node, what each job takes of a queue, and what each node is to a job that needs nodes.

package capacity

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/fit"
	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/nodes"
	"github.com/lockstep-dev/lockstep/policies/placement"
)

// Usage is what the pods of a cluster take, as far as they are on nodes and have not ended.
type Usage struct {
	byNode map[string]corev1.ResourceList
	// byJob and groups are by PodGroup.
	byJob  map[types.NamespacedName]corev1.ResourceList
	groups map[types.NamespacedName]*scheduling.PodGroup
}

// NewUsage is the usage of no pods yet. The PodGroups say which queue those are of that are added.
func NewUsage(groups []scheduling.PodGroup) *Usage {
	u := &Usage{map[string]corev1.ResourceList{}, map[types.NamespacedName]corev1.ResourceList{}, map[types.NamespacedName]*scheduling.PodGroup{}}
	for i := range groups {
		u.groups[types.NamespacedName{Namespace: groups[i].Namespace, Name: groups[i].Name}] = &groups[i]
	}
	return u
}

// UsesNode reports whether a pod has a node and has not ended there.
func UsesNode(pod *corev1.Pod) bool {
	return pod.Spec.NodeName != "" && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// Add adds a pod. One that uses no node takes nothing.
func (u *Usage) Add(pod *corev1.Pod) {
	if !UsesNode(pod) {
		return
	}
	requests := fit.Requests(pod)
	addTo(u.byNode, pod.Spec.NodeName, requests)
	addTo(u.byJob, types.NamespacedName{Namespace: pod.Namespace, Name: pod.Annotations[scheduling.KubeGroupNameAnnotationKey]}, requests)
}

func addTo[K comparable](to map[K]corev1.ResourceList, key K, more corev1.ResourceList) {
	if to[key] == nil {
		to[key] = corev1.ResourceList{}
	}
	for name, quantity := range more {
		quantity.Add(to[key][name])
		to[key][name] = quantity
	}
}

// hasRoomFor reports whether the pods of a node leave room for another one.
func (u *Usage) hasRoomFor(pod *corev1.Pod, node *corev1.Node) bool {
	for name, asked := range fit.Requests(pod) {
		total := asked.DeepCopy()
		total.Add(u.byNode[node.Name][name])
		if has := node.Status.Allocatable[name]; !asked.IsZero() && total.Cmp(has) > 0 {
			return false
		}
	}
	return true
}

// Users names the jobs that take a resource of a queue, each with how much, those that take the most first. The job that asks is left out.
// A quantity is reserved if the queue has admitted the gang, and its pods have no nodes yet.
func (u *Usage) Users(queue string, name corev1.ResourceName, without *v1alpha1.TrainingJob) []string {
	type user struct {
		text  string
		takes resource.Quantity
	}
	var users []user
	for key, group := range u.groups {
		if group.Spec.Queue != queue || group.Labels[v1alpha1.LabelUID] == string(without.UID) {
			continue
		}
		takes, state := u.byJob[key][name], ""
		if group.Status.Phase == scheduling.PodGroupInqueue && group.Spec.MinResources != nil {
			if reserved := (*group.Spec.MinResources)[name]; reserved.Cmp(takes) > 0 {
				takes, state = reserved, ", reserved: its pods have no nodes yet"
			}
		}
		if !takes.IsZero() {
			who := "PodGroup " + group.Namespace + "/" + group.Name
			if job := group.Labels[v1alpha1.LabelJob]; job != "" { // Volcano gives a PodGroup the labels of its Job
				who = "TrainingJob " + group.Namespace + "/" + job
			}
			users = append(users, user{fmt.Sprintf("%s (%s%s)", who, takes.String(), state), takes})
		}
	}
	slices.SortFunc(users, func(a, b user) int { return cmp.Or(b.takes.Cmp(a.takes), strings.Compare(a.text, b.text)) })
	var out []string
	for _, u := range users {
		out = append(out, u.text)
	}
	return out
}

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
	note(nodes.IsCordoned(n), "cordoned")
	note(slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool {
		return gang.IsHold(t) && t.Key != policies.HoldKey(job)
	}), HeldByOthers)
	return out
}

// Standings are what the nodes are to a job, by the name of the node. If tasks are named, only their pods count. A node that the
// nodeSelectors and node affinities of these pods exclude has none.
func (c *Cluster) Standings(job *v1alpha1.TrainingJob, tasks ...string) map[string]string {
	out := map[string]string{}
	for i := range job.Spec.Tasks {
		t := &job.Spec.Tasks[i]
		if len(tasks) > 0 && !slices.Contains(tasks, t.Name) {
			continue
		}
		pod := fit.PodOf(&t.Template)
		for j := range c.Nodes {
			n := &c.Nodes[j]
			before := out[n.Name]
			if before == Free || fit.Selected(pod, n) != nil {
				continue
			}
			if is := c.standing(job, pod, n); before == "" || is == Free || (ofPod(before) && !ofPod(is)) {
				out[n.Name] = is
			}
		}
	}
	return out
}

// What a node is to the pods of one task, and not to those of another: the first such answer counts where no task has a better one.
const (
	taintedWith = "tainted with "
	tooSmall    = "too small for its pods"
)

func ofPod(standing string) bool {
	return strings.HasPrefix(standing, taintedWith) || standing == tooSmall
}

// enters reports whether an obstacle keeps no pod of a job away that tolerates its taint.
func enters(job *v1alpha1.TrainingJob, obstacle string) bool {
	return (obstacle == InQuarantine && placement.EntersQuarantine(job)) || (obstacle == HeldByOthers && placement.EntersHolds(job))
}

// standing is what a node is to a pod of a job.
func (c *Cluster) standing(job *v1alpha1.TrainingJob, pod *corev1.Pod, n *corev1.Node) string {
	obstacles := slices.DeleteFunc(Obstacles(job, n), func(what string) bool { return enters(job, what) })
	if len(obstacles) > 0 {
		return obstacles[0]
	}
	if p := job.Status.Placement; p != nil {
		if home, known := c.Topology.Find(p.HyperNode); known && len(home.Nodes) > 0 && !home.Holds([]string{n.Name}) {
			return "outside of home"
		}
	}
	for _, l := range job.Status.LeftHyperNodes {
		if left, _ := c.Topology.Find(l.Name); left.Holds([]string{n.Name}) {
			return "in a HyperNode that the job has left"
		}
	}
	taint, kept := fit.Untolerated(pod, n, func(t corev1.Taint) bool { return t.Key == policies.HoldKey(job) })
	switch {
	case placement.Excluded(&job.Status, n.Name):
		return "avoided by the job after a failure"
	case kept:
		return taintedWith + taint.ToString()
	case !NewUsage(nil).hasRoomFor(pod, n):
		return tooSmall
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
