// Moves for health: a job remembers them, so that the breaker can count them.

package recovery

import (
	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/healthpolicy"
	"github.com/lockstep-dev/lockstep/policies/incident"
)

// maxHealthMoves is how many moves are remembered one by one: the API's limit.
const maxHealthMoves = 32

// noteMove remembers what an incident is about to move.
func (e Engine) noteMove(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) {
	if !e.SubjectToBreaker(inc) {
		return
	}
	policy := healthpolicy.Of(e.HealthPolicy, e.Now)
	moves := append(e.RecentMoves(s, &policy), v1alpha1.HealthMove{Time: policy.Stamp(e.Now), Pods: int32(e.ToMove(s, inc))})
	if over := len(moves) - maxHealthMoves; over > 0 {
		moves[over].Pods += int32(incident.MovedPods(moves[:over])) // they count for longer, and none is forgotten
		moves = moves[over:]
	}
	s.Restarts.HealthMoves = moves
}
