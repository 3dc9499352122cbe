// Waiting: what a gang, or a pod of it, needs to get its nodes.

package why

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

func pending(pg *scheduling.PodGroup) bool {
	return pg.Status.Phase == "" || pg.Status.Phase == scheduling.PodGroupPending
}

// podGroup tells how far Volcano is with the gang, while it waits.
func podGroup(s *Snapshot) []Fact {
	if !s.Waits() || s.Job.Status.Attempt == 0 || !s.couldRead("PodGroups") {
		return nil
	}
	pg := s.PodGroup
	if pg == nil {
		return told("PodGroups", "Volcano has not begun with attempt %d yet: there is no PodGroup for it.", s.Job.Status.Attempt)
	}
	source := fmt.Sprintf("PodGroup %s, phase %s", pg.Name, cmp.Or(pg.Status.Phase, scheduling.PodGroupPending))
	out := told(source, gangStory(pg), counted(int(pg.Spec.MinMember), "pod"))
	for _, c := range pg.Status.Conditions {
		if c.Type == scheduling.PodGroupUnschedulableType && c.Status == corev1.ConditionTrue {
			out = append(out, told(source, "The scheduler has found no place for the whole gang since %s: %q.", s.at(c.LastTransitionTime.Time), c.Message)...)
		}
	}
	return out
}

// gangStory says what the phase of a PodGroup means for its gang.
func gangStory(pg *scheduling.PodGroup) string {
	switch {
	case pending(pg):
		return "The queue has not admitted the gang of %s yet: its pods are only created after that."
	case pg.Status.Phase == scheduling.PodGroupInqueue:
		return "The queue has admitted the gang of %s: the scheduler looks for nodes for all of them at once."
	}
	return "The gang of %s has been placed before: the scheduler looks for nodes for the pods that have none."
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
	return append(out, sparesOfOthers(s)...)
}

// sparesOfOthers tells why spares that hold a node do not help the ranks that wait for one: they serve their own task alone.
func sparesOfOthers(s *Snapshot) []Fact {
	waits := map[string]bool{}
	for _, p := range s.unplaced() {
		waits[p.Labels[v1alpha1.LabelTask]] = true
	}
	var out []Fact
	for i := range s.Pods {
		p := &s.Pods[i]
		task := p.Labels[v1alpha1.LabelTask]
		if p.Labels[v1alpha1.LabelSpare] == "true" && p.Spec.NodeName != "" && !hasEnded(p) && len(waits) > 0 && !waits[task] {
			out = append(out, told("Pod "+p.Name, "The spare on node %s is for task %s only.", p.Spec.NodeName, task)...)
		}
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
