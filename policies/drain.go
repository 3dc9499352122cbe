// Drains: which pods are kept from eviction until their ranks have left a cordoned node.

package policies

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/instant"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// drainWaits is for how long after the cordon of a node a job may keep its pods there from eviction.
const drainWaits = time.Hour

// Protection is which pods of a job a PodDisruptionBudget keeps from eviction: those of some tasks, or none.
type Protection struct{ Tasks []string }

// protection is what the PodDisruptionBudget of the job should keep from eviction; nil where it does so already.
func (j job) protection(s *v1alpha1.TrainingJobStatus) *Protection {
	if tasks := j.protected(s); !slices.Equal(tasks, j.ProtectedTasks) {
		return &Protection{tasks}
	}
	return nil
}

// protected are the tasks whose ranks a rule moves from cordoned nodes. There is none while a drain has waited for too long.
func (j job) protected(s *v1alpha1.TrainingJobStatus) (tasks []string) {
	if j.stopped(s) || j.DryRun {
		return nil
	}
	for i := range j.Job.Spec.Tasks {
		task := j.Job.Spec.Tasks[i].Name
		f := rules.Failure{Event: v1alpha1.NodeCordoned, Class: v1alpha1.ClassMaintenance, Rank: gang.Rank{Task: task}}
		if rule, ok := rules.Match(j.Policy(task).Rules, f); ok && !rules.Ignores(rule) {
			tasks = append(tasks, task)
		}
	}
	slices.Sort(tasks)
	if until := j.drainWaitsUntil(tasks); !until.IsZero() && !until.After(j.Now) {
		return nil
	}
	return tasks
}

// nextProtection is when a drain will have waited for too long; zero for never.
func (j job) nextProtection() time.Time {
	if until := j.drainWaitsUntil(j.ProtectedTasks); until.After(j.Now) {
		return until
	}
	return time.Time{}
}

// drainWaitsUntil is until when the drain of a node with ranks of some tasks may be kept waiting, of the first such node; zero for none, and where it is not
// known since when a node is cordoned: the control plane notes that a moment later, by a taint.
func (j job) drainWaitsUntil(tasks []string) (until time.Time) {
	for i := range j.Pods {
		p := &j.Pods[i]
		if p.Spare || p.Finished() || !slices.Contains(tasks, p.Task) {
			continue
		}
		for _, taint := range j.Nodes[p.Node].Taints {
			if taint.Key == corev1.TaintNodeUnschedulable && taint.TimeAdded != nil {
				until = instant.Earliest(until, taint.TimeAdded.Add(drainWaits))
			}
		}
	}
	return until
}
