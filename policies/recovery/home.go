// Home: recording where the ranks live.

package recovery

import (
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/instant"
)

// gatherFor is for how long a gang that is large enough waits for its other pods to be let go, before home is found: longer than a pod
// has by default to leave.
const gatherFor = time.Minute

// place records where the ranks are, once the gang has been placed as a whole, and returns when to look again whether it has.
// Home is found then, grows while ranks are placed for the first time, and stays
// until a relocation gives it up: later moves do not change it.
func (e Engine) place(s *v1alpha1.TrainingJobStatus) time.Time {
	if s.Placement == nil {
		if e.CountBound(s) < gang.MinAvailable(e.Effective) {
			return time.Time{}
		}
		if until := e.gathersUntil(s); until.After(e.Now) {
			return until
		}
		s.Placement = &v1alpha1.Placement{}
	}
	resize(s.Placement, e.Effective)
	p := s.Placement
	grown := e.noteNodes(s, false)
	home := e.Places(s).FindHome(v1alpha1.PartitionPlacement{HyperNode: p.HyperNode, Tier: p.Tier}, gang.PlacedNodes(p), grown)
	p.HyperNode, p.Tier = home.HyperNode, home.Tier
	e.Places(s).PlacePartitions()
	return time.Time{}
}

// gathersUntil is until when a gang without a home waits for pods that have yet to come or to be let go; zero where there are none. Those
// that come later may only go home, which may be too small for them: it is that of the ranks which came first.
func (e Engine) gathersUntil(s *v1alpha1.TrainingJobStatus) time.Time {
	var first time.Time
	comes := false
	gang.EachRank(e.Effective, func(r gang.Rank) {
		switch p := e.Pod(r); {
		case p == nil || p.Gated || p.Deleting || gang.IsStale(s, p):
			comes = true
		case p.Node != "":
			first = instant.Earliest(first, p.BoundSince())
		}
	})
	if !comes || first.IsZero() {
		return time.Time{}
	}
	return first.Add(gatherFor)
}

// noteNodes records the nodes of the ranks, and reports whether one got its first. The new node of a rank that is being
// restarted is recorded when its incident ends, which saves a write; with all set, at once.
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
			if first && e.endedApart(s, p) {
				continue
			}
			grown = grown || first
			nodes[index] = p.Node
		}
	}
	return grown
}

// endedApart reports whether a pod has ended where the gang's topology does not allow its rank beside the others, which Volcano has placed
// without it.
func (e Engine) endedApart(s *v1alpha1.TrainingJobStatus, p *gang.Pod) bool {
	return p.Finished() && e.Places(s).Apart(append(e.liveNodes(s), p.Node))
}

// liveNodes are the nodes on which ranks run or are about to.
func (e Engine) liveNodes(s *v1alpha1.TrainingJobStatus) []string {
	var nodes []string
	gang.EachRank(e.Effective, func(r gang.Rank) {
		if p := e.Pod(r); p != nil && p.Node != "" && !p.Finished() && !p.Deleting && !gang.IsStale(s, p) {
			nodes = append(nodes, p.Node)
		}
	})
	return nodes
}

// resize brings a placement in line with the job's tasks and replicas.
func resize(p *v1alpha1.Placement, job *v1alpha1.TrainingJob) {
	tasks := make([]v1alpha1.TaskPlacement, 0, len(job.Spec.Tasks))
	for i := range job.Spec.Tasks {
		t := &job.Spec.Tasks[i]
		placed := v1alpha1.TaskPlacement{Name: t.Name}
		if old := gang.TaskPlacement(p, t.Name); old != nil {
			placed = *old
		}
		if n := int(t.Replicas); len(placed.Nodes) != n {
			nodes := make([]string, n)
			copy(nodes, placed.Nodes)
			placed.Nodes = nodes
		}
		tasks = append(tasks, placed)
	}
	p.Tasks = tasks
}
