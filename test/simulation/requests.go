package simulation

import (
	"fmt"
	"slices"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// What users ask for beside the restart policy, and how that is checked.

// requestRestart is a user who asks for a restart or a move of pods, sometimes of ones that the job has not.
func (t *tenant) requestRestart() {
	r := &v1alpha1.RestartRequest{ID: fmt.Sprint(t.rng.Uint64()), Action: []v1alpha1.RequestedAction{
		"RestartPod", "MigratePod", "RestartPod", "MigratePod", "RestartPartition", "RestartTask", "RestartJob", "RelocateJob",
	}[t.rng.IntN(8)]}
	if r.Action != "RestartJob" && r.Action != "RelocateJob" {
		for range 1 + t.rng.IntN(2) {
			task := &t.job.Spec.Tasks[t.rng.IntN(len(t.job.Spec.Tasks))]
			p := v1alpha1.RequestedPod{Task: task.Name, Index: int32(t.rng.IntN(int(task.Replicas) + 1))}
			if !slices.Contains(r.Pods, p) {
				r.Pods = append(r.Pods, p)
			}
		}
	}
	t.edit(func(job *v1alpha1.TrainingJob) { job.Spec.RestartRequest = r })
	t.changed("a user asks for %s of %v", r.Action, r.Pods)
}

// byRequest reports whether a step of an incident is what a user asked for.
func byRequest(inc *v1alpha1.Incident, step v1alpha1.FiredStep) bool {
	for _, f := range inc.Steps {
		if f == step {
			return inc.Trigger == v1alpha1.RestartRequested && (f.Action == inc.RequestedAction || f.Action == v1alpha1.RestartJob)
		}
		if !f.DryRun {
			return false
		}
	}
	return false
}

// asksFor reports whether the request of an incident that a record opens names a rank.
func (r *record) asksFor(inc *v1alpha1.Incident, of rank) bool {
	answer, request := r.s.RestartRequest, r.o.Job.Spec.RestartRequest
	return answer != nil && request != nil && answer.Incident == inc.ID && answer.ID == request.ID &&
		slices.Contains(request.Pods, v1alpha1.RequestedPod{Task: of.task, Index: of.index})
}

// checkRequest checks that each request is answered once, and that no incident does what nobody asked for.
func (r *record) checkRequest() {
	was, is := r.old.RestartRequest, r.s.RestartRequest
	answered := is != nil && (was == nil || was.ID != is.ID)
	if was != nil && !answered {
		r.require(Once, is != nil && was.Incident == is.Incident && was.Message == is.Message, "the answer to request %s changes", was.ID)
	}
	if answered {
		r.require(Once, !r.ledger.answered[is.ID], "request %s is answered twice", is.ID)
		r.ledger.answered[is.ID] = true
		r.happened(map[bool]string{true: "request is refused", false: "request is carried out"}[is.Incident == 0])
	}
	for i := range r.s.Incidents {
		inc := &r.s.Incidents[i]
		if old := incidentOf(r.old, inc.ID); old.ID == 0 && inc.Trigger == v1alpha1.RestartRequested {
			r.require(Evidence, answered && r.isAskedFor(inc), "incident %d does what nobody asked for: %s", inc.ID, inc.RequestedAction)
		}
	}
}

// isAskedFor reports whether an incident is what the spec asks for and the status answers with.
func (r *record) isAskedFor(inc *v1alpha1.Incident) bool {
	request, answer := r.o.Job.Spec.RestartRequest, r.s.RestartRequest
	return request != nil && answer.ID == request.ID && answer.Incident == inc.ID && inc.RequestedAction == v1alpha1.Action(request.Action)
}
