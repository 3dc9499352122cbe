// Requests: what a user asks to be restarted or moved, with spec.restartRequest.

package incident

import (
	"fmt"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// maxOpenRequests is how many requests may be open at once: each is an incident, and a status has room for a limited number.
const maxOpenRequests = 4

// NewRequest returns the restart request of the spec that the status has no answer to; nil where there is none.
func (v *View) NewRequest(s *v1alpha1.TrainingJobStatus) *v1alpha1.RestartRequest {
	r := v.Job.Spec.RestartRequest
	if r == nil || (s.RestartRequest != nil && s.RestartRequest.ID == r.ID) {
		return nil
	}
	return r
}

// Refusal says why a request cannot be carried out; empty where it can.
func (v *View) Refusal(s *v1alpha1.TrainingJobStatus, request *v1alpha1.RestartRequest) string {
	switch {
	case v.NotAdmitted != "":
		return "the job waits for its quota: all of its pods are created again once it has that"
	case v.Job.Spec.Suspend:
		return "the job is suspended: set spec.suspend to false, and all of its pods are created again"
	case s.Placement == nil:
		return "the gang has not been placed yet: there is nothing to restart or to move"
	case rules.ActionOf(v1alpha1.Action(request.Action)).Rejoins:
		return v.refusalOfProcesses()
	case !rules.ActionOf(v1alpha1.Action(request.Action)).Replaces:
		return fmt.Sprintf("this version of the manager does not know the action %s", request.Action)
	case openRequests(s) >= maxOpenRequests:
		return fmt.Sprintf("%d requests are open already: wait until one of their incidents has ended", maxOpenRequests)
	}
	for _, p := range request.Pods {
		r := gang.Rank{Task: p.Task, Index: p.Index}
		if !v.Exists(r) {
			return fmt.Sprintf("the job has no pod %d of task %s now", p.Index, p.Task)
		}
		if v.State(s, r) == gang.Succeeded {
			return fmt.Sprintf("pod %d of task %s has succeeded, and is not run again", p.Index, p.Task)
		}
		if request.Action == v1alpha1.RequestedAction(v1alpha1.RestartPartition) && v.PartitionOf(r) < 0 {
			return fmt.Sprintf("task %s has no partitions: ask for RestartPod or RestartTask", p.Task)
		}
	}
	return ""
}

// refusalOfProcesses says why the programs of the job cannot be restarted in their pods; empty where they can.
func (v *View) refusalOfProcesses() string {
	switch {
	case v.Job.Spec.Supervisor == nil:
		return "the job has no spec.supervisor, which restarts programs in their pods: ask for RestartJob"
	case v.KeepsSurvivors():
		return "spec.supervisor.survivors is Keep, so that no program is stopped that runs: ask for RestartPod, or RestartJob"
	case !v.AnySupervisor():
		return "no supervisor of the job is connected to the manager: ask for RestartJob, or see what `kubectl lockstep check` finds"
	}
	return ""
}

func openRequests(s *v1alpha1.TrainingJobStatus) int {
	n := 0
	for i := range s.Incidents {
		if s.Incidents[i].Outcome == "" && s.Incidents[i].RequestedAction != "" {
			n++
		}
	}
	return n
}

// Requested reports whether an incident has yet to do what a user asked for. Until then its ranks may be well.
func Requested(inc *v1alpha1.Incident) bool { return inc.RequestedAction != "" && !Restarted(inc) }

// openingStep is the step that an incident takes before those of its rule: a new attempt, where it is about the job as a whole, or
// what a user asked for.
func openingStep(inc *v1alpha1.Incident) (v1alpha1.Action, bool) {
	if rules.OfJob(inc.Trigger) {
		return v1alpha1.RestartJob, true
	}
	return inc.RequestedAction, inc.RequestedAction != ""
}
