// Actions: what each step changes. All of it is data in the status; the plan follows.

package recovery

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/incident"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// carryOut does what an action says, and counts it. Before is the incident without this step.
func (e Engine) carryOut(s *v1alpha1.TrainingJobStatus, inc, before *v1alpha1.Incident, name v1alpha1.Action) {
	if s.Placement != nil {
		e.noteNodes(s, true)
	}
	switch name {
	case v1alpha1.RestartProcesses:
		e.raiseEpoch(s)
	case v1alpha1.RestartPod, v1alpha1.MigratePod:
		e.restartPods(s, inc, before)
	case v1alpha1.ShrinkTask:
		e.shrinkTasks(s, inc)
	case v1alpha1.RestartPartition:
		e.restartPartitions(s, inc, before)
	case v1alpha1.RestartTask:
		e.restartTasks(s, inc)
	case v1alpha1.RestartJob:
		gang.RestartAll(s, e.Effective)
	case v1alpha1.RelocateJob:
		e.relocateJob(s)
	}
	if counter := rules.ActionOf(name).Counter; counter != nil && !incident.Resumes(before) {
		*counter(&s.Restarts)++
		s.Restarts.Total++
	}
}

func (e Engine) restartTasks(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) {
	for _, task := range e.TasksOf(inc) {
		gang.RestartTask(s, task)
	}
}

// restartPods restarts the ranks of an incident that are not back, except those that wait for their peers, which the kubelet
// restarts in place, while they still have time. Where a user has asked for that, it restarts every one.
func (e Engine) restartPods(s *v1alpha1.TrainingJobStatus, inc, before *v1alpha1.Incident) {
	requested, patient := incident.Requested(before), e.VictimsUntil(s, before).After(e.Now)
	e.EveryRankOf(inc, func(r gang.Rank) bool {
		broken := !e.IsHealedFor(s, inc, r) && (!patient || !e.WaitsForPeers(s, inc, r))
		if (broken || requested) && e.State(s, r) > gang.Outdated {
			e.restart(s, r, v1alpha1.RestartByStep)
		}
		return true
	})
}

// relocateJob gives up home, for another HyperNode than the one that is left.
func (e Engine) relocateJob(s *v1alpha1.TrainingJobStatus) {
	if p := s.Placement; p != nil && p.HyperNode != "" && !e.Places(s).HasLeft(p.HyperNode) && e.Places(s).Elsewhere(p.HyperNode) {
		s.LeftHyperNodes = append(s.LeftHyperNodes, v1alpha1.LeftHyperNode{
			Name: p.HyperNode, Until: metav1.NewTime(e.Now.Add(max(e.Policy("").ExcludeNode, leftFor))),
		})
	}
	s.Placement = nil
	unshrink(s)
	for i := range s.Tasks {
		gang.RestartTask(s, s.Tasks[i].Name)
	}
}
