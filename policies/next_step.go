// The next step: what is about to be done, told to people before it is.

package policies

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/incident"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// describeNextStep records the step that is taken next of all open incidents.
func (j job) describeNextStep(s *v1alpha1.TrainingJobStatus) {
	s.NextStep = nil
	for i := range s.Incidents {
		inc := &s.Incidents[i]
		up, ok := j.announced(s, inc)
		if ok && (s.NextStep == nil || up.At.Before(s.NextStep.Time.Time)) {
			s.NextStep = &v1alpha1.NextStep{Incident: inc.ID, Action: up.Action, Time: metav1.NewTime(up.At.Truncate(time.Second)), DryRun: j.OnlyRecords(inc)}
		}
	}
}

// nextStory tells the next step of an incident; empty where none is due by itself, and where the backoff is told instead.
func (j job) nextStory(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) string {
	up, ok := j.announced(s, inc)
	if !ok || !j.backsOffUntil(s, inc).IsZero() {
		return ""
	}
	told := ", then "
	if j.OnlyRecords(inc) {
		told = ", in a dry run then "
	}
	return fmt.Sprintf("%s%s at %s UTC", told, up.Action, up.At.UTC().Format(time.TimeOnly))
}

// announced is the next rung of an open incident that is still to come and whose time is known. One that waits for something else
// than its time, such as for victims, a breaker or a checkpoint, is not announced.
func (j job) announced(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) (incident.Rung, bool) {
	if j.stopped(s) || inc.Outcome != "" || incident.Asking(inc) || j.WaitsForCapacity(s, inc) || j.BreakerUntil(s, inc).After(j.Now) {
		return incident.Rung{}, false
	}
	up, ok := j.Due(s, inc)
	a := rules.ActionOf(up.Action)
	if !ok || !a.Known || up.Action == v1alpha1.Ignore || j.CannotHelp(s, inc, up.Action) || (a.Scope == rules.BrokenPods && j.OnlyWaits(s, inc)) {
		return incident.Rung{}, false
	}
	return up, up.At.After(j.Now)
}
