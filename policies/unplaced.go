// Unplaced: what keeps the scheduler from finding nodes for pods, told to people.

package policies

import (
	"slices"
	"strings"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/placement"
)

// unplacedStory says why the scheduler finds no nodes for the gang; empty where it has not looked for long enough, or says nothing.
func (w *world) unplacedStory(s *v1alpha1.TrainingJobStatus) string {
	told, looks := "", false
	gang.EachRank(w.Effective, func(r gang.Rank) {
		p := w.Pod(r)
		if p == nil || !p.Searches() || gang.IsStale(s, p) || placement.NoRoomToldAt(p).After(w.Now) {
			return
		}
		looks = true
		if p.Untried && told == "" {
			told = "the scheduler tries no node for them: " + w.whyUntried(s, r)
		}
	})
	if looks && len(w.FitErrors) > 0 {
		return "no node fits: " + strings.Join(w.FitErrors, ", ")
	}
	return told
}

// HeldByOthers is the one reason among FitErrors for all holds of other jobs.
const HeldByOthers = "node(s) are held by other TrainingJobs"

// lacksRoom reports whether what pods lack is room, as far as the scheduler says: resources, or nodes that no other job holds. That
// nodes are not those to which a pod is confined tells nothing.
func (w *world) lacksRoom() bool {
	return !slices.ContainsFunc(w.FitErrors, func(reason string) bool {
		room := strings.HasPrefix(reason, "Insufficient ") || strings.Contains(reason, "pod number exceeded") || reason == HeldByOthers
		return !room && !strings.Contains(reason, "didn't match Pod's node affinity")
	})
}
