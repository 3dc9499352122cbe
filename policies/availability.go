// Availability: for how long the gang is ready, and what it loses the rest of its time to.

package policies

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// account records when the gang stops, goes on, and ends. It follows describe, because a gang runs while the condition Running is
// True. The passing of time alone changes nothing.
func (j job) account(s *v1alpha1.TrainingJobStatus) {
	a, runs := s.Availability, gang.IsTrue(s, v1alpha1.ConditionRunning)
	switch {
	case a == nil:
		if runs {
			s.Availability = &v1alpha1.Availability{StartTime: metav1.NewMicroTime(j.Now)}
		}
	case a.EndTime != nil:
	case gang.Finished(s):
		endInterruption(a, j.Now)
		a.EndTime = new(metav1.NewMicroTime(j.Now))
	case runs:
		endInterruption(a, j.Now)
	case j.Job.Spec.Suspend:
		if !isSuspended(a) {
			endInterruption(a, j.Now)
			a.Interruption = &v1alpha1.Interruption{StartTime: metav1.NewMicroTime(j.Now), Cause: v1alpha1.CauseSuspended}
		}
	default:
		j.interrupt(s)
	}
}

// interrupt records that the gang is not ready, and why. An interruption has the cause that it began with; of its incident, the
// trigger as it is by now.
func (j job) interrupt(s *v1alpha1.TrainingJobStatus) {
	a := s.Availability
	if a.Interruption == nil || isSuspended(a) {
		cause := v1alpha1.CauseNoIncident
		switch {
		case isSuspended(a):
			cause = v1alpha1.InterruptionCause(v1alpha1.JobResumed)
		case j.grows(s):
			cause = v1alpha1.CauseResized
		}
		endInterruption(a, j.Now)
		a.Interruption = &v1alpha1.Interruption{StartTime: metav1.NewMicroTime(j.Now), Cause: cause}
	}
	i := a.Interruption
	if i.Cause == v1alpha1.CauseNoIncident {
		if inc := j.Interrupting(s); inc != nil {
			i.Incident = inc.ID
		}
	}
	for _, inc := range s.Incidents {
		if inc.ID == i.Incident {
			i.Cause = v1alpha1.InterruptionCause(inc.Trigger)
		}
	}
}

// grows reports whether the gang lacks no rank but those that were added to it and have yet to find their first nodes.
func (j job) grows(s *v1alpha1.TrainingJobStatus) bool {
	only := s.Placement != nil
	gang.EachRank(j.Effective, func(r gang.Rank) {
		only = only && (gang.NodeOf(s.Placement, r) == "" || j.State(s, r) >= gang.Impaired)
	})
	return only
}

func isSuspended(a *v1alpha1.Availability) bool {
	return a.Interruption != nil && a.Interruption.Cause == v1alpha1.CauseSuspended
}

// isStarting reports whether a job that was resumed has yet to be ready. What stops the gang again before the incident of the resume
// is over has that incident.
func isStarting(a *v1alpha1.Availability) bool {
	i := a.Interruption
	return i != nil && i.Cause == v1alpha1.InterruptionCause(v1alpha1.JobResumed) && i.Incident == 0
}

// endInterruption adds what interrupts the gang, if anything does, to the time that is lost. A suspension loses none, and neither does
// the start after it, like the first start of the job.
func endInterruption(a *v1alpha1.Availability, at time.Time) {
	if a.Interruption == nil {
		return
	}
	took := max(0, at.Sub(a.Interruption.StartTime.Time)).Milliseconds() // clocks step back
	if isSuspended(a) || isStarting(a) {
		a.SuspendedMilliseconds += took
		a.Interruption = nil
		return
	}
	lose(a, a.Interruption.Cause, took)
	a.Interruption = nil
}

// lose adds to the time that is lost to a cause.
func lose(a *v1alpha1.Availability, cause v1alpha1.InterruptionCause, took int64) {
	n := slices.IndexFunc(a.LostTime, func(l v1alpha1.LostTime) bool { return l.Cause == cause })
	if n < 0 {
		n = len(a.LostTime)
		a.LostTime = append(a.LostTime, v1alpha1.LostTime{Cause: cause})
	}
	a.LostTime[n].Interruptions++
	a.LostTime[n].Milliseconds += took
}

// Times are what the time of a job since its gang was first ready was spent on.
type Times struct {
	// Running is how long the gang was ready, Down how long it was not, or did again what it had done, and Suspended how long it was not meant to be,
	// and took to start again.
	Running, Down, Suspended time.Duration
	// Lost is Down by cause, an interruption that goes on included.
	Lost []v1alpha1.LostTime
}

// TimesAt returns the times of a job at a time, or at its end where that was before.
func TimesAt(a *v1alpha1.Availability, at time.Time) Times {
	if a.EndTime != nil && a.EndTime.Time.Before(at) {
		at = a.EndTime.Time
	}
	over := a.DeepCopy()
	endInterruption(over, at)
	t := Times{Suspended: time.Duration(over.SuspendedMilliseconds) * time.Millisecond, Lost: over.LostTime}
	for _, l := range over.LostTime {
		t.Down += time.Duration(l.Milliseconds) * time.Millisecond
	}
	t.Running = max(0, at.Sub(a.StartTime.Time)-t.Down-t.Suspended)
	return t
}

// ETTR is the effective training time ratio, as far as readiness and the steps that programs say tell it: Running by Running and Down. It is 1 where no time has
// passed.
func (t Times) ETTR() float64 {
	if t.Running+t.Down <= 0 {
		return 1
	}
	return float64(t.Running) / float64(t.Running+t.Down)
}
