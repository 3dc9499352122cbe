// Health moves: how much of one job may be moved at once for the health of what it uses.
// What has failed by itself is no move: it is restarted whatever the limit.

package policies

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// maxHealthMoves is how many moves are remembered one by one: the API's limit.
const maxHealthMoves = 32

// heldUntil is before when an incident must not move its pods, because too many of the job
// were moved of late; zero where it may. Where it is too large for the limit at any time, only
// an acknowledgement helps.
func (w *world) heldUntil(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) time.Time {
	if w.HealthPolicy == nil || !ofHealth(inc.Trigger) || restarted(inc) {
		return time.Time{}
	}
	policy := healthPolicyOf(w.HealthPolicy)
	if !policy.acknowledged.Before(inc.StartTime.Time) {
		return time.Time{}
	}
	limit, size, n := policy.moves, int(Replicas(w.job)), w.toMove(s, inc)
	if !limit.allows(n, size) {
		return w.Now.Add(limit.window)
	}
	moves := slices.Clone(s.Restarts.HealthMoves)
	moves = slices.DeleteFunc(moves, func(m v1alpha1.HealthMove) bool {
		return w.Now.Sub(m.Time.Time) >= limit.window || !m.Time.After(policy.acknowledged)
	})
	until := time.Time{}
	for len(moves) > 0 && !limit.allows(movedPods(moves)+n, size) {
		until = moves[0].Time.Add(limit.window)
		moves = moves[1:]
	}
	return until
}

// toMove is how many ranks an incident would move.
func (w *world) toMove(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) int {
	n := 0
	w.everyRankOf(inc, func(r rank) bool {
		if !w.inPlace(s, r) {
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
	if w.HealthPolicy == nil || !ofHealth(inc.Trigger) || restarted(inc) {
		return
	}
	window := healthPolicyOf(w.HealthPolicy).moves.window
	moves := slices.DeleteFunc(s.Restarts.HealthMoves, func(m v1alpha1.HealthMove) bool { return w.Now.Sub(m.Time.Time) >= window })
	moves = append(moves, v1alpha1.HealthMove{Time: metav1.NewTime(w.Now), Pods: int32(w.toMove(s, inc))})
	if over := len(moves) - maxHealthMoves; over > 0 {
		moves[over].Pods += int32(movedPods(moves[:over])) // they count for longer, and none is forgotten
		moves = moves[over:]
	}
	s.Restarts.HealthMoves = moves
}

// ofHealth is true for what is reported of a pod that has not failed by itself.
func ofHealth(e v1alpha1.EventType) bool {
	return e == v1alpha1.HealthDegraded || e == v1alpha1.HealthFailed
}

// heldBackBy says why an incident has to wait for its turn.
func (w *world) heldBackBy(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) string {
	limit := healthPolicyOf(w.HealthPolicy).moves
	return fmt.Sprintf(", held back by the breaker: to move %d of %d pods for their health, after %d within %s, is more than spec.breaker.job of the HealthPolicy allows",
		w.toMove(s, inc), Replicas(w.job), movedPods(s.Restarts.HealthMoves), limit.window)
}
