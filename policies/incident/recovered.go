// Recovered: when an incident is over, well or not.

package incident

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/instant"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// Recovered reports whether all that an incident concerns is in place again. Where it
// concerns more than the ranks that failed in it, that is every rank that had a place: replicas
// beyond minAvailable may still be waiting for their first.
func (v *View) Recovered(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) bool {
	if inc.Trigger == v1alpha1.PodPending && !concernsOthers(inc) {
		return v.EveryRankOf(inc, func(r gang.Rank) bool { return v.State(s, r) > gang.Unbound })
	}
	return !v.waitsForVictims(s, inc) && v.RanksBack(s, inc)
}

// RanksBack reports whether the ranks of an incident, its victims apart, are in place again.
func (v *View) RanksBack(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) bool {
	if v.awaitsOpening(inc) || v.awaitsRun(s, inc) {
		return false
	}
	if !concernsOthers(inc) {
		return v.EveryRankOf(inc, func(r gang.Rank) bool { return v.IsHealedFor(s, inc, r) })
	}
	return s.Placement != nil && v.EveryRankOf(inc, func(r gang.Rank) bool {
		return v.IsHealedFor(s, inc, r) || (gang.NodeOf(s.Placement, r) == "" && v.PartitionOf(r) < 0 && !Names(inc, r))
	})
}

// awaitsRun reports whether an incident has begun the present epoch of the gang, and some rank has yet to run in it. That holds although its own
// ranks may have ended well, or been given up.
func (v *View) awaitsRun(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) bool {
	return inc.Epoch > 0 && inc.Epoch == s.Epoch && v.Gathers(s)
}

// awaitsOpening reports whether an incident has yet to take the step that comes before those of its rule. Until then its ranks may
// all be well.
func (v *View) awaitsOpening(inc *v1alpha1.Incident) bool {
	switch {
	case Restarted(inc):
		return false
	case rules.OfJob(inc.Trigger):
		return AwaitsVolcanoJob(inc) || v.VolcanoJob == nil || v.VolcanoJob.Ended
	}
	return Requested(inc) && (len(inc.Steps) == 0 || !v.DryRun)
}

// LastPlaced returns when the gate of the last replacement of an incident was lifted, and when the last one was bound; nil where
// none was needed.
func (v *View) LastPlaced(inc *v1alpha1.Incident) (placed, bound *metav1.MicroTime) {
	var lifted, got time.Time
	v.EveryRankOf(inc, func(r gang.Rank) bool {
		if p := v.Pod(r); p != nil && !p.PlacedTime.Before(inc.StartTime.Time) {
			lifted, got = instant.Latest(lifted, p.PlacedTime), instant.Latest(got, p.BoundSince())
		}
		return true
	})
	if lifted.IsZero() {
		return nil, nil
	}
	return new(metav1.NewMicroTime(lifted)), new(metav1.NewMicroTime(got))
}

// Departed reports whether nothing is left of what was ill in an incident: each pod that failed in it is gone, so that the next one of
// its rank is placed elsewhere, or its devices are well again. What still keeps its ranks down is a failure of its own, and waits for
// nobody's acknowledgement.
func (v *View) Departed(inc *v1alpha1.Incident) bool {
	if Unnamed(inc) {
		return false
	}
	gone := true
	v.eachFailed(inc, func(r gang.Rank) {
		p := v.Pod(r)
		gone = gone && (p == nil || !v.failedIn(inc, p) || !p.IsIll(true) && !p.IsIll(false))
	})
	return gone
}

// FailsAfterLastStep reports whether a rank that an incident has restarted has failed again, and the incident has no step left for it. The
// ladder then begins again, as a new incident that is charged again. ShrinkTask leaves a broken pod as it was, which is no new failure. In a
// dry run steps are only recorded, and what the incident did before goes on.
func (v *View) FailsAfterLastStep(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, f rules.Failure) bool {
	if v.DryRun || !Restarted(inc) || f.UID == "" || f.InPlace() || rules.OfWaiting(f.Event) {
		return false
	}
	if rules.TrainsOn(f.Event) && inc.Trigger != f.Event {
		return false // it is an incident of its own, which begins once this one is over
	}
	last := rules.ActionOf(inc.Steps[len(inc.Steps)-1].Action)
	lost := last.Rejoins && (rules.OfNode(f.Event) || v.isStuckIn(s, inc, f)) // no start of programs brings it back
	if p := v.Pod(f.Rank); last.Scope == rules.BrokenPods && !last.Replaces && !lost && p != nil && v.failedIn(inc, p) {
		return false
	}
	_, left := v.nextRung(s, inc)
	return !left
}

// isStuckIn reports whether a program that is heard cannot be stopped for a restart that something else was the reason for. Where the ranks hung by the same, as by
// a file system that they share, and none of them can be stopped, they may go on once that answers.
func (v *View) isStuckIn(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, f rules.Failure) bool {
	p := v.Pod(f.Rank)
	if f.Event != v1alpha1.ProcessStuck || inc.Trigger == v1alpha1.ProcessStuck || p == nil || p.Process == nil {
		return false
	}
	return inc.Cause.Pod != "" || !v.EveryRankOf(inc, func(r gang.Rank) bool { p := v.Pod(r); return p != nil && v.isLate(s, p) })
}
