// The job: why it is in its state, where it lives, and which nodes it keeps or keeps away from.

package why

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/timeline"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// Job answers why a job is in its state.
func Job(s *Snapshot) []Fact {
	return slices.Concat(unseen(s), s.whole(identity), message(s), failed(s), completed(s), suspended(s), recovering(s), s.incidents(true),
		nextStep(s), unscheduled(s), waiting(s), growing(s), ready(s), stalled(s), straggles(s), progress(s), unready(s), onBadNodes(s), spares(s), home(s), left(s), violated(s),
		s.incidents(false), s.whole(availability), s.whole(restarts), budget(s), holds(s), exclusions(s), illNodes(s), s.whole(events), unread(s))
}

// unseen says that the status does not answer the job as it is now.
func unseen(s *Snapshot) []Fact {
	switch status := &s.Job.Status; {
	case s.Job.Spec.ManagedBy != "":
		return told("spec.managedBy", "%s manages the job: Lockstep does nothing with it in this cluster. What follows is what %s has written to its status.", s.Job.Spec.ManagedBy, s.Job.Spec.ManagedBy)
	case status.State == "":
		return told("status", "The manager has not looked at the job yet: its status is empty. `kubectl lockstep check` finds out whether the manager runs.")
	case status.ObservedGeneration < s.Job.Generation:
		return told("status.observedGeneration", "The manager has not looked at the last change of the job yet: what follows is about the job before it.")
	}
	return nil
}

// identity says when the job was created, in which queue, and how many pods are ready.
func identity(s *Snapshot) []Fact {
	queue := "queue " + s.Job.Spec.Queue
	if class := s.Job.Spec.PriorityClassName; class != "" {
		queue += ", priority class " + class
	}
	created := "was created at " + s.at(s.Job.CreationTimestamp.Time) + ", in "
	if s.Job.CreationTimestamp.IsZero() { // it is of a file
		created = "is for "
	}
	return told("metadata, status", "It %s%s. %s pods are ready, in attempt %d.", created, queue,
		cmp.Or(s.Job.Status.Ready, "No"), s.Job.Status.Attempt)
}

// message repeats the message of the status, unless a condition has the same.
func message(s *Snapshot) []Fact {
	m := s.Job.Status.Message
	said := func(c metav1.Condition) bool { return c.Message == m && c.Type != v1alpha1.ConditionRunning } // which not every answer has
	if m != "" && !slices.ContainsFunc(s.Job.Status.Conditions, said) {
		return told("status.message", "The manager says: %s.", strings.TrimSuffix(m, "."))
	}
	return nil
}

// condition repeats the message of a condition. It leaves out one with another value, and one that only says that the job needs no pods.
func condition(name string, value metav1.ConditionStatus, what string) func(*Snapshot) []Fact {
	return func(s *Snapshot) []Fact {
		c := meta.FindStatusCondition(s.Job.Status.Conditions, name)
		if c == nil || c.Status != value || c.Reason == v1alpha1.ReasonVolcanoJobNotNeeded {
			return nil
		}
		return told("condition "+c.Type, "%s %s, reason %s: %s.", what, s.at(c.LastTransitionTime.Time), c.Reason, strings.TrimSuffix(c.Message, "."))
	}
}

// whole asks a question only if the answer is about the whole job.
func (s *Snapshot) whole(ask func(*Snapshot) []Fact) []Fact {
	if !s.Whole {
		return nil
	}
	return ask(s)
}

var (
	failed      = condition(v1alpha1.ConditionFailed, metav1.ConditionTrue, "It failed at")
	completed   = condition(v1alpha1.ConditionCompleted, metav1.ConditionTrue, "It completed at")
	stopped     = condition(v1alpha1.ConditionSuspended, metav1.ConditionTrue, "It has been suspended since")
	violated    = condition(v1alpha1.ConditionTopologyViolated, metav1.ConditionTrue, "Its topology has been violated since")
	stalled     = condition(v1alpha1.ConditionStalled, metav1.ConditionTrue, "It has stalled since")
	straggles   = condition(v1alpha1.ConditionStraggler, metav1.ConditionTrue, "It has had a straggler since")
	recovering  = condition(v1alpha1.ConditionRecovering, metav1.ConditionTrue, "It has been recovering since")
	unscheduled = condition(v1alpha1.ConditionScheduled, metav1.ConditionFalse, "It has not been scheduled since")
	ready       = condition(v1alpha1.ConditionRunning, metav1.ConditionTrue, "It has been running since")
	notReady    = condition(v1alpha1.ConditionRunning, metav1.ConditionFalse, "It has not been running since")
)

