// Shrinking: a task goes on with fewer ranks. Volcano takes away those of the highest
// index, so that these hand their nodes to the ranks that have none.

package recovery

import (
	"slices"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/incident"
	"github.com/lockstep-dev/lockstep/policies/placement"
)

// shrinkTasks gives up as many ranks of an incident's tasks as have no node, within minReplicas.
// From there on the job is the smaller one.
func (e Engine) shrinkTasks(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) {
	m := e.Rooms(s)
	for _, name := range e.TasksOf(inc) {
		t := e.Task(name)
		if t == nil || t.MinReplicas == nil || s.Placement == nil {
			continue
		}
		var lost []int32
		for index := range t.Replicas {
			if r := (gang.Rank{Task: name, Index: index}); e.Concerns(inc, r) && homeless(m, e.State(s, r), e.Pod(r), r) {
				lost = append(lost, index)
			}
		}
		if n := min(int32(len(lost)), t.Replicas-*t.MinReplicas); n > 0 {
			e.handOver(s, name, lost, t.Replicas, t.Replicas-n)
			gang.TaskStatus(s, name).Shrunk += n
		}
	}
	*e.View = *incident.ViewOf(e.Observation, s)
	if s.Placement != nil {
		resize(s.Placement, e.Effective)
	}
}

// homeless reports whether a rank has no good node, and none of its own to go back to.
func homeless(m *placement.Rooms, state gang.RankState, p *gang.Pod, r gang.Rank) bool {
	if state > gang.Unbound && m.Usable(p.Node, r.Task) {
		return false
	}
	return state < gang.Working && !m.Returns(r)
}

// handOver gives the nodes of the ranks that go to the ranks that stay and have none.
func (e Engine) handOver(s *v1alpha1.TrainingJobStatus, task string, homeless []int32, from, to int32) {
	heirs := slices.DeleteFunc(slices.Clone(homeless), func(index int32) bool { return index >= to })
	for donor := from - 1; donor >= to && len(heirs) > 0; donor-- {
		if slices.Contains(homeless, donor) {
			continue
		}
		r := gang.Rank{Task: task, Index: heirs[0]}
		heirs = heirs[1:]
		gang.SetNode(s.Placement, r, gang.NodeOf(s.Placement, gang.Rank{Task: task, Index: donor}))
		if p := e.Pod(r); p != nil && !p.Gated && !gang.IsStale(s, p) {
			e.restart(s, r, v1alpha1.RestartNodeInherited)
		}
	}
}

// unshrink asks for all ranks again.
func unshrink(s *v1alpha1.TrainingJobStatus) {
	for i := range s.Tasks {
		s.Tasks[i].Shrunk = 0
	}
}
