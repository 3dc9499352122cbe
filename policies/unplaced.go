// Unplaced: what keeps the scheduler from finding nodes for pods, told to people.

package policies

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/instant"
	"github.com/lockstep-dev/lockstep/policies/placement"
)

// unplacedStory says why the scheduler finds no nodes for the gang; empty where it has not looked for long enough, or says nothing.
func (j job) unplacedStory(s *v1alpha1.TrainingJobStatus) string {
	told, looks := "", false
	gang.EachRank(j.Effective, func(r gang.Rank) {
		p := j.Pod(r)
		if p == nil || !p.Searches() || gang.IsStale(s, p) || placement.NoRoomToldAt(p).After(j.Now) {
			return
		}
		looks = true
		if p.Untried && told == "" {
			told = "the scheduler tries no node for them: " + j.whyUntried(s, r)
		}
	})
	if looks && len(j.FitErrors) > 0 {
		return "no node fits: " + strings.Join(j.FitErrors, ", ")
	}
	return told
}

// HeldByOthers is the one reason among FitErrors for all holds of other jobs.
const HeldByOthers = "node(s) are held by other TrainingJobs"

// lacksRoom reports whether what pods lack is room, as far as the scheduler says: resources, or nodes that no other job holds. That
// nodes are not those to which a pod is confined tells nothing.
func (j job) lacksRoom() bool {
	return !slices.ContainsFunc(j.FitErrors, func(reason string) bool {
		room := strings.HasPrefix(reason, "Insufficient ") || strings.Contains(reason, "pod number exceeded") || reason == HeldByOthers
		return !room && !strings.Contains(reason, "didn't match Pod's node affinity")
	})
}

// whyUntried says what keeps the scheduler from trying nodes for a rank.
func (j job) whyUntried(s *v1alpha1.TrainingJobStatus, r gang.Rank) string {
	if h, outdated := j.OutdatedHome(s, r); outdated {
		return fmt.Sprintf("HyperNode %s was created after the gang was placed, and Volcano is made to look again where the gang runs", h.Name)
	}
	if j.QueueClosed {
		return fmt.Sprintf("queue %s is closed", j.Job.Spec.Queue)
	}
	return fmt.Sprintf("queue %s may be over its share, which `kubectl lockstep why` compares with its limits", j.Job.Spec.Queue)
}

// nextSchedulingDeadline returns when the next pod will have waited for a node for long enough: for people to be told, or for
// an incident.
func (j job) nextSchedulingDeadline(s *v1alpha1.TrainingJobStatus) time.Time {
	var next time.Time
	m := j.Rooms(s)
	gang.EachRank(j.Effective, func(r gang.Rank) {
		if p := j.Pod(r); p != nil && p.Node == "" {
			for _, at := range []time.Time{placement.NoRoomToldAt(p), m.PendingAt(p), m.LacksRoomAt(p)} {
				if at.After(j.Now) {
					next = instant.Earliest(next, at)
				}
			}
		}
	})
	return next
}
