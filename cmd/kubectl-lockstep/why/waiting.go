// Waiting: what a gang, or a pod of it, needs to get its nodes.

package why

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/fit"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// queue tells of the queue of a gang that waits: its state, and how much of what it may use is left.
func queue(s *Snapshot) []Fact {
	q := s.Queue
	if q == nil || !s.Waits() {
		return nil
	}
	source := "Queue " + q.Name
	if state := q.Status.State; state == scheduling.QueueStateClosed || state == scheduling.QueueStateClosing {
		return told(source, "Queue %s is %s: Volcano starts nothing from it until it is open again.", q.Name, state)
	}
	out := s.shortOf("may not use more than %s (spec.capability)", q.Spec.Capability)
	if len(out) == 0 {
		out = s.shortOf("deserves %s (spec.deserved)", q.Spec.Deserved)
	}
	if len(out) == 0 && s.PodGroup != nil && pending(s.PodGroup) {
		return told(source, "Queue %s is open, and its limits leave room for the gang. What the scheduler counts as its share, no object says: the scheduler's metrics volcano_queue_* do.", q.Name)
	}
	return out
}

// shortOf tells of which resources a job that has no node yet asks for more than a limit of its queue leaves.
func (s *Snapshot) shortOf(limited string, limits corev1.ResourceList) []Fact {
	if slices.ContainsFunc(s.Pods, func(p corev1.Pod) bool { return p.Spec.NodeName != "" }) {
		return nil // what the job has already is among what the queue has allocated
	}
	asks := requests(gang.Effective(s.Job, &s.Job.Status))
	var out []Fact
	for _, name := range sortedNames(limits) {
		asked, limit, allocated := asks[name], limits[name], s.Queue.Status.Allocated[name]
		total := asked.DeepCopy()
		total.Add(allocated)
		if !asked.IsZero() && total.Cmp(limit) > 0 {
			out = append(out, told("spec.tasks, Queue "+s.Queue.Name, "All pods of the job ask for %s of %s. Queue %s "+limited+", and %s are allocated.",
				asked.String(), name, s.Queue.Name, limit.String(), allocated.String())...)
		}
	}
	return out
}

// requests are the resources that all pods of a job ask for.
func requests(job *v1alpha1.TrainingJob) corev1.ResourceList {
	sum := corev1.ResourceList{}
	for i := range job.Spec.Tasks {
		t := &job.Spec.Tasks[i]
		pod := &corev1.Pod{Spec: *t.Template.Spec.DeepCopy()}
		fit.DefaultRequests(&pod.Spec)
		for name, q := range resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}) {
			q.Mul(int64(t.Replicas))
			total := sum[name]
			total.Add(q)
			sum[name] = total
		}
	}
	return sum
}

func sortedNames(list corev1.ResourceList) []corev1.ResourceName {
	return slices.Sorted(maps.Keys(list))
}

func pending(pg *scheduling.PodGroup) bool {
	return pg.Status.Phase == "" || pg.Status.Phase == scheduling.PodGroupPending
}

// podGroup tells of the gang in Volcano's words, while it waits.
func podGroup(s *Snapshot) []Fact {
	if !s.Waits() || s.Job.Status.Attempt == 0 || !s.couldRead("PodGroups") {
		return nil
	}
	pg := s.PodGroup
	if pg == nil {
		return told("PodGroups", "Volcano has made no PodGroup for attempt %d yet.", s.Job.Status.Attempt)
	}
	source := "PodGroup " + pg.Name
	phase := pg.Status.Phase
	if phase == "" {
		phase = scheduling.PodGroupPending
	}
	admitted := ", so the queue has admitted it"
	if pending(pg) {
		admitted = ": the queue has not admitted it, and Volcano makes no pods before"
	}
	out := told(source, "The gang of %s is %s%s.", counted(int(pg.Spec.MinMember), "pod"), phase, admitted)
	for _, c := range pg.Status.Conditions {
		if c.Type == scheduling.PodGroupUnschedulableType && c.Status == corev1.ConditionTrue {
			out = append(out, told(source, "Volcano calls the gang unschedulable since %s, reason %s: %s.",
				s.at(c.LastTransitionTime.Time), c.Reason, strings.TrimSuffix(c.Message, "."))...)
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

// maxReasons is how many reasons of the scheduler are told.
const maxReasons = 3

// podsWithoutNode tells what the scheduler says of the pods without a node, once for all of which it says the same.
func podsWithoutNode(s *Snapshot) []Fact {
	if !s.Waits() {
		return nil
	}
	var out []Fact
	if made, need := len(s.Pods), int(gang.MinMember(gang.Effective(s.Job, &s.Job.Status))); s.PodGroup != nil && !pending(s.PodGroup) && made < need && s.couldRead("pods") {
		out = told("Pods", "Volcano has made %d of the %d pods of the gang.", made, need)
	}
	said := map[string][]string{}
	var order []string
	unplaced := s.unplaced()
	for i := range unplaced {
		why := unplacedStory(&unplaced[i])
		if _, known := said[why]; !known {
			order = append(order, why)
		}
		said[why] = append(said[why], unplaced[i].Name)
	}
	for i, why := range order {
		if i == maxReasons {
			out = append(out, told("Pods", "Other pods have no node for other reasons: kubectl describe pod tells each.")...)
			break
		}
		have := "have"
		if len(said[why]) == 1 {
			have = "has"
		}
		out = append(out, told("Pods", "%s %s no node: %s.", listed(said[why]), have, why)...)
	}
	return out
}

// unplacedStory tells what a pod without a node waits for.
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
