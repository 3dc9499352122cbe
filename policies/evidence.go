// Evidence: what a decision rests on, and what may have changed since the cache showed it.

package policies

import (
	"slices"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/incident"
)

// Evidence is why ranks are restarted, why incidents end, and why nodes are not avoided any more.
type Evidence struct {
	// Pods are those that do not work, and because of which steps are taken and ranks restarted.
	Pods []*gang.Pod
	// Back are pods that work again, because of which incidents end: those that were there before these began. A cache that is behind may show
	// them as they were.
	Back []*gang.Pod
	// Nodes are those of such pods that are not ready, and those whose exclusion ends before its time, by name.
	Nodes []string
	// VolcanoJob is that of pods which are gone or end; nil for none. Its deletion may have removed them.
	VolcanoJob *gang.VolcanoJob
}

// maxEvidence is how many pods and how many nodes of a decision are evidence: a cache that is behind shows it in each of them.
const maxEvidence = 16

// EvidenceFor returns what the caller has to be sure of before it records a status that was decided.
func EvidenceFor(o *gang.Observation, s *v1alpha1.TrainingJobStatus) Evidence {
	var e Evidence
	j := jobOf(o, &o.Job.Status)
	for i := range s.Incidents {
		inc := &s.Incidents[i]
		if last, before := lastStep(s, inc.ID), lastStep(&o.Job.Status, inc.ID); last != nil && (before == nil || !last.Time.Equal(&before.Time) || last.Index != before.Index) {
			j.addReasons(&e, func(r gang.Rank) bool { return j.Concerns(inc, r) })
		}
	}
	for i := range o.Job.Status.Incidents {
		if inc := &o.Job.Status.Incidents[i]; inc.Outcome == "" && isOver(s, inc.ID) {
			j.addBack(&e, inc)
		}
	}
	j.addReasons(&e, func(r gang.Rank) bool { // also of those that join an incident after its step
		return gang.Incarnation(s, r.Task, r.Index) > gang.Incarnation(&o.Job.Status, r.Task, r.Index)
	})
	j.addTakenOver(&e, s)
	j.addReturned(&e, s)
	slices.Sort(e.Nodes)
	return e
}

// lastStep is the step of an incident that a status has recorded last; nil for none.
func lastStep(s *v1alpha1.TrainingJobStatus, incident int32) *v1alpha1.FiredStep {
	for i := range s.Incidents {
		if steps := s.Incidents[i].Steps; s.Incidents[i].ID == incident && len(steps) > 0 {
			return &steps[len(steps)-1]
		}
	}
	return nil
}

// addReasons adds those pods of some ranks that do not work, unless they are replaced already or have ended for good, and what else may have
// ended them.
func (j job) addReasons(e *Evidence, of func(gang.Rank) bool) {
	gang.EachRank(j.Effective, func(r gang.Rank) {
		p := j.Pod(r)
		if !of(r) {
			return
		}
		if p == nil || p.Deleting {
			e.VolcanoJob = j.VolcanoJob
		}
		if p == nil || gang.IsStale(&j.Job.Status, p) {
			return
		}
		if !p.Ready && !p.Finished() && len(e.Pods) < maxEvidence && !slices.Contains(e.Pods, p) {
			e.Pods = append(e.Pods, p)
		}
		if n, exists := j.Nodes[p.Node]; exists && !n.Ready {
			e.addNode(p.Node)
		}
	})
}

// addTakenOver adds the pods and the nodes of ranks that spares take over, all of them: nothing else shows that such a pod has ended, as the one that
// Volcano would make of its name does.
func (j job) addTakenOver(e *Evidence, s *v1alpha1.TrainingJobStatus) {
	for _, r := range gang.Moved(s) {
		p := j.Pod(r)
		if p == nil || p.Spare || gang.Incarnation(s, r.Task, r.Index) == gang.Incarnation(&j.Job.Status, r.Task, r.Index) {
			continue
		}
		if !p.Ready && !p.Finished() && !slices.Contains(e.Pods, p) {
			e.Pods = append(e.Pods, p)
		}
		if p.Node != "" && !slices.Contains(e.Nodes, p.Node) {
			e.Nodes = append(e.Nodes, p.Node)
		}
	}
}

// addReturned adds the nodes whose exclusion ends before its time.
func (j job) addReturned(e *Evidence, s *v1alpha1.TrainingJobStatus) {
	for _, x := range j.Job.Status.ExcludedNodes {
		if x.Until.After(j.Now) && !slices.ContainsFunc(s.ExcludedNodes, func(still v1alpha1.ExcludedNode) bool { return still.Name == x.Name }) {
			for name, n := range j.Nodes {
				if name == x.Name || (x.Machine != "" && n.Machine == x.Machine) {
					e.addNode(name)
				}
			}
		}
	}
}

// isOver reports whether an incident has ended well in a status, which may have forgotten it by now.
func isOver(s *v1alpha1.TrainingJobStatus, incident int32) bool {
	return !slices.ContainsFunc(s.Incidents, func(inc v1alpha1.Incident) bool {
		return inc.ID == incident && inc.Outcome != v1alpha1.OutcomeRecovered
	})
}

// addBack adds those pods of an incident's ranks that were there before it began, and work.
func (j job) addBack(e *Evidence, inc *v1alpha1.Incident) {
	gang.EachRank(j.Effective, func(r gang.Rank) {
		p := j.Pod(r)
		if p != nil && p.Ready && incident.Names(inc, r) && !p.PlacedTime.After(inc.StartTime.Time) && len(e.Back) < maxEvidence {
			e.Back = append(e.Back, p)
		}
	})
}

func (e *Evidence) addNode(name string) {
	if len(e.Nodes) < maxEvidence && !slices.Contains(e.Nodes, name) {
		e.Nodes = append(e.Nodes, name)
	}
}
