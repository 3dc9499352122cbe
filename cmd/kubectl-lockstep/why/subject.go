// The subject: which rank is asked about.

package why

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
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
// the job has no such rank. Of a pod that need not exist any more, the rank may be one that the job had before it shrank.
func Find(job *v1alpha1.TrainingJob, text string) (Subject, bool) {
	text = strings.TrimPrefix(text, "pod/")
	if rank, ok := findRank(job, text); ok && rank.Index < size(job, rank.Task) {
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

// findRank finds the rank of a name such as worker-3, or worker-spare-0 for a spare, whatever its index.
func findRank(job *v1alpha1.TrainingJob, text string) (gang.Rank, bool) {
	at := strings.LastIndex(text, "-")
	if at < 0 {
		return gang.Rank{}, false
	}
	index, err := strconv.ParseUint(text[at+1:], 10, 31)
	if err != nil || size(job, text[:at]) == 0 {
		return gang.Rank{}, false
	}
	return gang.Rank{Task: text[:at], Index: int32(index)}, true
}

// size is how many ranks a task has, or how many spares where the name is that of the spares of a task; 0 where there is none.
func size(job *v1alpha1.TrainingJob, name string) int32 {
	for i := range job.Spec.Tasks {
		switch t := &job.Spec.Tasks[i]; name {
		case t.Name:
			return t.Replicas
		case t.Name + v1alpha1.SpareSuffix:
			return ptr.Deref(t.Spares, 0)
		}
	}
	return 0
}

// groups are the names of the tasks, each followed by that of its spares where it has some.
func groups(job *v1alpha1.TrainingJob) []string {
	var out []string
	for i := range job.Spec.Tasks {
		t := &job.Spec.Tasks[i]
		out = append(out, t.Name)
		if ptr.Deref(t.Spares, 0) > 0 {
			out = append(out, t.Name+v1alpha1.SpareSuffix)
		}
	}
	return out
}

// Ranks tells which names Find knows, for people.
func Ranks(job *v1alpha1.TrainingJob) string {
	var out []string
	for _, name := range groups(job) {
		if last := size(job, name) - 1; last == 0 {
			out = append(out, name+"-0")
		} else {
			out = append(out, fmt.Sprintf("%s-0 to %s-%d", name, name, last))
		}
	}
	return strings.Join(out, ", ")
}

// RankNames are the names of all ranks and spares of a job.
func RankNames(job *v1alpha1.TrainingJob) []string {
	var out []string
	for _, name := range groups(job) {
		for index := range size(job, name) {
			out = append(out, fmt.Sprintf("%s-%d", name, index))
		}
	}
	return out
}

// PodNames are the names of the pods of a job's present attempt.
func PodNames(job *v1alpha1.TrainingJob) []string {
	var out []string
	for _, name := range RankNames(job) {
		out = append(out, fmt.Sprintf("%s-%s", gang.VolcanoJobName(job, max(1, job.Status.Attempt)), name))
	}
	return out
}

// Knows reports whether the pod that is asked about exists, or must have existed, or anything that is recorded tells of it. A rank
// that the job had before it shrank is known by its events and incidents.
func (s *Snapshot) Knows(sub Subject) bool {
	if s.pod(sub) != nil || !s.couldRead("pods") || (sub.Attempt <= max(1, s.Job.Status.Attempt) && sub.Rank.Index < size(s.Job, sub.Rank.Task)) {
		return true
	}
	if slices.ContainsFunc(s.Events, func(e corev1.Event) bool { return e.InvolvedObject.Kind == "Pod" && e.InvolvedObject.Name == sub.Pod }) {
		return true
	}
	return slices.ContainsFunc(s.Job.Status.Incidents, func(inc v1alpha1.Incident) bool {
		return slices.ContainsFunc(inc.Pods, func(p v1alpha1.IncidentPod) bool { return p.Name == sub.Pod })
	})
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
