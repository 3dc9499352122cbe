// Culprits: an incident is given the cause that it really has.

package recovery

import (
	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/incident"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// blame makes a failure the cause of an incident. As long as nothing has been restarted it decides the rule too, and the
// ranks whose programs had ended before that was known are victims.
func (e Engine) blame(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, f rules.Failure, rule v1alpha1.Rule, policy *rules.Policy) {
	inc.Cause = incident.CauseOf(f)
	if incident.Restarted(inc) || incident.Unnamed(inc) {
		join(inc, f)
		return
	}
	inc.Trigger, inc.Class, inc.Rule, inc.PolicyTask = f.Event, f.Class, rule.Name, policy.Of
	removeVictim(inc, f.Pod)
	named := inc.Pods
	inc.Pods, inc.PodCount = nil, 0
	join(inc, f)
	m := e.Rooms(s)
	for _, p := range named {
		other, fails := e.FailureOf(s, gang.Rank{Task: p.Task, Index: p.Index}, m)
		if !fails || other.ByProgram() {
			addVictim(inc, rules.Failure{Pod: p.Name, Event: v1alpha1.PodNotReady})
		}
		if fails && !other.InPlace() {
			inc.PodCount++
			inc.Pods = append(inc.Pods, p)
		}
	}
}
