// The breaker of a job: how much of it may be moved at once for the health of what it uses. What has failed by itself is no
// move: it is restarted whatever the limit.

package incident

import (
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/healthpolicy"
	"github.com/lockstep-dev/lockstep/policies/instant"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// SubjectToBreaker reports whether the breaker of the job bounds an incident: it is of health alone, and has moved nothing yet.
func (v *View) SubjectToBreaker(inc *v1alpha1.Incident) bool {
	return v.HealthPolicy != nil && rules.OfHealth(inc.Trigger) && !Restarted(inc)
}

// WaitsForBreaker reports whether the breaker of the job keeps an incident from moving its pods now.
func (v *View) WaitsForBreaker(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) bool {
	if !v.SubjectToBreaker(inc) {
		return false
	}
	key := breakerQuestion{inc.ID, inc.PodCount, inc.Trigger}
	held, known := v.breakerAnswers[key]
	if !known {
		held = v.BreakerUntil(s, inc).After(v.Now)
		if v.breakerAnswers == nil {
			v.breakerAnswers = map[breakerQuestion]bool{}
		}
		v.breakerAnswers[key] = held
	}
	return held
}

// someWaitsForBreaker reports whether an incident about a rank waits for the breaker of the job.
func (v *View) someWaitsForBreaker(s *v1alpha1.TrainingJobStatus, r gang.Rank) bool {
	return slices.ContainsFunc(s.Incidents, func(inc v1alpha1.Incident) bool {
		return inc.Outcome == "" && v.Concerns(&inc, r) && v.WaitsForBreaker(s, &inc)
	})
}

// BreakerUntil returns until when the breaker keeps an incident from moving its pods, because too many of the job were moved of
// late; zero if it may. Where the incident is too large for the limit at any time, only an acknowledgement helps.
func (v *View) BreakerUntil(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) time.Time {
	if !v.SubjectToBreaker(inc) {
		return time.Time{}
	}
	policy := healthpolicy.Of(v.HealthPolicy, v.Now)
	if !policy.Acknowledged.Before(inc.StartTime.Time) {
		return time.Time{}
	}
	limit, size, n := policy.Moves, int(gang.Replicas(v.Effective)), v.ToMove(s, inc)
	if !limit.Allows(n, size) {
		return instant.Earliest(v.Now.Add(limit.Window), policy.Acknowledges)
	}
	until := time.Time{}
	for moves := v.RecentMoves(s, &policy); len(moves) > 0 && !limit.Allows(MovedPods(moves)+n, size); moves = moves[1:] {
		until = moves[0].Time.Add(limit.Window)
	}
	if until.IsZero() {
		return until
	}
	return instant.Earliest(until, policy.Acknowledges)
}

// RecentMoves are those within the window that nobody has acknowledged.
func (v *View) RecentMoves(s *v1alpha1.TrainingJobStatus, policy *healthpolicy.Policy) []v1alpha1.HealthMove {
	return slices.DeleteFunc(slices.Clone(s.Restarts.HealthMoves), func(m v1alpha1.HealthMove) bool {
		return v.Now.Sub(m.Time.Time) >= policy.Moves.Window || !m.Time.After(policy.Acknowledged)
	})
}

// ToMove is how many ranks an incident would move.
func (v *View) ToMove(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) int {
	n := 0
	v.EveryRankOf(inc, func(r gang.Rank) bool {
		if !v.IsHealedFor(s, inc, r) {
			n++
		}
		return true
	})
	return n
}

// MovedPods is how many pods some moves moved.
func MovedPods(moves []v1alpha1.HealthMove) int {
	n := 0
	for _, m := range moves {
		n += int(m.Pods)
	}
	return n
}
