// Closing: incidents end, and the job with them where it cannot go on.

package recovery

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/incident"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// closeRecovered ends the open incidents all of whose ranks are in place again, and those that are held
// back until there is nothing left to move, and says whether there was one.
func (e Engine) closeRecovered(s *v1alpha1.TrainingJobStatus) bool {
	ended := false
	for i := range s.Incidents {
		inc := &s.Incidents[i]
		switch {
		case inc.Outcome != "":
			continue
		case e.Recovered(s, inc):
			e.endRecovered(s, inc)
		case e.WaitsForBreaker(s, inc) && e.Departed(inc):
			e.end(inc, v1alpha1.OutcomeCancelled)
		default:
			continue
		}
		ended = true
	}
	return ended
}

// closeOvertaken ends the incidents whose own ranks are back, and that wait for nothing but victims, where a step of another incident is about
// to restart those victims or its own ranks. Once the step has made the pods stale, such an incident would seem to miss ranks of its own, and
// take its next step for nothing.
func (e Engine) closeOvertaken(s *v1alpha1.TrainingJobStatus, by *v1alpha1.Incident) {
	for i := range s.Incidents {
		if inc := &s.Incidents[i]; inc.ID != by.ID && inc.Outcome == "" && (e.Recovered(s, inc) || (e.shareRanks(inc, by) && e.RanksBack(s, inc))) {
			e.endRecovered(s, inc)
		}
	}
}

// shareRanks reports whether an incident concerns a rank of another one.
func (e Engine) shareRanks(inc, other *v1alpha1.Incident) bool {
	return !e.EveryRankOf(inc, func(r gang.Rank) bool { return !e.Concerns(other, r) })
}

func (e Engine) endRecovered(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) {
	inc.PlacedTime, inc.BoundTime = e.LastPlaced(inc)
	e.noteEpoch(inc)
	inc.LostSteps = lostSteps(s, inc)
	e.findCulprit(s, inc)
	e.end(inc, v1alpha1.OutcomeRecovered)
}

// endAll ends every open incident, because the job itself has come to an end or a pause.
func (e Engine) endAll(s *v1alpha1.TrainingJobStatus, outcome v1alpha1.Outcome) {
	for i := range s.Incidents {
		if s.Incidents[i].Outcome == "" {
			e.end(&s.Incidents[i], outcome)
		}
	}
	forget(s)
}

func (e Engine) end(inc *v1alpha1.Incident, outcome v1alpha1.Outcome) {
	if incident.Asking(inc) {
		e.conclude(inc, v1alpha1.CheckpointCancelled, "")
	}
	inc.EndTime, inc.Outcome, inc.Message = new(metav1.NewMicroTime(e.Now)), outcome, gang.Shorten(incident.Story(inc))
}

// maxClosedSet is how many bytes of each set of ranks an incident keeps that is over.
const maxClosedSet = 4096

// cutClosed shortens what a closed incident keeps of its ranks: only people read it. One about waiting says until when the others were paused.
func cutClosed(inc *v1alpha1.Incident) {
	if inc.Outcome == "" || rules.OfWaiting(inc.Trigger) {
		return
	}
	for i := range inc.Ranks {
		of := &inc.Ranks[i]
		of.Failed, of.PodGone, of.Victims = cut(of.Failed), cut(of.PodGone), cut(of.Victims)
	}
}

func cut(set string) string {
	if len(set) <= maxClosedSet {
		return set
	}
	return set[:max(0, strings.LastIndexByte(set[:maxClosedSet], ','))]
}

// Complete ends a job all of whose pods that count have succeeded.
func (e Engine) Complete(s *v1alpha1.TrainingJobStatus) {
	e.finish(s, v1alpha1.ConditionCompleted, v1alpha1.ReasonTasksSucceeded, "every pod that counts has succeeded")
	e.endAll(s, v1alpha1.OutcomeCancelled)
}

// Fail ends a job that cannot go on, with a reason and a message for people. Its open incidents fail with it.
func (e Engine) Fail(s *v1alpha1.TrainingJobStatus, reason, message string) {
	e.finish(s, v1alpha1.ConditionFailed, reason, message)
	e.endAll(s, v1alpha1.OutcomeFailed)
}

func (e Engine) finish(s *v1alpha1.TrainingJobStatus, condition, reason, message string) {
	e.SetCondition(s, condition, true, reason, message)
	s.CompletionTime = new(metav1.NewTime(e.Now))
}

// Suspend marks a job as suspended, and cancels its open incidents.
func (e Engine) Suspend(s *v1alpha1.TrainingJobStatus) {
	reason, message := v1alpha1.ReasonSuspended, "spec.suspend is true; home is remembered"
	if e.NotAdmitted != "" {
		reason, message = v1alpha1.ReasonNotAdmitted, e.NotAdmitted
	}
	e.SetCondition(s, v1alpha1.ConditionSuspended, true, reason, message)
	e.endAll(s, v1alpha1.OutcomeCancelled)
	e.noteRequest(s) // it is refused
}

// maxClosedIncidents is how many incidents are remembered after they are over.
const maxClosedIncidents = 10

// forget drops the incidents that were over first, and shortens the other closed ones. One that has just ended stays, however long ago it began:
// it tells what this decision has done.
func forget(s *v1alpha1.TrainingJobStatus) {
	closed := 0
	for i := range s.Incidents {
		if cutClosed(&s.Incidents[i]); s.Incidents[i].Outcome != "" {
			closed++
		}
	}
	for ; closed > maxClosedIncidents; closed-- {
		first := -1
		for i := range s.Incidents {
			inc := &s.Incidents[i]
			if inc.Outcome != "" && (first < 0 || inc.EndTime.Before(s.Incidents[first].EndTime)) {
				first = i
			}
		}
		s.Incidents = slices.Delete(s.Incidents, first, first+1)
	}
}
