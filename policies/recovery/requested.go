// Requests: what a user asks for becomes an incident, or is refused.

package recovery

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// noteRequest opens an incident for a restart request that is new, or says why it is refused.
func (e Engine) noteRequest(s *v1alpha1.TrainingJobStatus) {
	request := e.NewRequest(s)
	if request == nil {
		return
	}
	s.RestartRequest = &v1alpha1.RestartRequestStatus{ID: request.ID, Time: metav1.NewMicroTime(e.Now)}
	if why := e.Refusal(s, request); why != "" {
		s.RestartRequest.Message = why
		return
	}
	s.RestartRequest.Incident = e.openRequested(s, request)
}

// openRequested opens an incident for a request, and returns its id. From the step that was asked for, the ladder of the last rule
// goes on.
func (e Engine) openRequested(s *v1alpha1.TrainingJobStatus, request *v1alpha1.RestartRequest) int32 {
	task := ""
	if len(request.Pods) > 0 {
		task = request.Pods[0].Task
	}
	policy := e.Policy(task)
	inc := e.open(s, v1alpha1.RestartRequested, v1alpha1.ClassMaintenance)
	inc.Rule, inc.PolicyTask = policy.Rules[len(policy.Rules)-1].Name, policy.Of
	inc.RequestedAction, inc.Cause = v1alpha1.Action(request.Action), v1alpha1.Cause{Message: request.Reason}
	for i, p := range request.Pods {
		f := e.requested(s, gang.Rank{Task: p.Task, Index: p.Index})
		if i == 0 {
			inc.Cause.Pod, inc.Cause.Node = f.Pod, f.Node
		}
		join(inc, f)
	}
	return inc.ID
}

// requested names the pod of a rank as an incident does.
func (e Engine) requested(s *v1alpha1.TrainingJobStatus, r gang.Rank) rules.Failure {
	if p := e.Pod(r); p != nil && !gang.IsStale(s, p) {
		return e.FailureBy(s, p, v1alpha1.RestartRequested, v1alpha1.ClassMaintenance)
	}
	return rules.Failure{Rank: r, Pod: gang.PodNameOf(e.Job, s, r), Node: gang.NodeOf(s.Placement, r)}
}
