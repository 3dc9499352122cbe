// Phases: the parts of an incident, from the failure until all ranks were ready again.

package incident

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/instant"
)

// Phase is a part of an incident.
type Phase string

// The phases, in order. An incident has those that took time.
const (
	Detect      Phase = "Detect"      // from the end of the program until that was seen
	Decide      Phase = "Decide"      // until the first step: what may come back by itself has time to, or the restart backs off
	Stop        Phase = "Stop"        // of a supervised gang, until the programs of all ranks had ended
	Place       Phase = "Place"       // until the last replacement had its node, as long as none had to wait for room
	WaitForRoom Phase = "WaitForRoom" // the same from the moment at which the first replacement had to wait for room
	Barrier     Phase = "Barrier"     // of a supervised gang, until all ranks were at the barrier of its epoch
	Start       Phase = "Start"       // until all ranks were ready; of a recovery without a step all of it
)

// Span is when a phase was.
type Span struct {
	Phase       Phase
	From, Until time.Time
}

// Duration of the phase.
func (s Span) Duration() time.Duration { return s.Until.Sub(s.From) }

// Phases are the phases of an incident, each from the end of the one before. Those of an open incident end with what was recorded
// last. One that ended without a recovery has no Start: the phase that it was in goes on until its end.
func Phases(inc *v1alpha1.Incident) []Span {
	var out []Span
	at := inc.StartTime.Time
	if seen := inc.Cause.Time; seen != nil && seen.Time.Before(at) {
		at = seen.Time
	}
	add := func(p Phase, until time.Time) {
		if until.After(at) {
			out = append(out, Span{p, at, until})
			at = until
		}
	}
	end, bound, stopped := timeOf(inc.EndTime), timeOf(inc.BoundTime), timeOf(inc.StoppedTime)
	first, last := restartTimes(inc)
	if inc.Outcome == v1alpha1.OutcomeFailed || inc.Outcome == v1alpha1.OutcomeCancelled {
		first, last = instant.Earliest(first, end), end
	}
	add(Detect, inc.StartTime.Time)
	switch {
	case inc.Trigger == v1alpha1.PodPending: // it is about nothing else
		add(WaitForRoom, instant.Latest(last, bound))
	case inc.NoRoomTime != nil:
		add(Decide, first)
		if stopped.Before(inc.NoRoomTime.Time) {
			add(Stop, stopped)
		}
		add(Place, inc.NoRoomTime.Time)
		add(WaitForRoom, instant.Latest(last, bound))
	default:
		add(Decide, first)
		add(Stop, stopped)
	}
	add(Place, instant.Latest(last, bound))
	add(Barrier, timeOf(inc.BarrierTime))
	add(Start, end)
	return out
}

// PhasesAt are the phases of an incident at a time: the phase that an open one is in lasts until then.
func PhasesAt(inc *v1alpha1.Incident, at time.Time) []Span {
	if inc.EndTime != nil {
		return Phases(inc)
	}
	open := *inc
	open.EndTime = new(metav1.NewMicroTime(at))
	if _, last := restartTimes(inc); !rejoins(inc) && (inc.BoundTime == nil || inc.BoundTime.Time.Before(last.Truncate(time.Second))) {
		open.Outcome = v1alpha1.OutcomeCancelled // it is not in its last phase
	}
	return Phases(&open)
}

func timeOf(t *metav1.MicroTime) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}

// restartTimes returns when an incident first and last restarted something; zero where it did not.
func restartTimes(inc *v1alpha1.Incident) (first, last time.Time) {
	for _, f := range inc.Steps {
		if f.Action != v1alpha1.Ignore && !f.DryRun {
			first, last = instant.Earliest(first, f.Time.Time), instant.Latest(last, f.Time.Time)
		}
	}
	return first, last
}
