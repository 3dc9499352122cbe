// The subject: which rank is asked about.

package why

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// Subject is the rank that is asked about, and the name of the pod of it that is meant.
type Subject struct {
	Rank gang.Rank
	// Attempt of the pod.
	Attempt int32
	Pod     string
}

// Find finds the rank that a text names: as worker-3, as the name of a pod, or as pod/NAME. The second result is false where
// the job has no such task.
func Find(job *v1alpha1.TrainingJob, text string) (Subject, bool) {
	text = strings.TrimPrefix(text, "pod/")
	if rank, ok := findRank(job, text); ok {
		attempt := max(1, job.Status.Attempt)
		return Subject{Rank: rank, Attempt: attempt, Pod: gang.PodName(job, attempt, rank)}, true
	}
	rest, ok := strings.CutPrefix(text, job.Name+"-")
	if !ok {
		return Subject{}, false
	}
	number, name, _ := strings.Cut(rest, "-")
	attempt, err := strconv.ParseInt(number, 10, 32)
	rank, found := findRank(job, name)
	return Subject{Rank: rank, Attempt: int32(attempt), Pod: text}, err == nil && attempt > 0 && found
}

// findRank finds the rank of a name such as worker-3, or worker-spare-0 for a spare.
func findRank(job *v1alpha1.TrainingJob, text string) (gang.Rank, bool) {
	at := strings.LastIndex(text, "-")
	if at < 0 {
		return gang.Rank{}, false
	}
	index, err := strconv.ParseUint(text[at+1:], 10, 31)
	if err != nil {
		return gang.Rank{}, false
	}
	for i := range job.Spec.Tasks {
		t := &job.Spec.Tasks[i]
		if name := text[:at]; name == t.Name || (ptr.Deref(t.Spares, 0) > 0 && name == t.Name+v1alpha1.SpareSuffix) {
			return gang.Rank{Task: name, Index: int32(index)}, true
		}
	}
	return gang.Rank{}, false
}

// Ranks tells which names Find knows, for people.
func Ranks(job *v1alpha1.TrainingJob) string {
	var out []string
	for i := range job.Spec.Tasks {
		t := &job.Spec.Tasks[i]
		if t.Replicas == 1 {
			out = append(out, t.Name+"-0")
		} else {
			out = append(out, fmt.Sprintf("%s-0 to %s-%d", t.Name, t.Name, t.Replicas-1))
		}
	}
	return strings.Join(out, ", ")
}

// name of the rank, such as worker-3.
func (sub Subject) name() string { return fmt.Sprintf("%s-%d", sub.Rank.Task, sub.Rank.Index) }

// task of the job that a rank belongs to, be it as a spare.
func (s *Snapshot) task(r gang.Rank) (task *v1alpha1.Task, spare bool) {
	for i := range s.Job.Spec.Tasks {
		t := &s.Job.Spec.Tasks[i]
		if t.Name == r.Task {
			return t, false
		}
		if t.Name+v1alpha1.SpareSuffix == r.Task {
			return t, true
		}
	}
	return nil, false
}
