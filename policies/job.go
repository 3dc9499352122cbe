// The job: one look at it, with all that is known of its incidents.

package policies

import (
	"slices"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/incident"
)

// job is one look at a job: at what is observed, and at what its status says of that.
type job struct{ *incident.View }

func jobOf(o *gang.Observation, s *v1alpha1.TrainingJobStatus) job { return job{incident.ViewOf(o, s)} }

// stopped reports whether a job should have no pods.
func (j job) stopped(s *v1alpha1.TrainingJobStatus) bool {
	return gang.Finished(s) || j.Job.Spec.Suspend
}

func (j job) queued() bool { return j.PodGroup == nil || j.PodGroup.Pending }

// keepsPlace reports whether the job recovers the place in the queue that it had.
func keepsPlace(s *v1alpha1.TrainingJobStatus) bool {
	return s.Placement != nil && incident.AnyOpen(s) && !yielding(s)
}

// alive are the ranks of which another pod than the present one, of any attempt, may be running. Which rank a pod had two attempts ago is not known
// where spares take over.
func (j job) alive(s *v1alpha1.TrainingJobStatus) map[gang.Rank]bool {
	out := map[gang.Rank]bool{}
	for i := range j.Pods {
		p := &j.Pods[i]
		if own := j.Pod(p.Rank()); p.Gated || p.Finished() || (own != nil && own.UID == p.UID) {
			continue
		}
		out[p.Rank()] = true
		if j.TakesOver(p.Task) && p.Attempt < s.Attempt-1 {
			for index := range j.TaskPods(p.Task).Pods {
				out[gang.Rank{Task: p.Task, Index: int32(index)}] = true
			}
		}
	}
	return out
}

// yielding reports whether the job has given up its place in the queue: it was preempted, or is being resumed.
func yielding(s *v1alpha1.TrainingJobStatus) bool {
	return slices.ContainsFunc(s.Incidents, func(inc v1alpha1.Incident) bool {
		return inc.Outcome == "" && (inc.Trigger == v1alpha1.JobResumed || inc.Class == v1alpha1.ClassPreemption)
	})
}
