// Actions: what each step changes. All of it is data in the status; the plan follows.

package policies

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// known reports whether this manager knows an action. After a rollback of the manager a rule may hold one of a later
// version, which the CRD of that version accepts.
func known(action v1alpha1.Action) bool {
	switch action {
	case v1alpha1.Ignore, v1alpha1.RestartPod, v1alpha1.RestartTask, v1alpha1.RestartPartition, v1alpha1.RestartJob,
		v1alpha1.MigratePod, v1alpha1.ShrinkTask, v1alpha1.RelocateJob, v1alpha1.FailJob:
		return true
	}
	return false
}

// unknownStory tells of an action that this manager does not know, in the rule of an incident or among the steps that
// another version has taken; empty where it knows all.
func (w *world) unknownStory(inc *v1alpha1.Incident) string {
	for _, step := range w.ruleOf(inc).Steps {
		if !known(step.Action) {
			return fmt.Sprintf(", action %s of rule %s is unknown to this version of the manager, which does nothing for it", step.Action, inc.Rule)
		}
	}
	for _, f := range inc.Steps {
		if !known(f.Action) {
			return fmt.Sprintf(", action %s was taken by another version of the manager, and is unknown to this one", f.Action)
		}
	}
	return ""
}

// restart asks for new lives of all that an action's scope covers. Before is the
// incident without this step.
func (w *world) restart(s *v1alpha1.TrainingJobStatus, inc, before *v1alpha1.Incident, action v1alpha1.Action) {
	if s.Placement != nil {
		w.noteNodes(s, true)
	}
	var count *int32
	switch action {
	case v1alpha1.Ignore, v1alpha1.FailJob: // they restart nothing
	case v1alpha1.ShrinkTask:
		w.shrink(s, inc)
	case v1alpha1.RestartPod, v1alpha1.MigratePod:
		count = &s.Restarts.Pod
		w.restartBroken(s, inc)
	case v1alpha1.RestartTask:
		count = &s.Restarts.Task
		for _, task := range w.tasksOf(inc) {
			restartTask(s, task)
		}
	case v1alpha1.RestartPartition:
		count = &s.Restarts.Partition
		w.restartPartitions(s, inc, before)
	case v1alpha1.RelocateJob:
		count = &s.Restarts.Relocations
		w.relocate(s)
	case v1alpha1.RestartJob:
		count = &s.Restarts.Job
		restartAll(s, w.job)
	}
	if count != nil {
		*count++
		s.Restarts.Total++
	}
}

// restartBroken asks for new lives of an incident's ranks that are not back. It leaves those alone that wait for
// their peers, and that the kubelet restarts in place.
func (w *world) restartBroken(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) {
	patient := w.victimsUntil(s, inc).After(w.Now)
	w.everyRankOf(inc, func(r rank) bool {
		if !w.backFor(s, inc, r) && !w.replaced(s, r) && (!patient || !w.waitsForPeers(s, inc, r)) {
			restartRank(s, r)
		}
		return true
	})
}

// replaced is true where a rank already waits for the pod of its next life.
func (w *world) replaced(s *v1alpha1.TrainingJobStatus, r rank) bool {
	p := w.pod(r)
	return p == nil || p.Gated || stale(s, p)
}

// relocate gives up home, for another HyperNode than the one that is left.
func (w *world) relocate(s *v1alpha1.TrainingJobStatus) {
	if p := s.Placement; p != nil && p.HyperNode != "" && !w.hasLeft(s, p.HyperNode) && w.elsewhere(s, p.HyperNode) {
		s.LeftHyperNodes = append(s.LeftHyperNodes, v1alpha1.LeftHyperNode{
			Name: p.HyperNode, Until: metav1.NewTime(w.Now.Add(max(w.policy("").excludeNode, leftFor))),
		})
	}
	s.Placement = nil
	unshrink(s)
	for i := range s.Tasks {
		restartTask(s, s.Tasks[i].Name)
	}
}
