package simulation

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// breaker is how many ranks of a job may be moved for their health within a window.
type breaker struct {
	percent, count int
	window         time.Duration
	acknowledged   time.Time // what was held back up to then may go on
}

// breakerOf is the limit of a HealthPolicy, as its API comments document it.
func breakerOf(p *v1alpha1.HealthPolicySpec, now time.Time) breaker {
	limit := p.Breaker.Job
	b := breaker{percent: int(limit.Percent), count: int(ptr.Deref(limit.Count, 1)), window: seconds(limit.WindowSeconds)}
	if at := p.Breaker.AcknowledgedTime; at != nil && !at.After(now) {
		b.acknowledged = at.Time
	}
	return b
}

func (b *breaker) allows(n, size int) bool {
	return b.percent >= 100 || n <= b.count || n*100 <= b.percent*size
}

// checkMoves counts the ranks that were moved though nothing but their health was wrong. What an incident has
// restarted before is up to its ladder.
func (r *record) checkMoves() {
	if r.o.HealthPolicy == nil {
		return
	}
	b := breakerOf(r.o.HealthPolicy, r.o.Now)
	for i := range r.s.Incidents {
		if r.isHeldBack(&r.s.Incidents[i]) {
			r.happened("moves are held back")
		}
	}
	moved, acknowledged := r.movedForHealth(&b)
	if moved == 0 {
		return
	}
	r.happened("moves for health within the limit")
	sum := moved
	for _, m := range r.ledger.moves {
		if r.o.Now.Sub(m.at) < b.window && m.at.After(b.acknowledged) {
			sum += m.pods
		}
	}
	at := r.o.Now
	if earliest := b.acknowledged.Add(time.Second); earliest.After(at) {
		at = earliest // a move after the acknowledgement is later than it, to the second too
	}
	r.ledger.moves = append(r.ledger.moves, healthMove{at.Truncate(time.Second), moved})
	if acknowledged {
		r.happened("moves that were acknowledged")
		return
	}
	size := len(r.ranksBefore())
	r.require(Breaker, b.allows(sum, size), "%d ranks of %d are moved for their health", sum, size)
}

// ranksBefore are the ranks that the job had before this record, at the size that its user asks for now: a task
// whose replicas were changed is not shrunk any more.
func (r *record) ranksBefore() []rank {
	var out []rank
	for i := range r.o.Job.Spec.Tasks {
		task := &r.o.Job.Spec.Tasks[i]
		was, n := taskStatus(r.old, task.Name), task.Replicas
		if was.Replicas+was.Shrunk == task.Replicas && n-was.Shrunk >= ptr.Deref(task.MinReplicas, n) {
			n -= was.Shrunk
		}
		for index := range n {
			out = append(out, rank{task.Name, index})
		}
	}
	return out
}

// isHeldBack reports whether an incident of health alone has not taken the step that was due a minute ago.
func (r *record) isHeldBack(inc *v1alpha1.Incident) bool {
	if inc.Outcome != "" || !isHealth(inc.Trigger) || len(inc.Steps) > 0 || inc.Checkpoint != nil || r.dryRun {
		return false
	}
	steps := ruleOf(r.o.Job, inc).Steps
	return len(steps) > 0 && r.o.Now.After(inc.StartTime.Add(seconds(steps[0].AfterSeconds)).Add(time.Minute))
}

// movedForHealth counts the ranks that a status replaces while only their health is bad, and reports whether
// somebody had acknowledged an incident about them.
func (r *record) movedForHealth(b *breaker) (moved int, acknowledged bool) {
	if r.s.Attempt != r.old.Attempt {
		return 0, false
	}
	for _, of := range r.ranksBefore() {
		p := r.seen(of)
		if p == nil || p.Gated || replaced(r.old, p) || !replaced(r.s, p) || !r.onlyIll(p) || r.ladderMoves(of) {
			continue
		}
		for i := range r.s.Incidents {
			inc := &r.s.Incidents[i]
			acknowledged = acknowledged || (concerns(r.o.Job, inc, of) && !b.acknowledged.Before(inc.StartTime.Time))
		}
		moved++
	}
	return moved, acknowledged
}

// ladderMoves reports whether a rank is in the scope of an incident that had restarted it before, that a user has asked for, as for a drain, or
// that concerns more than the pods that it names.
func (r *record) ladderMoves(of rank) bool {
	for i := range r.s.Incidents {
		inc, was := &r.s.Incidents[i], incidentOf(r.old, r.s.Incidents[i].ID)
		if !concerns(r.o.Job, inc, of) {
			continue
		}
		asked := inc.Trigger == v1alpha1.RestartRequested || inc.Trigger == v1alpha1.NodeCordoned
		if concernsMore(inc) || (asked && namesRank(inc, of)) || (hasRestarted(&was) && namesRank(&was, of)) {
			return true
		}
	}
	return false
}

// onlyIll reports whether a pod is ready, on a node that is, and nothing but its signals is wrong.
func (r *record) onlyIll(p *gang.Pod) bool {
	return p.Phase == corev1.PodRunning && p.Ready && !p.Deleting && p.Disrupted == "" && r.o.Nodes[p.Node].Ready && len(p.Signals) > 0 && !r.isAway(r.old, p)
}
