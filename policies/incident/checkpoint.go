// Checkpoints: which requests are open, who is asked, and who has answered.

package incident

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// Asking reports whether an incident waits for a checkpoint.
func Asking(inc *v1alpha1.Incident) bool {
	return inc.Checkpoint != nil && inc.Checkpoint.Outcome == ""
}

// Proactive reports whether every rank that an incident would move still works: of one that
// fell there is nothing to save, nor of a program that has ended, or is stuck, in a pod that is still ready.
func (v *View) Proactive(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) bool {
	return v.EveryRankOf(inc, func(r gang.Rank) bool {
		p := v.Pod(r)
		return v.State(s, r) >= gang.Working || (v.answers(s, r) && p.Ready && !v.ProcessFailed(p) && !v.isLate(s, p))
	})
}

// answers reports whether the program of a rank can be asked.
func (v *View) answers(s *v1alpha1.TrainingJobStatus, r gang.Rank) bool {
	p := v.Pod(r)
	return p != nil && p.Phase == corev1.PodRunning && p.IP != "" && !p.Deleting && p.Disrupted == "" &&
		!gang.IsStale(s, p) && v.Nodes[p.Node].Ready
}

// Asked are the pods that spec.checkpoint names and that can be asked.
func (v *View) Asked(s *v1alpha1.TrainingJobStatus) []*gang.Pod {
	var out []*gang.Pod
	of := v.Job.Spec.Checkpoint.Pods
	gang.EachRank(v.Effective, func(r gang.Rank) {
		named := of == nil || ((len(of.Tasks) == 0 || slices.Contains(of.Tasks, r.Task)) && (of.Ranks != v1alpha1.CheckpointFirst || r.Index == 0))
		if named && v.answers(s, r) {
			out = append(out, v.Pod(r))
		}
	})
	return out
}

// Saved is the number of pods that are known to have saved.
func (v *View) Saved(inc *v1alpha1.Incident) int32 {
	var n int32
	id := RequestID(v.Job, inc)
	for i := range v.Pods {
		if v.Answers[gang.AnswerKey{Request: id, Pod: v.Pods[i].UID}].Saved {
			n++
		}
	}
	return n
}

// RequestID names the request that an incident waits for. Its time is kept to the microsecond.
func RequestID(job *v1alpha1.TrainingJob, inc *v1alpha1.Incident) string {
	var at int64
	if inc.Checkpoint != nil {
		at = inc.Checkpoint.RequestTime.UnixMicro()
	}
	return fmt.Sprintf("%s-%d-%d", job.UID, inc.ID, at)
}

// Requests are the IDs of the requests for a checkpoint that a job waits for.
func Requests(job *v1alpha1.TrainingJob, s *v1alpha1.TrainingJobStatus) []string {
	var out []string
	for i := range s.Incidents {
		if inc := &s.Incidents[i]; inc.Outcome == "" && Asking(inc) {
			out = append(out, RequestID(job, inc))
		}
	}
	return out
}
