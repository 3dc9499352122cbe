// Health moves: how much of one job may be moved at once for the health of what it uses.
// What has failed by itself is no move: it is restarted whatever the limit.

package policies

import (
	"fmt"
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/healthpolicy"
	"github.com/lockstep-dev/lockstep/policies/instant"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// maxHealthMoves is how many moves are remembered one by one: the API's limit.
const maxHealthMoves = 32

// subjectToBreaker reports whether the breaker of the job bounds an incident: it is of health alone, and has moved nothing yet.
func (w *world) subjectToBreaker(inc *v1alpha1.Incident) bool {
	return w.HealthPolicy != nil && rules.OfHealth(inc.Trigger) && !restarted(inc)
}

// breakerQuestion is an incident that may be held back, as it was when that was asked: each of its
// ranks asks, and to answer means to look at all of them.
type breakerQuestion struct {
	incident, pods int32
	trigger        v1alpha1.EventType
}

// waitsForBreaker reports whether the breaker of the job keeps an incident from moving its pods now.
func (w *world) waitsForBreaker(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) bool {
	if !w.subjectToBreaker(inc) {
		return false
	}
	key := breakerQuestion{inc.ID, inc.PodCount, inc.Trigger}
	held, known := w.breakerAnswers[key]
	if !known {
		held = w.breakerUntil(s, inc).After(w.Now)
		if w.breakerAnswers == nil {
			w.breakerAnswers = map[breakerQuestion]bool{}
		}
		w.breakerAnswers[key] = held
	}
	return held
}

// someWaitsForBreaker reports whether an incident about a rank waits for the breaker of the job.
func (w *world) someWaitsForBreaker(s *v1alpha1.TrainingJobStatus, r gang.Rank) bool {
	return slices.ContainsFunc(s.Incidents, func(inc v1alpha1.Incident) bool {
		return inc.Outcome == "" && w.concerns(&inc, r) && w.waitsForBreaker(s, &inc)
	})
}

// departed reports whether each pod that an incident names is gone, and with it what was ill: the next
// one of its rank is placed elsewhere, and waits for nobody's acknowledgement.
func (w *world) departed(inc *v1alpha1.Incident) bool {
	return !unnamed(inc) && !slices.ContainsFunc(inc.Pods, func(named v1alpha1.IncidentPod) bool {
		p := w.Pod(gang.Rank{Task: named.Task, Index: named.Index})
		return p != nil && p.UID == named.UID
	})
}

// apart reports whether a failure must not join an incident.
func (w *world) apart(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, f rules.Failure) bool {
	if rules.OfHealth(f.Event) { // with what moves already it would be moved uncounted
		return w.HealthPolicy != nil && !w.subjectToBreaker(inc)
	}
	return w.waitsForBreaker(s, inc) // what fails by itself would be held back with the rest
}

// breakerUntil is before when an incident must not move its pods, because too many of the job
// were moved of late; zero where it may. Where it is too large for the limit at any time, only
// an acknowledgement helps.
func (w *world) breakerUntil(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) time.Time {
	if !w.subjectToBreaker(inc) {
		return time.Time{}
	}
	policy := healthpolicy.Of(w.HealthPolicy, w.Now)
	if !policy.Acknowledged.Before(inc.StartTime.Time) {
		return time.Time{}
	}
	limit, size, n := policy.Moves, int(gang.Replicas(w.Effective)), w.toMove(s, inc)
	if !limit.Allows(n, size) {
		return instant.Earliest(w.Now.Add(limit.Window), policy.Acknowledges)
	}
	until := time.Time{}
	for moves := w.recentMoves(s, &policy); len(moves) > 0 && !limit.Allows(movedPods(moves)+n, size); moves = moves[1:] {
		until = moves[0].Time.Add(limit.Window)
	}
	if until.IsZero() {
		return until
	}
	return instant.Earliest(until, policy.Acknowledges)
}

// recentMoves are those within the window that nobody has acknowledged.
func (w *world) recentMoves(s *v1alpha1.TrainingJobStatus, policy *healthpolicy.Policy) []v1alpha1.HealthMove {
	return slices.DeleteFunc(slices.Clone(s.Restarts.HealthMoves), func(m v1alpha1.HealthMove) bool {
		return w.Now.Sub(m.Time.Time) >= policy.Moves.Window || !m.Time.After(policy.Acknowledged)
	})
}

// toMove is how many ranks an incident would move.
func (w *world) toMove(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) int {
	n := 0
	w.everyRankOf(inc, func(r gang.Rank) bool {
		if !w.backFor(s, inc, r) {
			n++
		}
		return true
	})
	return n
}

func movedPods(moves []v1alpha1.HealthMove) int {
	n := 0
	for _, m := range moves {
		n += int(m.Pods)
	}
	return n
}

// noteMove remembers what an incident is about to move.
func (w *world) noteMove(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) {
	if !w.subjectToBreaker(inc) {
		return
	}
	policy := healthpolicy.Of(w.HealthPolicy, w.Now)
	moves := append(w.recentMoves(s, &policy), v1alpha1.HealthMove{Time: policy.Stamp(w.Now), Pods: int32(w.toMove(s, inc))})
	if over := len(moves) - maxHealthMoves; over > 0 {
		moves[over].Pods += int32(movedPods(moves[:over])) // they count for longer, and none is forgotten
		moves = moves[over:]
	}
	s.Restarts.HealthMoves = moves
}

// breakerStory says why an incident has to wait for its turn.
func (w *world) breakerStory(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) string {
	policy := healthpolicy.Of(w.HealthPolicy, w.Now)
	return fmt.Sprintf(", held back by the breaker: to move %d of %d pods for their health, after %d within %s, is more than spec.breaker.job of the HealthPolicy allows",
		w.toMove(s, inc), gang.Replicas(w.Effective), movedPods(w.recentMoves(s, &policy)), policy.Moves.Window)
}
