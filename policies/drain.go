// Drains: which pods are kept from eviction until their ranks have left a cordoned node, and which are left to the drain then.

package policies

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/instant"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// drainWaits is for how long after the cordon of a node a job may keep its pods there from eviction.
const drainWaits = time.Hour

// drainAsksEvery is how often a drain asks for an eviction that was refused, where the observation does not say: as kubectl does (k8s.io/kubectl/pkg/drain).
const drainAsksEvery = 5 * time.Second

// drainAsksLate is how much later a drain may ask. Since when a pod may be evicted is known to the second.
const drainAsksLate = 2 * time.Second

// Protection is which pods of a job a PodDisruptionBudget keeps from eviction.
type Protection struct {
	// Tasks of the pods; empty for no pods.
	Tasks []string
	// Except pods with these indexes, which Volcano has given them. A budget selects pods by labels, and no label has both the task and the index.
	Except []string
}

// protection is what the PodDisruptionBudget of the job should keep from eviction; nil where it does so already.
func (j job) protection(s *v1alpha1.TrainingJobStatus) *Protection {
	p := Protection{Tasks: j.protected(s)}
	p.Except = j.waitedTooLong(p.Tasks)
	if slices.Equal(p.Tasks, j.ProtectedTasks) && slices.Equal(p.Except, j.UnprotectedIndexes) {
		return nil
	}
	return &p
}

// protected are the tasks whose ranks a rule moves from cordoned nodes.
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
	return tasks
}

// waitedTooLong are the indexes of the pods of some tasks that the drains of their nodes have waited for too long.
func (j job) waitedTooLong(tasks []string) (indexes []string) {
	for i := range j.Pods {
		if until := j.drainWaitsUntil(&j.Pods[i], tasks); !until.IsZero() && !until.After(j.Now) {
			indexes = append(indexes, strconv.Itoa(int(j.Pods[i].Slot.Index)))
		}
	}
	slices.Sort(indexes)
	return slices.Compact(indexes)
}

// nextProtection is when the next drain will have waited for too long; zero for never.
func (j job) nextProtection() (next time.Time) {
	for i := range j.Pods {
		if until := j.drainWaitsUntil(&j.Pods[i], j.ProtectedTasks); until.After(j.Now) {
			next = instant.Earliest(next, until)
		}
	}
	return next
}

// drainWaitsUntil is until when a pod of some tasks may keep a drain of its node waiting, also where it is not to leave it: others than those that name the pods that do may
// drain a node, too. It is zero for a pod that is no rank of them, and where it is not known since when the node is cordoned: the control plane notes that a moment later, by a
// taint.
func (j job) drainWaitsUntil(p *gang.Pod, tasks []string) time.Time {
	since, _ := j.Leaves(p)
	if p.Spare || p.Finished() || since.IsZero() || !slices.Contains(tasks, p.Task) {
		return time.Time{}
	}
	return since.Add(drainWaits)
}

// isLeftToDrain reports whether a drain may wait for a pod that is to be deleted. kubectl asks for evictions by name: had Volcano made the next pod of that name meanwhile, the
// drain would evict that one from its node, or wait until it may. Of a pod that is not to leave its node that is not expected.
func (j job) isLeftToDrain(s *v1alpha1.TrainingJobStatus, p *gang.Pod) bool {
	n := j.Nodes[p.Node]
	_, leaves := j.Leaves(p)
	return leaves && !p.Deleting && !p.SpareLabel && n.Ready && slices.Contains(j.ProtectedTasks, p.Task) && j.over(s, p)
}

// evictedBy is by when a drain will have evicted a pod that it waits for; zero where it may not yet.
func (j job) evictedBy(p *gang.Pod) time.Time {
	if p.EvictableFrom.IsZero() || p.EvictableFrom.After(j.Now) {
		return time.Time{}
	}
	return p.EvictableFrom.Add(cmp.Or(j.Nodes[p.Node].EvictionRetry, drainAsksEvery) + drainAsksLate)
}
