// Back: whether a rank is back as far as an incident goes.

package incident

import (
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/instant"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// IsHealedFor reports whether nothing is left of an incident on a rank. A degraded device of its pod is an incident of its own: the next
// step of this one would not repair it. So is a failed device, where a HealthPolicy bounds such moves, except for an incident of health. A
// gang hangs until it is said not to.
func (v *View) IsHealedFor(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, r gang.Rank) bool {
	switch state := v.State(s, r); {
	case inc.Trigger == v1alpha1.Stalled && state >= gang.Impaired:
		return !gang.IsTrue(s, v1alpha1.ConditionStalled)
	case state != gang.Impaired:
		return state >= gang.Working
	}
	return !v.isIllFor(inc, v.Pod(r))
}

// isIllFor reports whether a pod has devices that an incident is about.
func (v *View) isIllFor(inc *v1alpha1.Incident, p *gang.Pod) bool {
	if p.IsIll(true) {
		return v.HealthPolicy == nil || rules.OfHealth(inc.Trigger)
	}
	return (p.IsIll(false) && inc.Trigger == v1alpha1.HealthDegraded) || (p.IsCordoned() && inc.Trigger == v1alpha1.NodeCordoned)
}

// DoubtsHang reports whether an incident is for a hang that nothing shows at present, as where a stream is down. No step is taken meanwhile.
func (v *View) DoubtsHang(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) bool {
	return inc.Trigger == v1alpha1.Stalled && !Restarted(inc) && (v.ExplainsHangs(s) || slices.ContainsFunc(v.Failures(s), v.stopsGang) || v.EveryRankOf(inc, func(r gang.Rank) bool {
		p := v.Pod(r)
		return p == nil || v.HangsBy(s, p) == gang.ActivityUnknown
	}))
}

// ExplainsHangs reports whether an incident is open that may keep the gang from its steps, and is no hang.
func (v *View) ExplainsHangs(s *v1alpha1.TrainingJobStatus) bool {
	return slices.ContainsFunc(s.Incidents, func(inc v1alpha1.Incident) bool { return inc.Outcome == "" && v.explainsHangs(&inc) })
}

// HangsExplainedUntil is when the last such incident ended, or the last checkpoint that was asked for; zero for none. One that nobody waits for any more
// may be saved all the same, until its deadline.
func (v *View) HangsExplainedUntil(s *v1alpha1.TrainingJobStatus) (at time.Time) {
	for i := range s.Incidents {
		inc := &s.Incidents[i]
		if inc.EndTime != nil && v.explainsHangs(inc) {
			at = instant.Latest(at, inc.EndTime.Time)
		}
		if c := inc.Checkpoint; c != nil && c.Outcome == v1alpha1.CheckpointCancelled {
			at = instant.Latest(at, c.Deadline.Time)
		} else if c != nil && c.EndTime != nil {
			at = instant.Latest(at, c.EndTime.Time)
		}
	}
	return at
}

// explainsHangs reports whether an incident is one that keeps a gang from its steps. A degraded device does not, except while the programs save a
// checkpoint for the move from it.
func (v *View) explainsHangs(inc *v1alpha1.Incident) bool {
	trains := rules.TrainsOn(inc.Trigger) && !Restarted(inc) && (inc.Checkpoint == nil || inc.Checkpoint.Outcome != "")
	return !trains && slices.ContainsFunc(v.TasksOf(inc), func(task string) bool { return v.stopsSteps(inc.Trigger, task) })
}

// stopsGang reports whether a failure keeps a gang from its steps.
func (v *View) stopsGang(f rules.Failure) bool {
	return !rules.TrainsOn(f.Event) && v.stopsSteps(f.Event, f.Rank.Task)
}

// stopsSteps reports whether an event of a rank of a task stops a gang. That of an independent rank does not, nor does a replica beyond the gang that
// has yet to find a node: a gang that lacks one that it needs does not run.
func (v *View) stopsSteps(event v1alpha1.EventType, task string) bool {
	return event != v1alpha1.Stalled && event != v1alpha1.PodPending && !v.IsIndependent(task)
}
