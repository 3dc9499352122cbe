// Decide: from one observation to the status that the job should have.

package policies

import (
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/instant"
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
	w := view(o, s)
	w.count(s)
	next := w.live(s)
	w = view(o, s) // it may have another attempt or another size by now
	w.count(s)
	next = instant.Earliest(next, w.hold(s))
	next = instant.Earliest(next, w.nextBinding(s))
	next = instant.Earliest(next, w.deadline(s))
	next = instant.Earliest(next, w.nextForceDelete(s))
	next = instant.Earliest(next, w.nextSync(s))
	next = instant.Earliest(next, w.nextRefresh(s))
	next = instant.Earliest(next, w.nextWindowEnd(s))
	expiry := w.expiry(s)
	w.describe(s)
	return Decision{
		Status: *s, Next: instant.Earliest(next, expiry), Delete: !expiry.IsZero() && !expiry.After(o.Now), Lacking: w.lacksPods(s),
	}
}

// live takes the job one step through its life, and returns when the next one is due.
func (w *world) live(s *v1alpha1.TrainingJobStatus) time.Time {
	switch {
	case Finished(s):
	case w.success(s):
		w.complete(s)
	case w.overdue(s):
		w.fail(s, v1alpha1.ReasonDeadlineExceeded, "the job was active for longer than activeDeadlineSeconds")
	case w.Job.Spec.Suspend:
		w.suspend(s)
	default:
		return w.run(s)
	}
	return time.Time{}
}

// run decides for a job that should be running.
func (w *world) run(s *v1alpha1.TrainingJobStatus) time.Time {
	w.begin(s)
	w.NoteCompleted(s)
	w.place(s)
	w.noteDeletedVolcanoJob(s)
	w.noteFailures(s)
	w.noteEndedVolcanoJob(s)
	if w.closeRecovered(s) {
		w.noteFailures(s) // what is left of a pod that is back, such as a device that is degraded
	}
	next := w.takeDueSteps(s)
	if Finished(s) {
		return time.Time{}
	}
	forget(s)
	w.liftOldestExclusion(s)
	w.adoptSpares(s)
	w.useNewNodes(s)
	next = instant.Earliest(next, instant.Earliest(w.victimsDue(s), w.nextGangCheck(s)))
	next = instant.Earliest(next, w.NextReadyCheck())
	next = instant.Earliest(next, instant.Earliest(w.nextSchedulingDeadline(s), w.NextStartCheck(s)))
	next = instant.Earliest(next, w.places(s).NextYoungerCheck())
	return instant.Earliest(next, w.liftExclusions(s))
}
