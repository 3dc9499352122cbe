// Decide: from one observation to the status that the job should have.

package policies

import (
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/instant"
	"github.com/lockstep-dev/lockstep/policies/recovery"
)

// Decision is what Decide found.
type Decision struct {
	// Status that the job should have. It equals the present one where nothing is to be done.
	Status v1alpha1.TrainingJobStatus
	// Next is when to look again even if nothing changes; zero for never.
	Next time.Time
	// Delete reports whether the job has outlived its ttlSecondsAfterFinished.
	Delete bool
	// Lacking reports whether the gang lacks pods that Volcano should make.
	Lacking bool
}

// Decide computes the status that a job should have.
func Decide(o *gang.Observation) Decision {
	s := o.Job.Status.DeepCopy()
	countTasks(s, o.Job)
	j := jobOf(o, s)
	j.count(s)
	was := j
	next := j.live(s)
	j = jobOf(o, s) // it may have another attempt or another size by now
	j.count(s)
	next = instant.Earliest(next, j.hold(s), j.nextBinding(s), j.deadline(s), j.nextDeletion(s), j.nextSync(s), j.nextRefresh(s), j.NextWindowEnd(s))
	expiry := j.expiry(s)
	j.describe(s)
	j.account(s)
	was.endEpoch(s) // of the attempt and the size that the job had
	next = instant.Earliest(next, j.progress(s), j.nextStall(s), j.nextStraggler(s), j.sparesHeardBy(), j.nextProtection())
	return Decision{
		Status: *s, Next: instant.Earliest(next, expiry), Delete: !expiry.IsZero() && !expiry.After(o.Now), Lacking: j.lacksPods(s),
	}
}

// live takes the job one step through its lifecycle, and returns when the next one is due.
func (j job) live(s *v1alpha1.TrainingJobStatus) time.Time {
	engine := recovery.Engine{View: j.View}
	switch {
	case gang.Finished(s):
	case j.success(s):
		engine.Complete(s)
	case j.overdue(s):
		engine.Fail(s, v1alpha1.ReasonDeadlineExceeded, "the job was active for longer than activeDeadlineSeconds")
	case j.Job.Spec.Suspend:
		engine.Suspend(s)
	case j.forgottenForGood(s):
		gang.NextAttempt(s)
	default:
		next := engine.Run(s)
		if !gang.Finished(s) {
			next = instant.Earliest(next, j.nextChange(s))
		}
		return next
	}
	return time.Time{}
}

// nextChange is when something that is seen now will count for something else, only because time has passed.
func (j job) nextChange(s *v1alpha1.TrainingJobStatus) time.Time {
	return instant.Earliest(
		j.VictimsDue(s), j.NextGangCheck(s), j.NextReadyCheck(), j.nextSchedulingDeadline(s), j.NextStartCheck(s), j.NextLateCheck(s), j.Places(s).NextYoungerCheck(),
	)
}
