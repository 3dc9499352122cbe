// Unplaced: what keeps the scheduler from finding nodes for pods, told to people.

package policies

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// unplacedStory says why the scheduler finds no nodes for the gang; empty where it has not looked for long enough, or says nothing.
// It names no pod: which ones of several lack room differs from round to round.
func (w *world) unplacedStory(s *v1alpha1.TrainingJobStatus) string {
	told := ""
	eachRank(w.job, func(r rank) {
		p := w.pod(r)
		if told != "" || p == nil || !p.searches() || stale(s, p) || noRoomToldAt(p).After(w.Now) {
			return
		}
		switch {
		case p.Untried:
			told = "the scheduler tries no node for them: " + w.whyUntried(s, r)
		case len(p.FitErrors) > 0:
			told = fmt.Sprintf("no node fits the pods of task %s: %s", r.task, strings.Join(p.FitErrors, ", "))
		}
	})
	return told
}

// lacksRoom reports whether what a pod lacks is room, as far as the scheduler says: resources, or a node that nobody holds.
func (p *Pod) lacksRoom() bool {
	return len(p.FitErrors) == 0 || slices.ContainsFunc(p.FitErrors, func(reason string) bool {
		return strings.HasPrefix(reason, "Insufficient ") || reason == "Too many pods" || strings.Contains(reason, v1alpha1.HoldTaintPrefix)
	})
}
