// The next step: what is about to be done, told to people before it is.

package policies

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// describeNextStep records the step that is taken next of all open incidents.
func (w *world) describeNextStep(s *v1alpha1.TrainingJobStatus) {
	s.NextStep = nil
	for i := range s.Incidents {
		inc := &s.Incidents[i]
		up, ok := w.announced(s, inc)
		if ok && (s.NextStep == nil || up.at.Before(s.NextStep.Time.Time)) {
			s.NextStep = &v1alpha1.NextStep{Incident: inc.ID, Action: up.action, Time: metav1.NewTime(up.at.Truncate(time.Second)), DryRun: w.onlyPlays(inc)}
		}
	}
}

// nextStory tells the next step of an incident; empty where none is due by itself, and where the backoff is told instead.
func (w *world) nextStory(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) string {
	up, ok := w.announced(s, inc)
	if !ok || !w.backsOffUntil(s, inc).IsZero() {
		return ""
	}
	told := ", then "
	if w.onlyPlays(inc) {
		told = ", in a dry run then "
	}
	return fmt.Sprintf("%s%s at %s", told, up.action, up.at.UTC().Format(time.TimeOnly))
}

// announced is the next rung of an open incident that is still to come and whose time is known. One that waits for something else
// than its time, such as for victims, a breaker or a checkpoint, is not announced.
func (w *world) announced(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) (rung, bool) {
	if w.stopped(s) || inc.Outcome != "" || asking(inc) || w.waitsForCapacity(s, inc) || w.breakerUntil(s, inc).After(w.Now) {
		return rung{}, false
	}
	up, ok := w.due(s, inc)
	a := rules.ActionOf(up.action)
	if !ok || !a.Known || up.action == v1alpha1.Ignore || w.inVain(s, inc, up.action) || (a.Scope == rules.BrokenPods && w.onlyWaits(s, inc)) {
		return rung{}, false
	}
	return up, up.at.After(w.Now)
}
