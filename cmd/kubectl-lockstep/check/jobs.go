package check

import (
	"fmt"
	"maps"
	"slices"
	"time"

	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// over reports whether a job has ended, or is about to.
func over(job *v1alpha1.TrainingJob) bool {
	return job.DeletionTimestamp != nil || gang.Finished(&job.Status)
}

// queues looks at the queues of the jobs that have not ended.
func queues(c *Cluster) (string, []Finding) {
	states := map[string]scheduling.QueueState{}
	for i := range c.Queues.Items {
		states[c.Queues.Items[i].Name] = c.Queues.Items[i].Status.State
	}
	jobsIn := map[string][]string{}
	for i := range c.TrainingJobs.Items {
		if job := &c.TrainingJobs.Items[i]; !over(job) {
			jobsIn[job.Spec.Queue] = append(jobsIn[job.Spec.Queue], job.Namespace+"/"+job.Name)
		}
	}
	var out []Finding
	for _, name := range slices.Sorted(maps.Keys(jobsIn)) {
		f := Finding{Severity: Problem, Subject: "Queue/" + name}
		switch state, ok := states[name]; {
		case !ok:
			f.What = "It does not exist, and these TrainingJobs name it: " + some(jobsIn[name]) + "."
			f.Fix = "Create the queue, or name another one in new jobs."
		case state == scheduling.QueueStateClosed || state == scheduling.QueueStateClosing:
			f.What = fmt.Sprintf("It is %s, and takes no job: %s can neither begin nor begin again.", state, some(jobsIn[name]))
			f.Fix, f.Command = "Open the queue.", "vcctl queue operate --action open --name "+name
		default:
			continue
		}
		out = append(out, f)
	}
	return fmt.Sprintf("%s of %s", count(len(jobsIn), "queue"), count(len(c.TrainingJobs.Items), "TrainingJob")), out
}

// reactionTime is how long a manager may take to look at a job.
const reactionTime = time.Minute

// jobs finds jobs that no manager looks at: their pods would stay behind their gates.
func jobs(c *Cluster) (string, []Finding) {
	var unseen []string
	for i := range c.TrainingJobs.Items {
		job := &c.TrainingJobs.Items[i]
		if job.Status.ObservedGeneration != job.Generation && c.Now.Sub(changed(job)) > reactionTime {
			unseen = append(unseen, job.Namespace+"/"+job.Name)
		}
	}
	saw := count(len(c.TrainingJobs.Items), "TrainingJob")
	if len(unseen) == 0 {
		return saw, nil
	}
	return saw, []Finding{{
		Severity: Problem, Subject: "TrainingJob/" + slices.Min(unseen),
		What: fmt.Sprintf("No manager has looked at %s for a minute since it was created or changed: %s. No pod gets past its scheduling gate without one.", count(len(unseen), "job"), some(unseen)),
		Fix:  "See that the manager runs, and what its log says of the job.",
	}}
}

// changed is when the spec of a job was last written.
func changed(job *v1alpha1.TrainingJob) time.Time {
	at := job.CreationTimestamp.Time
	for _, m := range job.ManagedFields {
		if m.Subresource == "" && m.Time != nil && m.Time.After(at) {
			at = m.Time.Time
		}
	}
	return at
}
