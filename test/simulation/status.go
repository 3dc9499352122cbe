package simulation

import (
	"cmp"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// What a status says, read as its API comments and docs/policies.md document it.

func isTrue(s *v1alpha1.TrainingJobStatus, condition string) bool {
	return meta.IsStatusConditionTrue(s.Conditions, condition)
}

func isFinished(s *v1alpha1.TrainingJobStatus) bool {
	return isTrue(s, v1alpha1.ConditionCompleted) || isTrue(s, v1alpha1.ConditionFailed)
}

func taskStatus(s *v1alpha1.TrainingJobStatus, name string) v1alpha1.TaskStatus {
	if i := slices.IndexFunc(s.Tasks, func(t v1alpha1.TaskStatus) bool { return t.Name == name }); i >= 0 {
		return s.Tasks[i]
	}
	return v1alpha1.TaskStatus{}
}

// incarnationOf is the incarnation that a rank should have.
func incarnationOf(s *v1alpha1.TrainingJobStatus, r rank) int32 {
	t := taskStatus(s, r.task)
	for _, own := range t.Ranks {
		if inSet(own.Indexes, r.index) {
			return max(t.Incarnation, own.Incarnation)
		}
	}
	return t.Incarnation
}

// replaced reports whether a status asks for the pod of a rank to be replaced. A gated pod has no incarnation yet.
func replaced(s *v1alpha1.TrainingJobStatus, p *gang.Pod) bool {
	return !p.Gated && p.Incarnation < incarnationOf(s, rankOf(p))
}

// replicasOf is the number of ranks that a task has: what a ShrinkTask step gave up is not asked for.
func replicasOf(task *v1alpha1.Task, s *v1alpha1.TrainingJobStatus) int32 {
	return task.Replicas - taskStatus(s, task.Name).Shrunk
}

// ranksOf are the ranks of a job, spares apart.
func ranksOf(job *v1alpha1.TrainingJob, s *v1alpha1.TrainingJobStatus) []rank {
	var out []rank
	for i := range job.Spec.Tasks {
		for index := range replicasOf(&job.Spec.Tasks[i], s) {
			out = append(out, rank{job.Spec.Tasks[i].Name, index})
		}
	}
	return out
}

func sparesOf(job *v1alpha1.TrainingJob) int {
	n := int32(0)
	for i := range job.Spec.Tasks {
		n += ptr.Deref(job.Spec.Tasks[i].Spares, 0)
	}
	return int(n)
}

// nodeOf is the node that a rank lives on by status; empty where it was never placed.
func nodeOf(s *v1alpha1.TrainingJobStatus, r rank) string {
	if s.Placement == nil {
		return ""
	}
	for _, t := range s.Placement.Tasks {
		if t.Name == r.task && r.index >= 0 && int(r.index) < len(t.Nodes) {
			return t.Nodes[r.index]
		}
	}
	return ""
}

// homeOf is the HyperNode that a rank belongs in: its partition's, else the job's; empty for none.
func homeOf(job *v1alpha1.TrainingJob, s *v1alpha1.TrainingJobStatus, r rank) string {
	if s.Placement == nil {
		return ""
	}
	for i := range job.Spec.Tasks {
		task := &job.Spec.Tasks[i]
		if task.Name != r.task || task.Partition == nil || i >= len(s.Placement.Tasks) {
			continue
		}
		n, homes := int(r.index/task.Partition.Size), s.Placement.Tasks[i].Partitions
		if n < len(homes) && homes[n].HyperNode != "" {
			return homes[n].HyperNode
		}
	}
	return s.Placement.HyperNode
}

func isExcluded(s *v1alpha1.TrainingJobStatus, node string) bool {
	return slices.ContainsFunc(s.ExcludedNodes, func(e v1alpha1.ExcludedNode) bool { return e.Name == node })
}

// hasLeft reports whether a node is of a home that the job relocated from.
func (t *tenant) hasLeft(node string) bool {
	return slices.ContainsFunc(t.job.Status.LeftHyperNodes, func(l v1alpha1.LeftHyperNode) bool { return slices.Contains(t.members[l.Name], node) })
}

// asStored is a status as it comes back from the API server: times lose what their format does not keep.
func asStored(s *v1alpha1.TrainingJobStatus) v1alpha1.TrainingJobStatus {
	out := s.DeepCopy()
	truncateTimes(reflect.ValueOf(out).Elem())
	return *out
}

func truncateTimes(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			truncateTimes(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			truncateTimes(v.Index(i))
		}
	case reflect.Struct:
		switch at := v.Addr().Interface().(type) {
		case *metav1.Time:
			at.Time = at.Truncate(time.Second)
		case *metav1.MicroTime:
			at.Time = at.Truncate(time.Microsecond)
		default:
			for _, field := range v.Fields() {
				truncateTimes(field)
			}
		}
	}
}

func asJSON(v any) string {
	out, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(out)
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

func seconds(n int32) time.Duration { return time.Duration(n) * time.Second }
