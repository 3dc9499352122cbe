// The budget: restarts are charged to it, and paid back where the cause turns out to be another.

package recovery

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/incident"
)

// charge counts an incident against its budget, once for each time that the job failed or its programs are started once more, or
// as uncharged. It returns false, and counts nothing, where the budget is used up.
func (e Engine) charge(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, repeats bool) bool {
	repeats = repeats && e.ChargesRepeats(inc)
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
	if incident.Counted(inc) && !inc.Charged {
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

// refund takes back all that was charged to an incident.
func (e Engine) refund(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) {
	if !inc.Charged || e.Charges(s, inc) {
		return
	}
	inc.Charged = false
	s.Restarts.Uncharged++
	for _, step := range inc.Steps {
		if !step.Charged {
			continue // a charge of its second is another incident's
		}
		for _, times := range e.chargedTimes(s, inc) {
			if i := slices.IndexFunc(*times, func(t metav1.Time) bool { return sameSecond(t.Time, step.Time.Time) }); i >= 0 {
				*times = slices.Delete(*times, i, i+1)
				s.Restarts.Charged--
				break
			}
		}
	}
}

// chargedTimes are the budgets that an incident may have been charged to, that of its present policy first: the policy may have been
// changed since.
func (e Engine) chargedTimes(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) []*[]metav1.Time {
	all := []*[]metav1.Time{incident.ChargedTimes(s, e.PolicyFor(inc)), &s.Restarts.ChargedTimes}
	for i := range s.Tasks {
		all = append(all, &s.Tasks[i].ChargedTimes)
	}
	return all
}

// sameSecond reports whether two times are equal as far as the status keeps the times of charges.
func sameSecond(a, b time.Time) bool { return a.Truncate(time.Second).Equal(b.Truncate(time.Second)) }
