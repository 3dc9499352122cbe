// Evidence: what a decision rests on, and what may have changed since the cache showed it.

package policies

import (
	"slices"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// Evidence is why ranks are restarted, and why nodes are not avoided any more.
type Evidence struct {
	// Pods are those because of which steps are taken.
	Pods []*gang.Pod
	// Nodes are those of such pods that are not ready, and those that an exclusion ends for before its time, by name.
	Nodes []string
}

// maxEvidence is how many pods and how many nodes of a decision are evidence: a cache that is behind shows it in each of them.
const maxEvidence = 16

// EvidenceFor returns what the caller has to be sure of before it records a status that was decided.
func EvidenceFor(o *gang.Observation, s *v1alpha1.TrainingJobStatus) Evidence {
	var e Evidence
	j := jobOf(o, &o.Job.Status)
	for i := range s.Incidents {
		if inc := &s.Incidents[i]; len(inc.Steps) > stepsOf(&o.Job.Status, inc.ID) {
			j.addReasons(&e, inc)
		}
	}
	for _, x := range o.Job.Status.ExcludedNodes {
		if x.Until.After(o.Now) && !slices.ContainsFunc(s.ExcludedNodes, func(still v1alpha1.ExcludedNode) bool { return still.Name == x.Name }) {
			for name, n := range o.Nodes {
				if name == x.Name || (x.Machine != "" && n.Machine == x.Machine) {
					e.addNode(name)
				}
			}
		}
	}
	slices.Sort(e.Nodes)
	return e
}

// stepsOf is how many steps of an incident a status has.
func stepsOf(s *v1alpha1.TrainingJobStatus, incident int32) int {
	for i := range s.Incidents {
		if s.Incidents[i].ID == incident {
			return len(s.Incidents[i].Steps)
		}
	}
	return 0
}

// addReasons adds the pods of an incident that do not work, unless they are replaced already or have ended for good.
func (j job) addReasons(e *Evidence, inc *v1alpha1.Incident) {
	gang.EachRank(j.Effective, func(r gang.Rank) {
		p := j.Pod(r)
		if p == nil || !j.Concerns(inc, r) || gang.IsStale(&j.Job.Status, p) {
			return
		}
		if !p.Ready && !p.Finished() && len(e.Pods) < maxEvidence {
			e.Pods = append(e.Pods, p)
		}
		if n, exists := j.Nodes[p.Node]; exists && !n.Ready {
			e.addNode(p.Node)
		}
	})
}

func (e *Evidence) addNode(name string) {
	if len(e.Nodes) < maxEvidence && !slices.Contains(e.Nodes, name) {
		e.Nodes = append(e.Nodes, name)
	}
}