// active reports whether the job should have pods.
func (s *Snapshot) active() bool { return !gang.Finished(&s.Job.Status) && !gang.Suspended(s.Job) }

func suspended(s *Snapshot) []Fact {
	if !gang.Suspended(s.Job) || gang.Finished(&s.Job.Status) {
		return nil
	}
	out := stopped(s)
	if len(out) == 0 {
		out = told("spec.suspend", "spec.suspend is true, and its pods are being stopped.")
	}
	if n := len(s.Pods); n > 0 {
		out = append(out, told("Pods", "It still has %s, which are being stopped.", lines.Count(n, "pod"))...)
	}
	return out
}

// Waits reports whether the gang, or a pod of it, has yet to get a node.
func (s *Snapshot) Waits() bool {
	return s.active() && (len(unscheduled(s)) > 0 || len(s.unplaced()) > 0)
}

// unready says that the gang is not ready. It leaves that out while the facts about waiting say more.
func unready(s *Snapshot) []Fact {
	c := meta.FindStatusCondition(s.Job.Status.Conditions, v1alpha1.ConditionRunning)
	if c != nil && c.Reason == v1alpha1.ReasonPodsNotReady && s.Waits() {
		return nil
	}
	return notReady(s)
}

// growing says that a job which starts may train all the same.
func growing(s *Snapshot) []Fact {
	since := timeline.GrowingSince(&s.Job.Status)
	if !s.active() || since == nil {
		return nil
	}
	return told("status.availability", "It has been growing since %s, and %s ranks are ready. %s", s.at(since.Time), s.Job.Status.Ready, timeline.GrowingHint)
}

// progress says how far the program says that it is.
func progress(s *Snapshot) []Fact {
	p := s.Job.Status.Progress
	if p == nil {
		return nil
	}
	var said []string
	add := func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }
	if p.Phase != "" {
		add("phase %s", p.Phase)
	}
	if p.Step != nil {
		of := ""
		if p.TotalSteps != nil {
			of = fmt.Sprintf(" of %d", *p.TotalSteps)
		}
		add("step %d%s", *p.Step, of)
	}
	if p.Percent != nil {
		add("%d %%", *p.Percent)
	}
	if p.CheckpointStep != nil {
		add("the last checkpoint at step %d", *p.CheckpointStep)
	}
	out := told("status.progress", "The program said by %s, in epoch %d: %s.", s.at(p.UpdateTime.Time), p.Epoch, strings.Join(said, ", "))
	if s.active() && p.EstimatedEndTime != nil && p.Epoch == s.Job.Status.Epoch {
		out = append(out, told("status.progress", "At the pace of that epoch it ends at %s.", s.at(p.EstimatedEndTime.Time))...)
	}
	return out
}

// availability says what share of its time a job was ready.
func availability(s *Snapshot) []Fact {
	a := timeline.Of(s.Job, s.Now).Availability
	if a == nil {
		return nil
	}
	tell := func(ms int64) string { return lines.Duration(time.Duration(ms) * time.Millisecond) }
	parts := []string{fmt.Sprintf("ETTR %.4f: ready for %s", a.ETTR, tell(a.ReadyMilliseconds))}
	for _, lost := range a.LostTime {
		parts = append(parts, fmt.Sprintf("%s lost to %s", tell(lost.Milliseconds), lost.Cause))
	}
	return told("status.availability", "%s.", strings.Join(parts, ", "))
}

// restarts says how many restarts there were of each kind, and how many in a row came to no newer checkpoint.
func restarts(s *Snapshot) []Fact {
	r := &s.Job.Status.Restarts
	if r.Total == 0 {
		return nil
	}
	var kinds []string
	for _, k := range []struct {
		n    int32
		what string
	}{{r.Process, "of programs"}, {r.Pod, "of pods"}, {r.Task, "of tasks"}, {r.Partition, "of partitions"}, {r.Job, "of the job"}, {r.Relocations, "with a relocation"}} {
		if k.n > 0 {
			kinds = append(kinds, fmt.Sprintf("%d %s", k.n, k.what))
		}
	}
	out := told("status.restarts", "It was restarted %s: %s.", lines.Count(r.Total, "time"), strings.Join(kinds, ", "))
	if sup := s.Job.Spec.Supervisor; sup != nil && sup.Progress != nil {
		out = append(out, told("status.restartsWithoutProgress", "Of the last restarts %d came to no newer checkpoint; the job fails after %d in a row.",
			s.Job.Status.RestartsWithoutProgress, ptr.Deref(sup.Progress.MaxRestarts, 3))...)
	}
	return out
}

