// Untried: pods for which the scheduler tries no node, because of their queue or of what it takes the gang's home for.

package policies

import (
	"fmt"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// inVain reports whether an action cannot help an incident: its ranks wait for a node, and the scheduler tries none for
// them, whatever is restarted and wherever. Where the gang's home is outdated, a restart of the whole gang helps.
func (w *world) inVain(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, action v1alpha1.Action) bool {
	a := rules.ActionOf(action)
	if inc.Trigger != v1alpha1.PodPending || !a.Replaces {
		return false
	}
	found := false
	all := w.everyRankOf(inc, func(r gang.Rank) bool {
		p := w.Pod(r)
		found = found || (p != nil && p.Searches())
		_, outdated := w.outdatedHome(s, r)
		return p == nil || !p.Searches() || (p.Untried && (a.Scope != rules.WholeJob || !outdated))
	})
	return found && all
}

// whyUntried says what keeps the scheduler from trying nodes for a rank.
func (w *world) whyUntried(s *v1alpha1.TrainingJobStatus, r gang.Rank) string {
	if h, outdated := w.outdatedHome(s, r); outdated {
		return fmt.Sprintf("HyperNode %s was created after the gang was placed, and Volcano is made to look again where the gang runs", h.Name)
	}
	return fmt.Sprintf("queue %s may be closed or over its share, as it is where the cluster has no room left", w.Job.Spec.Queue)
}
