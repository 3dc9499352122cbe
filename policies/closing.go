// Closing: when an incident is over, and which are remembered.

package policies

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// closeRecovered ends the open incidents all of whose ranks are in place again, and those that are held
// back until there is nothing left to move, and says whether there was one.
func (w *world) closeRecovered(s *v1alpha1.TrainingJobStatus) bool {
	ended := false
	for i := range s.Incidents {
		inc := &s.Incidents[i]
		switch {
		case inc.Outcome != "":
			continue
		case w.recovered(s, inc):
			w.endRecovered(inc)
		case w.waitsForBreaker(s, inc) && w.departed(inc):
			w.end(inc, v1alpha1.OutcomeCancelled)
		default:
			continue
		}
		ended = true
	}
	return ended
}

// closeOvertaken ends the incidents that wait for nothing but victims which a step of another incident is about to restart.
// Once the step has made the pods stale, such an incident would seem to miss ranks of its own, and take its next step for
// nothing.
func (w *world) closeOvertaken(s *v1alpha1.TrainingJobStatus, by *v1alpha1.Incident) {
	for i := range s.Incidents {
		if inc := &s.Incidents[i]; inc.ID != by.ID && inc.Outcome == "" && w.recovered(s, inc) {
			w.endRecovered(inc)
		}
	}
}

func (w *world) endRecovered(inc *v1alpha1.Incident) {
	inc.PlacedTime = w.lastPlaced(inc)
	w.end(inc, v1alpha1.OutcomeRecovered)
}

// recovered reports whether all that an incident concerns is in place again. Where it
// concerns more than the pods it names, that is every rank that had a place: replicas
// beyond minAvailable may still be waiting for their first.
func (w *world) recovered(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) bool {
	if inc.Trigger == v1alpha1.PodPending && !wide(inc) {
		return w.everyRankOf(inc, func(r gang.Rank) bool { return w.State(s, r) > gang.Unbound })
	}
	if rules.OfJob(inc.Trigger) && !restarted(inc) && (byUser(inc) || w.VolcanoJob == nil || w.VolcanoJob.Ended) {
		return false // what it is about is still so
	}
	if w.hasVictims(s, inc) {
		return false
	}
	if !wide(inc) {
		return w.everyRankOf(inc, func(r gang.Rank) bool { return w.backFor(s, inc, r) })
	}
	return s.Placement != nil && w.everyRankOf(inc, func(r gang.Rank) bool {
		return w.backFor(s, inc, r) || (gang.NodeOf(s.Placement, r) == "" && w.PartitionOf(r) < 0 && !names(inc, r))
	})
}

// lastPlaced is when the last replacement of an incident was placed; nil where none was needed.
func (w *world) lastPlaced(inc *v1alpha1.Incident) *metav1.MicroTime {
	var last time.Time
	w.everyRankOf(inc, func(r gang.Rank) bool {
		if p := w.Pod(r); p != nil && p.PlacedTime.After(last) {
			last = p.PlacedTime
		}
		return true
	})
	if last.Before(inc.StartTime.Time) {
		return nil
	}
	return new(metav1.NewMicroTime(last))
}

// endAll ends every open incident, because the job itself has come to an end or a pause.
func (w *world) endAll(s *v1alpha1.TrainingJobStatus, outcome v1alpha1.Outcome) {
	for i := range s.Incidents {
		if s.Incidents[i].Outcome == "" {
			w.end(&s.Incidents[i], outcome)
		}
	}
	forget(s)
}

func (w *world) end(inc *v1alpha1.Incident, outcome v1alpha1.Outcome) {
	if asking(inc) {
		w.conclude(inc, v1alpha1.CheckpointCancelled, "")
	}
	inc.EndTime, inc.Outcome, inc.Message = new(metav1.NewMicroTime(w.Now)), outcome, story(inc)
}

// forget drops the oldest closed incidents.
func forget(s *v1alpha1.TrainingJobStatus) {
	closed := 0
	for _, inc := range s.Incidents {
		if inc.Outcome != "" {
			closed++
		}
	}
	s.Incidents = slices.DeleteFunc(s.Incidents, func(inc v1alpha1.Incident) bool {
		if inc.Outcome == "" || closed <= maxClosedIncidents {
			return false
		}
		closed--
		return true
	})
}

// backFor reports whether a rank is back as far as an incident goes. That something which its pod
// uses is degraded is an incident of its own: the next step of this one would not mend it. That something has failed is one, too, where
// a HealthPolicy bounds such moves, save for an incident that is of health itself.
func (w *world) backFor(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, r gang.Rank) bool {
	switch state := w.State(s, r); {
	case state != gang.Impaired:
		return state >= gang.Working
	case w.Pod(r).IsIll(true):
		return w.HealthPolicy != nil && !rules.OfHealth(inc.Trigger)
	}
	return inc.Trigger != v1alpha1.HealthDegraded
}
