// Victims: ranks that fail in the wake of an incident are noted in it, and replaced where they do not come back by themselves.

package recovery

import (
	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/incident"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// victims are the ranks that one pass finds to have failed in the wake of others.
type victims struct {
	Engine
	s *v1alpha1.TrainingJobStatus
	// overdue are the incidents whose victims have had their time.
	overdue map[int32]bool
	// paid are the incidents that this pass has charged for ranks which it brings back.
	paid map[int32]bool
}

func (e Engine) victims(s *v1alpha1.TrainingJobStatus) *victims {
	v := &victims{e, s, map[int32]bool{}, map[int32]bool{}}
	for i := range s.Incidents {
		if inc := &s.Incidents[i]; inc.Outcome == "" {
			v.overdue[inc.ID] = !e.VictimsUntil(s, inc).After(e.Now)
		}
	}
	return v
}

// note records that a rank failed in the wake of an incident. A pod that has ended for good is replaced with the others.
func (v *victims) note(inc *v1alpha1.Incident, f rules.Failure, rule v1alpha1.Rule, policy *rules.Policy) {
	switch {
	case v.Precedes(v.s, inc, f):
		v.blame(v.s, inc, f, rule, policy)
		v.restartLate(v.s, inc, f)
	case !f.InPlace():
		addVictim(inc, f)
		join(inc, f)
		v.restartLate(v.s, inc, f)
	case v.overdue[inc.ID]:
		v.failVictim(v.s, inc, f)
	default:
		addVictim(inc, f)
	}
}

// bringBack restarts a rank of a collective that its incident concerns, that fails in place, and that no step will restart: either the incident
// has none left, or the rank was a victim until the incident came to concern its whole task. Kubelets restart such ranks one after the
// other, each time later, and those that are there give up waiting for the others. Ranks that are restarted together meet.
func (v *victims) bringBack(inc *v1alpha1.Incident, f rules.Failure) {
	if f.Event != v1alpha1.PodNotReady || v.IsIndependent(f.Rank.Task) || !v.overdue[inc.ID] || !incident.Restarted(inc) || v.DryRun {
		return
	}
	victim := incident.IsVictim(inc, f.Rank) && !incident.Names(inc, f.Rank)
	if victim || (!v.HasStepLeft(v.s, inc) && v.pays(inc)) {
		v.failVictim(v.s, inc, f)
		last := &inc.Steps[len(inc.Steps)-1]
		last.Charged = last.Charged || v.paid[inc.ID]
	}
}

// pays charges an incident for the ranks that one pass brings back, and fails the job where its budget is used up. It returns false where the
// charge has to back off from another one.
func (v *victims) pays(inc *v1alpha1.Incident) bool {
	switch {
	case v.paid[inc.ID]:
		return true
	case v.RepeatsAt(v.s, inc).After(v.Now):
		return false
	case !v.charge(v.s, inc, true):
		v.Fail(v.s, v1alpha1.ReasonBudgetExhausted, v.Exhausted(inc)+incident.Story(inc))
		return false
	}
	v.paid[inc.ID] = true
	return true
}

// failVictim makes a victim that did not come back by itself in time a rank that its incident brings back.
func (e Engine) failVictim(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, f rules.Failure) {
	join(inc, f)
	if incident.Restarted(inc) && !e.DryRun {
		e.restartExtra(s, inc, f.Rank)
	}
}
