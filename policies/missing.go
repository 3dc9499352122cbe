// Missing pods: which would count as deleted because they are not observed.

package policies

import (
	"slices"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/incident"
)

// MissingPods returns the names of the pods that have had a node by the status, that are not observed, and that no step of an open
// incident has restarted. Decide takes them for deleted, so that the caller has to be sure that they are not only late in its cache.
func MissingPods(o *gang.Observation) []string {
	s := &o.Job.Status
	if s.Placement == nil || gang.Finished(s) || o.Job.Spec.Suspend {
		return nil
	}
	var missing []gang.Rank
	g := gang.View(o, s)
	gang.EachRank(g.Effective, func(r gang.Rank) {
		if g.Pod(r) == nil && gang.NodeOf(s.Placement, r) != "" {
			missing = append(missing, r)
		}
	})
	if len(missing) == 0 {
		return nil
	}
	j := jobOf(o, s)
	var names []string
	for _, r := range missing {
		restarted := func(inc v1alpha1.Incident) bool {
			return inc.Outcome == "" && incident.Restarted(&inc) && j.Concerns(&inc, r)
		}
		if !slices.ContainsFunc(s.Incidents, restarted) {
			names = append(names, gang.PodNameOf(o.Job, s, r))
		}
	}
	return names
}
