// TrainingJobs, their queues, and the taints that Lockstep sets for them.

package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// over reports whether a job has ended, or is about to.
func over(job *v1alpha1.TrainingJob) bool {
	return job.DeletionTimestamp != nil || gang.Finished(&job.Status)
}

// queues looks at the queues of the jobs that have not ended.
func queues(c *Cluster, r *Result) {
	states := map[string]scheduling.QueueState{}
	for i := range c.Queues.Items {
		states[c.Queues.Items[i].Name] = c.Queues.Items[i].Status.State
	}
	jobsIn := map[string][]string{}
	for i := range c.TrainingJobs.Items {
		if job := &c.TrainingJobs.Items[i]; !over(job) && job.Spec.ManagedBy == "" {
			jobsIn[job.Spec.Queue] = append(jobsIn[job.Spec.Queue], full(job))
		}
	}
	r.Saw = fmt.Sprintf("%s of %s", lines.Count(len(jobsIn), "queue"), lines.Count(len(c.TrainingJobs.Items), "TrainingJob"))
	for _, name := range slices.Sorted(maps.Keys(jobsIn)) {
		switch state, ok := states[name]; {
		case !ok:
			r.problem("Queue/"+name, "It does not exist, and these TrainingJobs name it: "+some(jobsIn[name])+".",
				"Create the queue, or name another one in new jobs.")
		case state == scheduling.QueueStateClosed || state == scheduling.QueueStateClosing:
			r.problem("Queue/"+name, fmt.Sprintf("It is %s, and takes no job: %s can neither begin nor begin again.", state, some(jobsIn[name])),
				"Open the queue.", "vcctl queue operate --action open --name "+name)
		}
	}
}

// reactionTime is how long a manager may take to look at a job.
const reactionTime = time.Minute

// jobs finds jobs that no manager looks at: their pods would stay behind their gates.
func jobs(c *Cluster, r *Result) {
	r.Saw = lines.Count(len(c.TrainingJobs.Items), "TrainingJob")
	var unseen []string
	for i := range c.TrainingJobs.Items {
		job := &c.TrainingJobs.Items[i]
		if job.Spec.ManagedBy == "" && job.Status.ObservedGeneration != job.Generation && c.Now.Sub(changed(job)) > reactionTime {
			unseen = append(unseen, full(job))
		}
	}
	if len(unseen) > 0 {
		r.problem("TrainingJob/"+slices.Min(unseen), fmt.Sprintf(
			"No manager has looked at %s for a minute since it was created or changed: %s. No pod gets past its scheduling gate without one.",
			lines.Count(len(unseen), "job"), some(unseen)), "See that the manager runs, and what its log says of the job.")
	}
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

// taints finds taints of Lockstep's whose cause is gone, and DaemonSets that they keep away. The manager removes these taints at once, so one that is seen has been
// left behind.
func taints(c *Cluster, r *Result) {
	owners := map[string]*v1alpha1.TrainingJob{}
	for i := range c.TrainingJobs.Items {
		owners[policies.HoldKey(&c.TrainingJobs.Items[i])] = &c.TrainingJobs.Items[i]
	}
	quarantined := map[string]bool{}
	for _, h := range c.NodeHealths.Items {
		quarantined[h.Name] = h.Status.Verdict != nil && h.Status.Verdict.QuarantinedTime != nil
	}
	n := 0
	for _, node := range c.Nodes.Items {
		for _, taint := range node.Spec.Taints {
			var why string
			switch {
			case taint.Key == v1alpha1.TaintQuarantine:
				if !quarantined[node.Name] {
					why = "no NodeHealth says why"
				}
			case strings.HasPrefix(taint.Key, v1alpha1.HoldTaintPrefix):
				why = c.leftHold(taint.Value, owners[taint.Key])
			default:
				continue
			}
			n++
			if why != "" {
				r.problem("Node/"+node.Name, fmt.Sprintf("The taint %s=%s keeps jobs away, and %s.", taint.Key, taint.Value, why),
					"See that the manager runs: it removes the taint. Without one, remove it.",
					fmt.Sprintf("kubectl taint node %s %s:%s-", node.Name, taint.Key, taint.Effect))
			}
		}
	}
	r.Saw = fmt.Sprintf("%s of Lockstep's on %s", lines.Count(n, "taint"), lines.Count(len(c.Nodes.Items), "node"))
	r.keptAway(c.DaemonSets.Items)
}

// leftHold says why a hold should be gone; empty where it stands for a job that needs its node.
func (c *Cluster) leftHold(value string, owner *v1alpha1.TrainingJob) string {
	switch {
	case owner == nil:
		return "the TrainingJob that held the node does not exist"
	case over(owner):
		ended := ptr.Deref(cmp.Or(owner.DeletionTimestamp, owner.Status.CompletionTime), metav1.Time{})
		if c.Now.Sub(ended.Time) > reactionTime {
			return "TrainingJob " + full(owner) + ", which held the node, has ended"
		}
	case policies.HoldExpired(value, c.Now.Add(-reactionTime)):
		return "the time for which TrainingJob " + full(owner) + " held the node has passed"
	}
	return ""
}
