// Home: recording where the ranks live.

package recovery

import (
	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/placement"
)

// place records where the ranks are, once the gang has been placed as a whole.
// Home is found then, grows while ranks are placed for the first time, and stays
// until a relocation gives it up: later moves do not change it.
func (e Engine) place(s *v1alpha1.TrainingJobStatus) {
	if s.Placement == nil {
		if e.CountBound(s) < gang.MinAvailable(e.Effective) {
			return
		}
		s.Placement = &v1alpha1.Placement{}
	}
	placement.Resize(s.Placement, e.Effective)
	p := s.Placement
	grown := e.noteNodes(s, false)
	home := e.Places(s).FindHome(v1alpha1.PartitionPlacement{HyperNode: p.HyperNode, Tier: p.Tier}, gang.PlacedNodes(p), grown)
	p.HyperNode, p.Tier = home.HyperNode, home.Tier
	e.Places(s).PlacePartitions()
}

// noteNodes records the nodes of the ranks, and says whether one has its first. That a
// rank which is being restarted has another one can wait for the end of its incident, in
// one write with it; before more is restarted, all is noted.
func (e Engine) noteNodes(s *v1alpha1.TrainingJobStatus, all bool) (grown bool) {
	for i := range e.Effective.Spec.Tasks {
		t := &e.Effective.Spec.Tasks[i]
		nodes := s.Placement.Tasks[i].Nodes
		for index, p := range e.TaskPods(t.Name).Pods {
			if p == nil || p.Node == "" || p.Node == nodes[index] || p.Deleting || gang.IsStale(s, p) {
				continue
			}
			first, r := nodes[index] == "", p.Rank()
			if !all && !first && e.State(s, r) < gang.Working && e.Covering(s, r) != nil {
				continue
			}
			grown = grown || first
			nodes[index] = p.Node
		}
	}
	return grown
}
