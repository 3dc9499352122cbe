// Package gang is the ranks of a job as they are: an Observation of the job and its world, the state of each rank, and its
// incarnation. It knows nothing of incidents, rules or steps.
package gang

import (
	"math"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// Gang is an observation of one attempt, by rank. It is computed for one status, and does not follow what is changed in that.
type Gang struct {
	*Observation
	// Effective is the job at the size that it has now.
	Effective *v1alpha1.TrainingJob
	// VolcanoJob of the attempt; nil where there is none.
	VolcanoJob *VolcanoJob

	epoch      int64 // of the status
	restarting bool  // Restarts, of the status
	heard      bool  // AnySupervisor
	heardSince time.Time
	unheardAt  time.Time
	tasks      []TaskPods
	outages    *outage // what outage has found
	// training is what trains has found, and hang what HangsBy has.
	training *training
	hang     *hang
}

// TaskPods are the pods of one task, by index; nil where a rank has none.
type TaskPods struct {
	Name string
	Pods []*Pod
}

// TaskPods returns the pods of a task, or of the spares of one; nil for a name that is neither.
func (g *Gang) TaskPods(task string) *TaskPods {
	for i := range g.tasks {
		if g.tasks[i].Name == task {
			return &g.tasks[i]
		}
	}
	return nil
}

// Pod is the pod of a rank; nil where it has none.
func (g *Gang) Pod(r Rank) *Pod {
	if t := g.TaskPods(r.Task); t != nil && Within(r.Index, t.Pods) {
		return t.Pods[r.Index]
	}
	return nil
}

// Exists reports whether the job has a rank at its present size.
func (g *Gang) Exists(r Rank) bool {
	t := g.TaskPods(r.Task)
	return t != nil && Within(r.Index, t.Pods)
}

// EachSpare calls f for every spare of a task.
func (g *Gang) EachSpare(task string, f func(Rank, *Pod)) {
	t := g.TaskPods(task + v1alpha1.SpareSuffix)
	if t == nil {
		return
	}
	for i, p := range t.Pods {
		f(Rank{t.Name, int32(i)}, p)
	}
}

// Task is the spec of a task; nil for a name that is none.
func (g *Gang) Task(name string) *v1alpha1.Task {
	for i := range g.Effective.Spec.Tasks {
		if g.Effective.Spec.Tasks[i].Name == name {
			return &g.Effective.Spec.Tasks[i]
		}
	}
	return nil
}

// PartitionOf is the partition that a rank is in; negative for a task without partitions.
func (g *Gang) PartitionOf(r Rank) int32 {
	if t := g.Task(r.Task); t != nil && t.Partition != nil {
		return r.Index / t.Partition.Size
	}
	return -1
}

// PartitionBounds are the first and the last index of the ranks in the partition of one, or in its task where that has no partitions.
func PartitionBounds(t *v1alpha1.Task, index int32) (first, last int32) {
	if t == nil || t.Partition == nil {
		return 0, math.MaxInt32
	}
	first = index / t.Partition.Size * t.Partition.Size
	return first, first + t.Partition.Size - 1
}

// IsHard reports whether a topology must be kept, and not only preferred.
func IsHard(t *v1alpha1.NetworkTopology) bool { return t != nil && t.Mode == v1alpha1.TopologyHard }

// HasHardTopology reports whether a task's pods have to be in one HyperNode with others: of the job, or of their partition.
func HasHardTopology(job *v1alpha1.TrainingJob, t *v1alpha1.Task) bool {
	return IsHard(job.Spec.NetworkTopology) || (t != nil && t.Partition != nil && IsHard(t.Partition.NetworkTopology))
}

// outage is what the ranks of a job show of its gang's being down. Two ranks of a kind are enough to answer for any
// rank what the others show.
type outage struct {
	down   []Rank // ranks whose process does not run, two at most
	exits  []exit // the last exits, the latest first, two at most
	steps  stepping
	silent bool // the node of some rank does not answer
	// starting are ranks whose pods have their nodes and have yet to start there, two at most.
	starting []Rank
}

type exit struct {
	rank Rank
	at   time.Time
}
