// Waiting: what a gang, or a pod of it, needs to get its nodes, and what its queue has left for it.

package why

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/capacity"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

func pending(pg *scheduling.PodGroup) bool {
	return pg.Status.Phase == "" || pg.Status.Phase == scheduling.PodGroupPending
}

// waiting says what keeps a waiting job from its nodes.
func waiting(s *Snapshot) []Fact {
	if !s.Waits() {
		return nil
	}
	return slices.Concat(capacity.Of(s.Job, &s.Cluster), queue(s), podGroup(s), podsWithoutNode(s), kept(s), confined(s))
}

// queue says how much the queue has left for a waiting gang, and who uses the rest.
func queue(s *Snapshot) []Fact {
	q := s.Queue
	if q == nil || capacity.Closed(q) {
		return nil
	}
	asks := capacity.Requests(s.Job)
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

// shortOf names the resources of which a limit of the queue leaves less than a job without nodes asks for.
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

// users says which jobs use a resource of the queue, or have it reserved.
func (s *Snapshot) users(name corev1.ResourceName) []Fact {
	if s.Usage == nil {
		return nil
	}
	users := s.Usage.Users(s.Queue.Name, name, s.Job)
	if len(users) == 0 {
		return nil
	}
	return told("PodGroups, Pods", "Others that use %s of queue %s: %s.", name, s.Queue.Name, s.listed(users))
}

// podGroup says how far Volcano is with a waiting gang.
func podGroup(s *Snapshot) []Fact {
	if s.Job.Status.Attempt == 0 || !s.couldRead("PodGroups") {
		return nil
	}
	pg := s.PodGroup
	if pg == nil {
		return told("PodGroups", "Volcano has not begun with attempt %d yet: there is no PodGroup for it.", s.Job.Status.Attempt)
	}
	stage := "The gang of %s has been placed before: the scheduler looks for nodes for the pods that have none."
	switch {
	case pending(pg):
		stage = "The queue has not admitted the gang of %s yet: its pods are only created after that."
	case pg.Status.Phase == scheduling.PodGroupInqueue:
		stage = "The queue has admitted the gang of %s: the scheduler looks for nodes for all of them at once."
	}
	source := fmt.Sprintf("PodGroup %s, phase %s", pg.Name, cmp.Or(pg.Status.Phase, scheduling.PodGroupPending))
	out := told(source, stage, lines.Count(pg.Spec.MinMember, "pod"))
	for _, c := range pg.Status.Conditions {
		if c.Type == scheduling.PodGroupUnschedulableType && c.Status == corev1.ConditionTrue {
			out = append(out, told(source, "The scheduler has found no place for the whole gang since %s: %q.", s.at(c.LastTransitionTime.Time), c.Message)...)
		}
	}
	return out
}

// unplaced are the pods of the present attempt that have no node.
func (s *Snapshot) unplaced() []corev1.Pod {
	attempt := fmt.Sprint(s.Job.Status.Attempt)
	return slices.DeleteFunc(slices.Clone(s.Pods), func(p corev1.Pod) bool {
		spare := p.Labels[v1alpha1.LabelSpare] == "true" && gated(&p)
		return spare || p.Spec.NodeName != "" || p.Labels[v1alpha1.LabelAttempt] != attempt || !p.DeletionTimestamp.IsZero()
	})
}

// podsWithoutNode repeats what the scheduler says of the pods without a node. Pods with the same reason share a sentence.
func podsWithoutNode(s *Snapshot) []Fact {
	var out []Fact
	attempt := fmt.Sprint(s.Job.Status.Attempt)
	made := len(slices.DeleteFunc(slices.Clone(s.Pods), func(p corev1.Pod) bool {
		return p.Labels[v1alpha1.LabelAttempt] != attempt || p.Labels[v1alpha1.LabelSpare] == "true"
	}))
	if need := int(gang.MinMember(gang.Effective(s.Job, &s.Job.Status))); s.PodGroup != nil && !pending(s.PodGroup) && made < need && s.couldRead("pods") {
		out = told("Pods", "Volcano has made %d of the %d pods of the gang.", made, need)
	}
	said := map[string][]string{}
	for _, p := range s.unplaced() {
		why := unplacedStory(&p)
		said[why] = append(said[why], p.Name)
	}
	reasons := first(s, slices.Sorted(maps.Keys(said)), func(why string) []Fact {
		return told("Pods", "%s %s no node: %s.", s.listed(said[why]), lines.Plural(len(said[why]), "has", "have"), why)
	}, "Pods", "Reasons why pods have no node beside these: %d. `kubectl describe pod` has that of each.")
	return slices.Concat(out, reasons, sparesOfOthers(s))
}

// unplacedStory says what a pod without a node waits for.
func unplacedStory(p *corev1.Pod) string {
	if gated(p) {
		return "the manager has yet to open the gate " + v1alpha1.PlacementGate
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return fmt.Sprintf("the scheduler says %q", c.Message)
		}
	}
	return "the scheduler has not looked at it yet"
}

func gated(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool { return g.Name == v1alpha1.PlacementGate })
}

// sparesOfOthers names the spares that hold a node and serve none of the tasks that wait for one.
func sparesOfOthers(s *Snapshot) []Fact {
	waits := map[string]bool{}
	for _, p := range s.unplaced() {
		waits[p.Labels[v1alpha1.LabelTask]] = true
	}
	var out []Fact
	for _, p := range s.Pods {
		task := p.Labels[v1alpha1.LabelTask]
		if p.Labels[v1alpha1.LabelSpare] == "true" && capacity.UsesNode(&p) && len(waits) > 0 && !waits[task] {
			out = append(out, told("Pod "+p.Name, "The spare on node %s is for task %s only.", p.Spec.NodeName, task)...)
		}
	}
	return out
}

// spares says which spares hold no node, and why.
func spares(s *Snapshot) []Fact {
	if !s.active() || s.Job.Status.Placement == nil {
		return nil
	}
	var out []Fact
	for _, g := range groups(s.Job) {
		status := gang.TaskStatus(&s.Job.Status, g.name)
		if !g.spare || status == nil || status.Ready >= g.size {
			continue
		}
		out = append(out, told("status.tasks", "Of the %s of task %s, %d %s a node. While one is missing, a rank that loses its node may have to wait for another.",
			lines.Count(g.size, "spare"), g.task.Name, status.Ready, lines.Plural(status.Ready, "holds", "hold"))...)
		for index := range g.size {
			out = append(out, s.tellMissingSpare(gang.SpareRank(g.task.Name, index))...)
		}
	}
	return out
}

// tellMissingSpare says what a spare without a node waits for.
func (s *Snapshot) tellMissingSpare(r gang.Rank) []Fact {
	p := s.podOf(r)
	switch {
	case !s.couldRead("pods"):
		return nil
	case p == nil:
		return told("Pods", "There is no pod of %s yet.", Name(r))
	case p.Spec.NodeName != "":
		return nil
	case gated(p):
		return told("Pod "+p.Name, "%s waits behind its gate: a spare gets a node while no incident is open, every rank has one, and home has a free one.", Name(r))
	}
	return told("Pod "+p.Name, "%s has no node: %s.", Name(r), unplacedStory(p))
}
