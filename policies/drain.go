// Drains: which pods are kept from eviction until their ranks have left a cordoned node, and which are left to the drain then.

package policies

import (
	"slices"
	"strconv"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/incident"
	"github.com/lockstep-dev/lockstep/policies/instant"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// drainWaits is for how long after the cordon of a node a job may keep its pods there from eviction.
const drainWaits = time.Hour

// drainAsksWithin is how soon a drain asks again for an eviction that was refused: kubectl does every 5 s (k8s.io/kubectl/pkg/drain).
const drainAsksWithin = 6 * time.Second

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

// drainWaitsUntil is until when a pod of some tasks may keep the drain of its node waiting. It is zero for a pod that is no rank of them, and where it is
// not known since when the node is cordoned: the control plane notes that a moment later, by a taint.
func (j job) drainWaitsUntil(p *gang.Pod, tasks []string) time.Time {
	since := j.Nodes[p.Node].CordonedSince
	if p.Spare || p.Finished() || since.IsZero() || !slices.Contains(tasks, p.Task) {
		return time.Time{}
	}
	return since.Add(drainWaits)
}

// leftToDrainUntil is until when a pod that is to be deleted is left to the drain of its node, which may evict it now; zero where no drain waits for it. kubectl asks by the
// pod's name: had Volcano made the next one meanwhile, it would evict that one from its node, or wait until it may.
func (j job) leftToDrainUntil(s *v1alpha1.TrainingJobStatus, p *gang.Pod) (until time.Time) {
	if p.Deleting || !j.Nodes[p.Node].Unschedulable || !slices.Contains(j.ProtectedTasks, p.Task) || !j.over(s, p) {
		return time.Time{}
	}
	for i := range s.Incidents {
		inc := &s.Incidents[i]
		until = instant.Latest(until, incident.LastRestart(inc))
		if inc.EndTime != nil {
			until = instant.Latest(until, inc.EndTime.Time)
		}
	}
	return until.Add(drainAsksWithin)
}

// evictable are the pods that are left to the drains of their nodes, and have yet to be labelled as no rank's, by which their job's budget lets them go.
func (j job) evictable(s *v1alpha1.TrainingJobStatus, missing []v1alpha1.NodeHold) (out []Relabel) {
	for i := range j.Pods {
		p := &j.Pods[i]
		if !p.SpareLabel && j.Now.Before(j.leftToDrainUntil(s, p)) && !j.isDeletedLater(s, p, j.Dead(s, p)) && len(holdFirst(s, missing, p)) == 0 {
			out = append(out, Relabel{Pod: p.Name, UID: p.UID, Spare: true})
		}
	}
	return out
}
