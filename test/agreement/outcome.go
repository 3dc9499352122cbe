// Outcomes: what a failure cost, and what was done about it, as the incidents of a job tell.

package main

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/incident"
)

// outcome is what came of a failure.
type outcome struct {
	Steps []v1alpha1.Action
	Down  time.Duration
	In    map[incident.Phase]time.Duration
}

// outcomeOf takes the incidents of a job that began with or after a failure as one. Of these only what was done counts: the failure
// and the end of the downtime are given.
func outcomeOf(incidents []v1alpha1.Incident, failed, up time.Time) outcome {
	out := outcome{Down: up.Sub(failed), In: map[incident.Phase]time.Duration{}}
	one, found := merge(since(incidents, failed))
	if !found {
		return out
	}
	for _, s := range one.Steps {
		out.Steps = append(out.Steps, s.Action)
	}
	one.Cause.Time, one.EndTime, one.Outcome = new(metav1.NewTime(failed)), new(metav1.NewMicroTime(up)), v1alpha1.OutcomeRecovered
	for _, s := range incident.Phases(one) {
		out.In[s.Phase] += s.Duration()
	}
	return out
}

// since are the incidents that began at a time or later.
func since(all []v1alpha1.Incident, at time.Time) []v1alpha1.Incident {
	return slices.DeleteFunc(slices.Clone(all), func(i v1alpha1.Incident) bool { return i.StartTime.Time.Before(at) })
}

// merge makes one incident of several: it begins with the first, has the steps of all, and is placed with the last.
func merge(all []v1alpha1.Incident) (*v1alpha1.Incident, bool) {
	if len(all) == 0 {
		return nil, false
	}
	one := all[0].DeepCopy()
	one.Steps = nil
	for _, inc := range all {
		if inc.StartTime.Before(&one.StartTime) {
			one.StartTime, one.Trigger = inc.StartTime, inc.Trigger
		}
		for _, s := range inc.Steps {
			if s.Action != v1alpha1.Ignore && !s.DryRun {
				one.Steps = append(one.Steps, s)
			}
		}
		one.NoRoomTime = pick(one.NoRoomTime, inc.NoRoomTime, (*metav1.MicroTime).Before)
		one.BoundTime = pick(one.BoundTime, inc.BoundTime, func(a, b *metav1.MicroTime) bool { return b.Before(a) })
	}
	slices.SortStableFunc(one.Steps, func(a, b v1alpha1.FiredStep) int { return a.Time.Compare(b.Time.Time) })
	return one, true
}

// pick returns that of two times which is there, or the better one.
func pick(a, b *metav1.MicroTime, better func(a, b *metav1.MicroTime) bool) *metav1.MicroTime {
	if a == nil || (b != nil && better(b, a)) {
		return b
	}
	return a
}
