// Package timeline says what happened to a TrainingJob and when, from its status alone: Of makes a plain value, for people and
// for other programs, and Print draws it.
package timeline

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/policies/incident"
	"github.com/lockstep-dev/lockstep/policies/instant"
)

// Jobs are the timelines of some jobs.
type Jobs struct {
	Jobs []Job `json:"jobs"`
}

// Job is the timeline of one job.
type Job struct {
	Namespace string         `json:"namespace,omitempty"`
	Name      string         `json:"name"`
	State     v1alpha1.State `json:"state,omitempty"`
	// Message says why the job is in its state.
	Message string `json:"message,omitempty"`
	Attempt int32  `json:"attempt"`
	// Time up to which the timeline goes.
	Time metav1.MicroTime `json:"time"`
	// Availability is missing until the gang has been ready once.
	Availability *Availability `json:"availability,omitempty"`
	// Incidents that the status remembers, in order.
	Incidents []Incident `json:"incidents,omitempty"`
	// GrowingSince is since when ranks that were added to the job have yet to become ready; missing where there are none.
	GrowingSince *metav1.MicroTime `json:"growingSince,omitempty"`
	// NextStep is the step that is announced.
	NextStep *v1alpha1.NextStep `json:"nextStep,omitempty"`
}

// Availability says what the time of a job was spent on.
type Availability struct {
	StartTime metav1.MicroTime `json:"startTime"`
	EndTime   metav1.MicroTime `json:"endTime"`
	// ETTR is the share of the time, suspensions apart, in which the gang was ready.
	ETTR              float64 `json:"ettr"`
	ReadyMilliseconds int64   `json:"readyMilliseconds"`
	// LostTime is by cause, the most first.
	LostTime              []v1alpha1.LostTime `json:"lostTime,omitempty"`
	SuspendedMilliseconds int64               `json:"suspendedMilliseconds"`
}

// Incident is one failure, with what was done about it. Its outcome is empty while it is open.
type Incident struct {
	v1alpha1.Incident `json:",inline"`
	Events            []Event `json:"events"`
	Phases            []Phase `json:"phases,omitempty"`
}

// Event is something that happened.
type Event struct {
	Time metav1.MicroTime `json:"time"`
	What string           `json:"what"`
}

// Phase is a part of an incident; the phases follow each other.
type Phase struct {
	Phase        incident.Phase `json:"phase"`
	Milliseconds int64          `json:"milliseconds"`
}

// Duration of the phase.
func (p Phase) Duration() time.Duration { return time.Duration(p.Milliseconds) * time.Millisecond }

// Of is the timeline of a job up to a time.
func Of(job *v1alpha1.TrainingJob, at time.Time) Job {
	s := &job.Status
	at = UpTo(s, at)
	out := Job{
		Namespace: job.Namespace, Name: job.Name, State: s.State, Message: s.Message, Attempt: s.Attempt,
		Time: metav1.NewMicroTime(at), Availability: availability(s.Availability, at), NextStep: s.NextStep,
		GrowingSince: GrowingSince(s),
	}
	for i := range s.Incidents {
		out.Incidents = append(out.Incidents, incidentOf(&s.Incidents[i], at))
	}
	return out
}

// GrowingSince is since when a job lacks only ranks that were added to it; nil where it lacks none, or others.
func GrowingSince(s *v1alpha1.TrainingJobStatus) *metav1.MicroTime {
	if s.Availability == nil || s.Availability.Interruption == nil || s.Availability.Interruption.Cause != v1alpha1.CauseResized {
		return nil
	}
	return &s.Availability.Interruption.StartTime
}

// GrowingHint says what the state of a job that grows does not.
const GrowingHint = "Only ranks that were added to it are not ready yet. Until they are, its state is Starting and the time counts as lost to Resized, although the ranks that it had before may train on."

func availability(a *v1alpha1.Availability, at time.Time) *Availability {
	if a == nil {
		return nil
	}
	times := policies.TimesAt(a, at)
	out := &Availability{
		StartTime: a.StartTime, EndTime: metav1.NewMicroTime(at), ETTR: times.ETTR(), ReadyMilliseconds: times.Running.Milliseconds(),
		LostTime: times.Lost, SuspendedMilliseconds: times.Suspended.Milliseconds(),
	}
	if a.EndTime != nil && a.EndTime.Time.Before(at) {
		out.EndTime = *a.EndTime
	}
	slices.SortStableFunc(out.LostTime, func(a, b v1alpha1.LostTime) int { return cmp.Compare(b.Milliseconds, a.Milliseconds) })
	return out
}

