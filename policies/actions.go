// Actions: what each step changes. All of it is data in the status; the plan follows.

package policies

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// unknownStory tells of an action that this manager does not know, in the rule of an incident or among the steps that
// another version has taken; empty where it knows all.
func (w *world) unknownStory(inc *v1alpha1.Incident) string {
	for _, step := range w.ruleOf(inc).Steps {
		if !rules.ActionOf(step.Action).Known {
			return fmt.Sprintf(", action %s of rule %s is unknown to this version of the manager, which does nothing for it", step.Action, inc.Rule)
		}
	}
	for _, f := range inc.Steps {
		if !rules.ActionOf(f.Action).Known {
			return fmt.Sprintf(", action %s was taken by another version of the manager, and is unknown to this one", f.Action)
		}
	}
	return ""
}

// carryOut does what an action says, and counts it. Before is the incident without this step.
func (w *world) carryOut(s *v1alpha1.TrainingJobStatus, inc, before *v1alpha1.Incident, name v1alpha1.Action) {
	if s.Placement != nil {
		w.noteNodes(s, true)
	}
	switch name {
	case v1alpha1.RestartPod, v1alpha1.MigratePod:
		w.restartBroken(s, inc)
	case v1alpha1.ShrinkTask:
		w.shrinkTasks(s, inc)
	case v1alpha1.RestartPartition:
		w.restartPartitions(s, inc, before)
	case v1alpha1.RestartTask:
		w.restartTasks(s, inc)
	case v1alpha1.RestartJob:
		gang.RestartAll(s, w.Effective)
	case v1alpha1.RelocateJob:
		w.relocateJob(s)
	}
	if counter := rules.ActionOf(name).Counter; counter != nil {
		*counter(&s.Restarts)++
		s.Restarts.Total++
	}
}

func (w *world) restartTasks(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) {
	for _, task := range w.tasksOf(inc) {
		gang.RestartTask(s, task)
	}
}

// restartBroken asks for new lives of an incident's ranks that are not back. It leaves those alone that wait for
// their peers, and that the kubelet restarts in place.
func (w *world) restartBroken(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) {
	patient := w.victimsUntil(s, inc).After(w.Now)
	w.everyRankOf(inc, func(r gang.Rank) bool {
		if !w.backFor(s, inc, r) && w.State(s, r) > gang.Outdated && (!patient || !w.waitsForPeers(s, inc, r)) {
			w.restart(s, r, v1alpha1.RestartByStep)
		}
		return true
	})
}

// relocateJob gives up home, for another HyperNode than the one that is left.
func (w *world) relocateJob(s *v1alpha1.TrainingJobStatus) {
	if p := s.Placement; p != nil && p.HyperNode != "" && !w.places(s).HasLeft(p.HyperNode) && w.places(s).Elsewhere(p.HyperNode) {
		s.LeftHyperNodes = append(s.LeftHyperNodes, v1alpha1.LeftHyperNode{
			Name: p.HyperNode, Until: metav1.NewTime(w.Now.Add(max(w.policy("").ExcludeNode, leftFor))),
		})
	}
	s.Placement = nil
	unshrink(s)
	for i := range s.Tasks {
		gang.RestartTask(s, s.Tasks[i].Name)
	}
}

// missesPeers reports whether some rank that a step for pods would bring back needs another one that has succeeded: it
// would wait for it in vain.
func (w *world) missesPeers(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) bool {
	return !w.everyRankOf(inc, func(r gang.Rank) bool {
		t := gang.TaskStatus(s, r.Task)
		return t == nil || t.Succeeded == 0 || w.IsIndependent(r.Task) || w.backFor(s, inc, r)
	})
}
