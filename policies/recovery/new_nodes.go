// New nodes: ranks that wait for room are restarted when a node comes to which only a new pod may go.

package recovery

import (
	"slices"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// useNewNodes restarts the ranks that wait for room while there is a good node for them to which their pods may not go,
// because it joined home later, was ill or excluded when the gate was lifted, or is their own and is back. Where a pod may
// go is fixed then. The next pod of a rank may go to that node, too, so that none is restarted twice for it.
func (e Engine) useNewNodes(s *v1alpha1.TrainingJobStatus) {
	if s.Placement == nil {
		return
	}
	m := e.Rooms(s)
	var pins []string // of the rank before: ranks that were let go together share them
	pinned := map[string]bool{}
	gang.EachRank(e.Effective, func(r gang.Rank) {
		p, home := e.Pod(r), e.Places(s).HomeOf(r)
		if p == nil || !p.Searches() || p.Pins == nil || home == "" {
			return
		}
		if !slices.Equal(pins, p.Pins) {
			pins, pinned = p.Pins, map[string]bool{}
			for _, hostname := range pins {
				pinned[hostname] = true
			}
		}
		if m.HasNew(r, home, pinned) {
			e.restartUnscheduled(s, r)
		}
	})
}
