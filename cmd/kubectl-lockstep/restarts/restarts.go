// Package restarts makes the restart requests of TrainingJobs that users ask for, and tells what became of them.
package restarts

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/incident"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// maxPods is how many pods a request may name: the API's limit.
const maxPods = 32

// OnNode are the ranks of a job that a node holds, by its status.
func OnNode(job *v1alpha1.TrainingJob, node string) []gang.Rank {
	var out []gang.Rank
	gang.EachRank(gang.Effective(job, &job.Status), func(r gang.Rank) {
		if gang.NodeOf(job.Status.Placement, r) == node {
			out = append(out, r)
		}
	})
	return out
}

// Pods names ranks as a request does.
func Pods(ranks []gang.Rank) ([]v1alpha1.RequestedPod, error) {
	var out []v1alpha1.RequestedPod
	for _, r := range ranks {
		if p := (v1alpha1.RequestedPod{Task: r.Task, Index: r.Index}); !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	if len(out) > maxPods {
		return nil, fmt.Errorf("one request may name %d pods, and these are %d: ask for their task or for the whole job", maxPods, len(out))
	}
	return out, nil
}

// Check says why a job takes no request now; nil where it does.
func Check(job *v1alpha1.TrainingJob) error {
	pending := job.Spec.RestartRequest
	switch {
	case gang.Finished(&job.Status):
		return fmt.Errorf("TrainingJob %s has ended (%s): create a new one to train again", job.Name, job.Status.State)
	case job.Spec.Suspend:
		return fmt.Errorf("TrainingJob %s is suspended: `kubectl lockstep resume %s` creates all of its pods again", job.Name, job.Name)
	case pending != nil && !Answered(job, pending.ID):
		return fmt.Errorf("TrainingJob %s has a request that the manager has not seen yet (%s of %s): `kubectl lockstep check` finds out whether the manager runs",
			job.Name, pending.Action, Names(job, pending))
	}
	return nil
}

// Answered reports whether the status has an answer to a request.
func Answered(job *v1alpha1.TrainingJob, id string) bool {
	return job.Status.RestartRequest != nil && job.Status.RestartRequest.ID == id
}

// Patch is a merge patch that replaces the request of a job, as long as the job is the one that was read.
func Patch(job *v1alpha1.TrainingJob, request *v1alpha1.RestartRequest) (string, error) {
	fields := map[string]any{"id": request.ID, "action": request.Action, "pods": nil, "reason": nil} // null removes what an earlier request had
	if len(request.Pods) > 0 {
		fields["pods"] = request.Pods
	}
	if request.Reason != "" {
		fields["reason"] = request.Reason
	}
	out, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": job.ResourceVersion},
		"spec":     map[string]any{"restartRequest": fields},
	})
	return string(out), err
}

// Names tells which pods a request is about.
func Names(job *v1alpha1.TrainingJob, request *v1alpha1.RestartRequest) string {
	switch {
	case len(request.Pods) == 0:
		return "the whole job"
	case request.Action == v1alpha1.RequestedAction(v1alpha1.RestartTask):
		return tasks(job, request.Pods)
	}
	var names []string
	for _, p := range request.Pods {
		names = append(names, fmt.Sprintf("%s-%d", p.Task, p.Index))
	}
	return strings.Join(names, ", ")
}

// tasks names the tasks of pods, each with the number of its ranks.
func tasks(job *v1alpha1.TrainingJob, pods []v1alpha1.RequestedPod) string {
	var names []string
	for i := range job.Spec.Tasks {
		t := &job.Spec.Tasks[i]
		if slices.ContainsFunc(pods, func(p v1alpha1.RequestedPod) bool { return p.Task == t.Name }) {
			names = append(names, fmt.Sprintf("task %s (%d ranks)", t.Name, t.Replicas))
		}
	}
	return strings.Join(names, ", ")
}

// Ranks are those that a request names.
func Ranks(request *v1alpha1.RestartRequest) []gang.Rank {
	var out []gang.Rank
	for _, p := range request.Pods {
		out = append(out, gang.Rank{Task: p.Task, Index: p.Index})
	}
	return out
}

// Incident returns the incident with an id, and nil where the status has none, or has forgotten it.
func Incident(job *v1alpha1.TrainingJob, id int32) *v1alpha1.Incident {
	i := slices.IndexFunc(job.Status.Incidents, func(inc v1alpha1.Incident) bool { return inc.ID == id })
	if i < 0 {
		return nil
	}
	return &job.Status.Incidents[i]
}

// Stage is the state of a job, and the phase in which an incident is that is open: Recovering, WaitForRoom.
func Stage(job *v1alpha1.TrainingJob, inc *v1alpha1.Incident, now time.Time) string {
	state := string(job.Status.State)
	if phases := incident.PhasesAt(inc, now); len(phases) > 0 {
		state += ", " + string(phases[len(phases)-1].Phase)
	}
	return state
}

// leastAway is how long a job stays away at least from a HyperNode that it has left: docs/policies.md.
const leastAway = 10 * time.Minute

// StaysAway is how long a job stays away from a HyperNode that it leaves.
func StaysAway(job *v1alpha1.TrainingJob) time.Duration {
	return max(rules.Policies(job).Of("").ExcludeNode, leastAway)
}