func incidentOf(inc *v1alpha1.Incident, at time.Time) Incident {
	out := Incident{Incident: *inc, Events: events(inc)}
	out.Message = cmp.Or(inc.Message, fmt.Sprintf("incident %d, %s", inc.ID, inc.Trigger))
	for _, p := range incident.PhasesAt(inc, at) {
		out.Phases = append(out.Phases, Phase{p.Phase, p.Duration().Milliseconds()})
	}
	return out
}

// events are what happened in an incident, in the order of time.
func events(inc *v1alpha1.Incident) []Event {
	events := []Event{{inc.StartTime, "seen"}}
	if inc.Cause.Time != nil {
		events = append(events, Event{metav1.NewMicroTime(inc.Cause.Time.Time), "the program ended"})
	}
	note := func(at *metav1.MicroTime, what string) {
		if at != nil {
			events = append(events, Event{*at, what})
		}
	}
	if c := inc.Checkpoint; c != nil {
		note(&c.RequestTime, fmt.Sprintf("%d pods are asked for a checkpoint", c.Pods))
		note(c.EndTime, strings.TrimSuffix(fmt.Sprintf("checkpoint: %s, %d of %d pods answered: %s", c.Outcome, c.Answered, c.Pods, c.Message), ": "))
	}
	for _, s := range inc.Steps { // behind the checkpoint, which ends with the step that waited for it
		what := string(s.Action)
		if s.DryRun {
			what += ", only recorded: a dry run"
		}
		events = append(events, Event{s.Time, what})
	}
	note(inc.NoRoomTime, "a replacement has to wait for room")
	note(inc.PlacedTime, "the last replacement may be placed")
	note(inc.BoundTime, "the last replacement has its node")
	note(inc.StoppedTime, "the programs of all ranks have ended")
	note(inc.BarrierTime, fmt.Sprintf("all ranks are at the barrier of epoch %d", inc.Epoch))
	note(inc.RunningTime, started(inc))
	note(inc.EndTime, "over")
	slices.SortStableFunc(events, func(a, b Event) int { return a.Time.Compare(b.Time.Time) })
	return events
}

// started says from which step the programs were started, and when their first step came.
func started(inc *v1alpha1.Incident) string {
	what := "all programs have been started"
	if inc.ResumeStep != nil {
		what += fmt.Sprintf(", from step %d", *inc.ResumeStep)
	}
	var scopes []string
	for _, from := range inc.ResumedFrom {
		scopes = append(scopes, fmt.Sprintf("%s %d", from.Scope, from.Ranks))
	}
	if len(scopes) > 0 {
		what += fmt.Sprintf(" (ranks by scope: %s)", strings.Join(scopes, ", "))
	}
	if inc.RestoreSeconds != nil {
		what += fmt.Sprintf(", and their first step came within %d s", *inc.RestoreSeconds)
	}
	return what
}

// UpTo is the time up to which a timeline goes: now, or its last change where that is later. A clock in whole seconds is behind a
// change by up to one, and the time in which a job was ready would go backwards.
func UpTo(s *v1alpha1.TrainingJobStatus, now time.Time) time.Time {
	return instant.Latest(now, LastChange(s))
}

// LastChange is the last time that a status records.
func LastChange(s *v1alpha1.TrainingJobStatus) time.Time {
	var times []time.Time
	if a := s.Availability; a != nil {
		interrupted := ptr.Deref(a.Interruption, v1alpha1.Interruption{}).StartTime
		times = append(times, a.StartTime.Time, ptr.Deref(a.EndTime, a.StartTime).Time, interrupted.Time)
	}
	for i := range s.Incidents {
		all := events(&s.Incidents[i])
		times = append(times, all[len(all)-1].Time.Time)
	}
	for i := range s.Conditions {
		times = append(times, s.Conditions[i].LastTransitionTime.Time)
	}
	return instant.Latest(times...)
}
