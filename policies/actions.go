// Actions: what each step changes. All of it is data in the status; the plan follows.

package policies

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// actionScope is what an action touches.
type actionScope int

const (
	nothing actionScope = iota
	brokenPods
	theirPartitions
	theirTasks
	wholeJob
)

// action is what a step does. What else depends on the kind of a step asks for these properties, and not for its name.
type action struct {
	known bool
	scope actionScope
	// replaces reports whether the ranks in scope get new pods, which need nodes.
	replaces bool
	// leavesNode and leavesHome report what the new pods keep away from. What leaves its node is asked for a checkpoint first.
	leavesNode, leavesHome bool
	// fails reports whether the job fails.
	fails bool
	// counter is where the step is counted; nil for nowhere.
	counter func(*v1alpha1.Restarts) *int32
	// apply changes the status; nil for nothing. Before is the incident without the step.
	apply func(w *world, s *v1alpha1.TrainingJobStatus, inc, before *v1alpha1.Incident)
}

// actionOf returns what an action of the API does. After a rollback of the manager a rule may hold one of a later version, which
// the CRD of that version accepts: this one does not know it, and it does nothing.
func actionOf(name v1alpha1.Action) action {
	switch name {
	case v1alpha1.Ignore:
		return action{known: true}
	case v1alpha1.RestartPod:
		return action{known: true, scope: brokenPods, replaces: true, counter: countPod, apply: restartBroken}
	case v1alpha1.MigratePod:
		return action{known: true, scope: brokenPods, replaces: true, leavesNode: true, counter: countPod, apply: restartBroken}
	case v1alpha1.ShrinkTask:
		return action{known: true, scope: brokenPods, apply: shrinkTasks}
	case v1alpha1.RestartPartition:
		return action{known: true, scope: theirPartitions, replaces: true, counter: countPartition, apply: restartPartitions}
	case v1alpha1.RestartTask:
		return action{known: true, scope: theirTasks, replaces: true, counter: countTask, apply: restartTasks}
	case v1alpha1.RestartJob:
		return action{known: true, scope: wholeJob, replaces: true, counter: countJob, apply: restartJob}
	case v1alpha1.RelocateJob:
		return action{known: true, scope: wholeJob, replaces: true, leavesHome: true, counter: countRelocation, apply: relocateJob}
	case v1alpha1.FailJob:
		return action{known: true, fails: true}
	}
	return action{}
}

func countPod(r *v1alpha1.Restarts) *int32        { return &r.Pod }
func countPartition(r *v1alpha1.Restarts) *int32  { return &r.Partition }
func countTask(r *v1alpha1.Restarts) *int32       { return &r.Task }
func countJob(r *v1alpha1.Restarts) *int32        { return &r.Job }
func countRelocation(r *v1alpha1.Restarts) *int32 { return &r.Relocations }

// unknownStory tells of an action that this manager does not know, in the rule of an incident or among the steps that
// another version has taken; empty where it knows all.
func (w *world) unknownStory(inc *v1alpha1.Incident) string {
	for _, step := range w.ruleOf(inc).Steps {
		if !actionOf(step.Action).known {
			return fmt.Sprintf(", action %s of rule %s is unknown to this version of the manager, which does nothing for it", step.Action, inc.Rule)
		}
	}
	for _, f := range inc.Steps {
		if !actionOf(f.Action).known {
			return fmt.Sprintf(", action %s was taken by another version of the manager, and is unknown to this one", f.Action)
		}
	}
	return ""
}

// carryOut does what an action says, and counts it. Before is the incident without this step.
func (w *world) carryOut(s *v1alpha1.TrainingJobStatus, inc, before *v1alpha1.Incident, a action) {
	if s.Placement != nil {
		w.noteNodes(s, true)
	}
	if a.apply != nil {
		a.apply(w, s, inc, before)
	}
	if a.counter != nil {
		*a.counter(&s.Restarts)++
		s.Restarts.Total++
	}
}

func restartTasks(w *world, s *v1alpha1.TrainingJobStatus, inc, _ *v1alpha1.Incident) {
	for _, task := range w.tasksOf(inc) {
		restartTask(s, task)
	}
}

func restartJob(w *world, s *v1alpha1.TrainingJobStatus, _, _ *v1alpha1.Incident) {
	restartAll(s, w.job)
}

// restartBroken asks for new lives of an incident's ranks that are not back. It leaves those alone that wait for
// their peers, and that the kubelet restarts in place.
func restartBroken(w *world, s *v1alpha1.TrainingJobStatus, inc, _ *v1alpha1.Incident) {
	patient := w.victimsUntil(s, inc).After(w.Now)
	w.everyRankOf(inc, func(r rank) bool {
		if !w.backFor(s, inc, r) && w.state(s, r) > outdated && (!patient || !w.waitsForPeers(s, inc, r)) {
			restartRank(s, r, v1alpha1.RestartByStep)
		}
		return true
	})
}

// relocateJob gives up home, for another HyperNode than the one that is left.
func relocateJob(w *world, s *v1alpha1.TrainingJobStatus, _, _ *v1alpha1.Incident) {
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
