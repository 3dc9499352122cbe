// The job: why it is in its state.

package why

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/timeline"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// Job answers why a job is in its state.
func Job(s *Snapshot) []Fact {
	return answer(s, unseen, message, ended, suspended, recovering, openIncidents, nextStep, unscheduled, impossible, queue, podGroup,
		podsWithoutNode, kept, confined, growing, unready, onBadNodes, spares, home, left, violated, lastIncident, budget, holds, exclusions, illNodes)
}

// unseen tells that the status does not answer the job as it is now.
func unseen(s *Snapshot) []Fact {
	switch status := &s.Job.Status; {
	case status.State == "":
		return told("status", "The manager has not looked at the job yet: its status is empty. `kubectl lockstep check` finds out whether the manager runs.")
	case status.ObservedGeneration < s.Job.Generation:
		return told("status.observedGeneration", "The manager has not looked at the last change of the job yet: what follows is about the job before it.")
	}
	return nil
}

// message tells what the manager says of the job.
func message(s *Snapshot) []Fact {
	m := s.Job.Status.Message
	repeated := slices.ContainsFunc(s.Job.Status.Conditions, func(c metav1.Condition) bool {
		return c.Message == m && (c.Type == v1alpha1.ConditionRecovering || c.Type == v1alpha1.ConditionScheduled)
	})
	if m != "" && !repeated {
		return told("status.message", "The manager says: %s.", strings.TrimSuffix(m, "."))
	}
	return nil
}

// condition returns a condition of the job if it has this value.
func (s *Snapshot) condition(name string, value metav1.ConditionStatus) *metav1.Condition {
	if c := meta.FindStatusCondition(s.Job.Status.Conditions, name); c != nil && c.Status == value {
		return c
	}
	return nil
}

// tellCondition tells a condition in its own words.
func (s *Snapshot) tellCondition(c *metav1.Condition, what string) []Fact {
	return told("condition "+c.Type, "%s %s, reason %s: %s.", what, s.at(c.LastTransitionTime.Time), c.Reason, strings.TrimSuffix(c.Message, "."))
}

func ended(s *Snapshot) []Fact {
	if c := s.condition(v1alpha1.ConditionFailed, metav1.ConditionTrue); c != nil {
		return s.tellCondition(c, "It failed at")
	}
	if c := s.condition(v1alpha1.ConditionCompleted, metav1.ConditionTrue); c != nil {
		return s.tellCondition(c, "It completed at")
	}
	return nil
}

// active reports whether the job should have pods.
func (s *Snapshot) active() bool { return !gang.Finished(&s.Job.Status) && !s.Job.Spec.Suspend }

func suspended(s *Snapshot) []Fact {
	if !s.Job.Spec.Suspend || gang.Finished(&s.Job.Status) {
		return nil
	}
	c := s.condition(v1alpha1.ConditionSuspended, metav1.ConditionTrue)
	if c == nil {
		return told("spec.suspend", "spec.suspend is true, and its pods are being stopped: %s left.", counted(len(s.Pods), "pod"))
	}
	out := s.tellCondition(c, "It has been suspended since")
	if n := len(s.Pods); n > 0 {
		out = append(out, told("Pods", "It still has %s, which are being stopped.", counted(n, "pod"))...)
	}
	return out
}

// unscheduled tells what a job that has never got all its nodes, or gets them again, waits for.
func unscheduled(s *Snapshot) []Fact {
	if c := s.condition(v1alpha1.ConditionScheduled, metav1.ConditionFalse); s.active() && c != nil {
		return s.tellCondition(c, "It has not been scheduled since")
	}
	return nil
}

// Waits reports whether the gang, or a pod of it, has yet to get a node.
func (s *Snapshot) Waits() bool {
	return s.active() && (s.condition(v1alpha1.ConditionScheduled, metav1.ConditionFalse) != nil || len(s.unplaced()) > 0)
}

// unready tells whether the gang is ready.
func unready(s *Snapshot) []Fact {
	if !s.active() {
		return nil
	}
	if c := s.condition(v1alpha1.ConditionRunning, metav1.ConditionTrue); c != nil {
		return s.tellCondition(c, "It has been running since")
	}
	c := s.condition(v1alpha1.ConditionRunning, metav1.ConditionFalse)
	if c == nil || (c.Reason == v1alpha1.ReasonPodsNotReady && s.Waits()) {
		return nil // what it waits for says more
	}
	return s.tellCondition(c, "It has not been running since")
}

// growing tells that a job which starts may train all the same.
func growing(s *Snapshot) []Fact {
	since := timeline.GrowingSince(&s.Job.Status)
	if !s.active() || since == nil {
		return nil
	}
	return told("status.availability", "It has been growing since %s, and %s ranks are ready. %s", s.at(since.Time), s.Job.Status.Ready, timeline.GrowingHint)
}

// violated tells that ranks run further apart than the topology allows.
func violated(s *Snapshot) []Fact {
	if c := s.condition(v1alpha1.ConditionTopologyViolated, metav1.ConditionTrue); c != nil {
		return s.tellCondition(c, "Its topology has been violated since")
	}
	return nil
}
