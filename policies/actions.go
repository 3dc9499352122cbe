// Actions: what each step changes. All of it is data in the status; the plan follows.

package policies

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// restart asks for new lives of all that an action's scope covers. Before is the
// incident without this step.
func (w *world) restart(s *v1alpha1.TrainingJobStatus, inc, before *v1alpha1.Incident, action v1alpha1.Action) {
	if s.Placement != nil {
		w.noteNodes(s, true)
	}
	count := &s.Restarts.Job
	switch action {
	case v1alpha1.ShrinkTask:
		w.shrink(s, inc)
		return
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
	default:
		restartAll(s, w.job)
	}
	*count++
	s.Restarts.Total++
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
