// Ranks: the places of a job's pods.

package gang

import (
	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// Rank names one pod's place in the gang, whatever pod fills it.
type Rank struct {
	Task  string
	Index int32
}

// SpareRank names the place of a spare: the spares of a task are a task of their own.
func SpareRank(task string, index int32) Rank { return Rank{task + v1alpha1.SpareSuffix, index} }

// EachRank calls f for every rank that a job asks for, in order, its spares apart.
func EachRank(job *v1alpha1.TrainingJob, f func(Rank)) {
	for i := range job.Spec.Tasks {
		task := &job.Spec.Tasks[i]
		for index := range task.Replicas {
			f(Rank{task.Name, index})
		}
	}
}

// Within reports whether a list has an index: what pods and statuses say may be anything.
func Within[T any](index int32, list []T) bool { return index >= 0 && int(index) < len(list) }
