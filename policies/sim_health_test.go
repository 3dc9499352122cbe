// The HealthPolicy in the simulation: how much of the job is moved for its health.

package policies

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// simMove is a move for health.
type simMove struct {
	at   time.Time
	pods int
}

// drawHealthPolicy bounds the moves of some jobs.
func (c *cluster) drawHealthPolicy() *v1alpha1.HealthPolicySpec {
	if c.one(2) {
		return nil
	}
	limit := &v1alpha1.BreakerLimit{
		Percent: int32(c.rng.IntN(60)), Count: new(int32(c.rng.IntN(3))), WindowSeconds: int32(30 + c.rng.IntN(1200)),
	}
	return &v1alpha1.HealthPolicySpec{Breaker: v1alpha1.Breaker{Job: limit}}
}

// acknowledge is somebody who says that what is held back is true; their clock may be ahead.
func (c *cluster) acknowledge() {
	if c.health == nil {
		return
	}
	policy := *c.health
	policy.Breaker.AcknowledgedTime = new(metav1.NewTime(c.now.Add(time.Duration(c.rng.IntN(3)) * time.Second).Truncate(time.Second)))
	c.health = &policy
	c.changed("somebody acknowledges up to %s", policy.Breaker.AcknowledgedTime)
}

// before is the world as the decision began with it: the job may have had another size by then.
func (r *record) before() *world {
	old := r.old.DeepCopy()
	countTasks(old, r.o.Job)
	return view(r.o, old)
}

// checkMoves counts the ranks that were moved though nothing but their health was wrong.
// What an incident has restarted before is up to its ladder.
func (r *record) checkMoves() {
	if r.o.HealthPolicy == nil {
		return
	}
	w := r.before()
	policy := healthPolicyOf(r.o.HealthPolicy, r.o.Now)
	for i := range r.s.Incidents {
		if inc := &r.s.Incidents[i]; inc.Outcome == "" && w.held(r.s, inc) {
			r.happened("moves are held back")
		}
	}
	moved, acknowledged := r.movedForHealth(w, &policy)
	if moved == 0 {
		return
	}
	r.happened("moves for health within the limit")
	sum := moved
	for _, m := range r.ledger.moves {
		if r.o.Now.Sub(m.at) < policy.moves.window && m.at.After(policy.acknowledged) {
			sum += m.pods
		}
	}
	r.ledger.moves = append(r.ledger.moves, simMove{policy.stamp(r.o.Now).Truncate(time.Second), moved})
	if acknowledged {
		r.happened("moves that were acknowledged")
		return
	}
	r.require(policy.moves.allows(sum, int(Replicas(w.job))), "7: %d ranks of %d are moved for their health", sum, Replicas(w.job))
}

// movedForHealth are the ranks whose next life a status asks for while only their health is
// ill, and whether somebody had acknowledged an incident about them.
func (r *record) movedForHealth(w *world, policy *healthPolicy) (moved int, acknowledged bool) {
	if r.s.Attempt != r.old.Attempt {
		return 0, false
	}
	eachRank(w.job, func(at rank) {
		p := w.pod(at)
		if p == nil || p.Gated || stale(r.old, p) || !stale(r.s, p) || !w.onlyIll(p) {
			return
		}
		for i := range r.s.Incidents {
			inc, was := &r.s.Incidents[i], incidentOf(r.old, r.s.Incidents[i].ID)
			if (wide(inc) || restarted(&was)) && w.concerns(inc, at) && (wide(inc) || names(&was, at)) {
				return
			}
			acknowledged = acknowledged || (w.concerns(inc, at) && !policy.acknowledged.Before(inc.StartTime.Time))
		}
		moved++
	})
	return moved, acknowledged
}

// onlyIll is true for a pod that is ready and of which nothing but its health is wrong.
func (w *world) onlyIll(p *Pod) bool {
	bare := *p
	bare.Signals = nil
	is, _ := w.eventOf(p)
	otherwise, _ := w.eventOf(&bare)
	return p.healthy() && ofHealth(is) && otherwise == ""
}
