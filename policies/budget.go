// The budget: how often the user's program may make the job restart.

package policies

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// charge counts an incident against the budget, once, where its rule says so. It
// returns false, and counts nothing, where the budget is used up.
func (w *world) charge(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, rule v1alpha1.Rule, policy restartPolicy) bool {
	if inc.Charged || !charges(rule, inc.Class) {
		return true
	}
	since := w.Now.Add(-policy.window)
	spent := slices.DeleteFunc(slices.Clone(s.Restarts.ChargedTimes), func(t metav1.Time) bool { return !t.After(since) })
	if len(spent) >= policy.maxRestarts {
		return false
	}
	inc.Charged = true
	s.Restarts.Charged++
	spent = append(spent, metav1.NewTime(w.Now))
	s.Restarts.ChargedTimes = spent
	return true
}

func charges(rule v1alpha1.Rule, class v1alpha1.FailureClass) bool {
	switch rule.Charge {
	case v1alpha1.ChargeAlways:
		return true
	case v1alpha1.ChargeNever:
		return false
	}
	return class == v1alpha1.ClassUser
}

func exhausted(policy restartPolicy) string {
	return fmt.Sprintf("the budget of %d charged restarts in %s is used up: ", policy.maxRestarts, policy.window)
}