// home says where the job lives, and who chose that.
func home(s *Snapshot) []Fact {
	p := s.Job.Status.Placement
	if p == nil || gang.Finished(&s.Job.Status) {
		return nil
	}
	out := told("status.placement", "It has no home: no HyperNode holds all its nodes.")
	if p.HyperNode != "" {
		out = told("status.placement", "Home is HyperNode %s%s, the lowest that holds all its nodes. Replacements go there.", p.HyperNode, tierStory(p.Tier))
	}
	for _, t := range p.Tasks {
		var homes []string
		for i, part := range t.Partitions {
			if part.HyperNode != "" {
				homes = append(homes, fmt.Sprintf("%d in %s", i, part.HyperNode))
			}
		}
		if len(homes) > 0 {
			out = append(out, told("status.placement", "The partitions of task %s have homes of their own: %s.", t.Name, s.listed(homes))...)
		}
	}
	return append(out, s.tellRelocation()...)
}

func tierStory(tier *int32) string {
	if tier == nil {
		return ""
	}
	return fmt.Sprintf(" of tier %d", *tier)
}

// within says what a topology allowed the scheduler.
func within(t *v1alpha1.NetworkTopology) string {
	switch {
	case t == nil:
		return ", without a networkTopology"
	case gang.IsHard(t):
		return fmt.Sprintf(", in one HyperNode of tier %d at most", ptr.Deref(t.HighestTierAllowed, 0))
	}
	return ", close together where there was room (networkTopology soft)"
}

// tellRelocation says which incident left the former home, where that is remembered.
func (s *Snapshot) tellRelocation() []Fact {
	n := s.Job.Status.Restarts.Relocations
	if n == 0 {
		return told("status.restarts", "It has never relocated: the scheduler chose the nodes when the gang was first placed%s.", within(s.Job.Spec.NetworkTopology))
	}
	for _, inc := range slices.Backward(s.Job.Status.Incidents) {
		for _, step := range slices.Backward(inc.Steps) {
			if rules.ActionOf(step.Action).LeavesHome && !step.DryRun {
				return told("status.incidents", "It relocated %s, the last time at %s, for incident %d: %s.", lines.Count(n, "time"), s.at(step.Time.Time), inc.ID, storyOf(&inc))
			}
		}
	}
	return told("status.restarts", "It relocated %s. The incidents of that are not remembered any more.", lines.Count(n, "time"))
}

// left says which homes the job keeps away from.
func left(s *Snapshot) []Fact {
	var out []Fact
	for _, l := range s.Job.Status.LeftHyperNodes {
		out = append(out, told("status.leftHyperNodes", "It relocated from HyperNode %s, and keeps away from there until %s.", l.Name, s.until(l.Until.Time))...)
	}
	return out
}

// holds says which nodes are kept free for the job.
func holds(s *Snapshot) []Fact {
	var standing, ending []string
	until := ""
	for _, h := range s.Job.Status.Holds {
		if h.Until == nil {
			standing = append(standing, h.Node)
		} else {
			ending, until = append(ending, h.Node), s.until(h.Until.Time)
		}
	}
	var out []Fact
	if n := len(standing); n > 0 {
		out = told("status.holds", "It holds %s until it ends: %s.", lines.Count(n, "node"), s.listed(standing))
	}
	if n := len(ending); n > 0 {
		out = append(out, told("status.holds", "It holds %s until its ranks are back, and the last no longer than until %s: %s.", lines.Count(n, "node"), until, s.listed(ending))...)
	}
	return out
}

// exclusions says which nodes the job keeps away from.
func exclusions(s *Snapshot) []Fact {
	return first(s, s.Job.Status.ExcludedNodes, s.tellExclusion, "status.excludedNodes", "Nodes that the job keeps away from beside these: %d.")
}

func (s *Snapshot) tellExclusion(x v1alpha1.ExcludedNode) []Fact {
	return told("status.excludedNodes", "The job keeps away from node %s until %s, because of incident %d.", x.Name, s.until(x.Until.Time), x.Incident)
}
