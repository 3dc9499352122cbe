// The budget: restarts are charged to it, and paid back where the cause turns out to be another.

package recovery

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/incident"
)

// charge counts an incident against its budget, once for each time that the job failed or its programs failed to start, or
// as uncharged. It returns false, and counts nothing, where the budget is used up.
func (e Engine) charge(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, up incident.Rung) bool {
	repeats := incident.Repeats(inc, up) && e.ChargesRepeats(inc)
	if inc.Charged && !repeats && !e.FailedAsWhole(s, inc) {
		return true
	}
	if !e.Charges(s, inc) && !repeats {
		if !incident.Counted(inc) && !incident.Resumes(inc) {
			s.Restarts.Uncharged++
		}
		return true
	}
	policy := e.PolicyFor(inc)
	spent := e.Spent(s, policy)
	if len(spent) >= policy.MaxRestarts {
		return false
	}
	if incident.Restarted(inc) && !inc.Charged {
		s.Restarts.Uncharged--
	}
	inc.Charged = true
	s.Restarts.Charged++
	spent = append(spent, metav1.NewTime(e.Now))
	*incident.ChargedTimes(s, policy) = spent
	return true
}

// noteProgressMade records that the job has made progress since the restarts that were charged, which delay no others any more.
func (e Engine) noteProgressMade(s *v1alpha1.TrainingJobStatus) {
	if s.Restarts.Charged > 0 && e.HasProgressed() {
		s.Restarts.ProgressTime = new(metav1.NewTime(e.Now))
	}
}

// refund takes back what was charged to an incident.
func (e Engine) refund(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) {
	if !inc.Charged || e.Charges(s, inc) {
		return
	}
	inc.Charged = false
	s.Restarts.Charged--
	s.Restarts.Uncharged++
	times := incident.ChargedTimes(s, e.PolicyFor(inc))
	for i, t := range slices.Backward(*times) {
		if tookStepAt(inc, t.Time) {
			*times = slices.Delete(*times, i, i+1)
			return
		}
	}
}

// tookStepAt reports whether an incident took a step at a time, to the second: a charge is noted when a step is taken.
func tookStepAt(inc *v1alpha1.Incident, at time.Time) bool {
	return slices.ContainsFunc(inc.Steps, func(f v1alpha1.FiredStep) bool {
		return f.Time.Truncate(time.Second).Equal(at.Truncate(time.Second))
	})
}
