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

// Find finds the rank that a text names: as worker-3, as the name of a pod, or as pod/NAME. The error says which ranks the job has. Of a
// pod that need not exist any more, the rank may be one that the job had before it shrank.
func Find(job *v1alpha1.TrainingJob, text string) (Subject, error) {
	name := strings.TrimPrefix(text, "pod/")
	if rank, ok := findRank(job, name); ok && rank.Index < groupOf(job, rank.Task).size {
		attempt := max(1, job.Status.Attempt)
		return Subject{Rank: rank, Attempt: attempt, Pod: gang.PodName(job, attempt, gang.SlotOf(&job.Status, rank))}, nil
	}
	if rest, ok := strings.CutPrefix(name, job.Name+"-"); ok {
		number, rest, _ := strings.Cut(rest, "-")
		attempt, err := strconv.ParseInt(number, 10, 32)
		if rank, found := findRank(job, rest); err == nil && attempt > 0 && found {
			if int32(attempt) == job.Status.Attempt {
				rank = gang.RankOf(&job.Status, rank)
			}
			return Subject{Rank: rank, Attempt: int32(attempt), Pod: name}, nil
		}
	}
	return Subject{}, fmt.Errorf("%q names no rank of TrainingJob %s: give one of %s, or the name of its pod", text, job.Name, Ranks(job))
}

// findRank finds the rank of a name such as worker-3, or worker-spare-0 for a spare, whatever its index.
func findRank(job *v1alpha1.TrainingJob, text string) (gang.Rank, bool) {
	at := max(0, strings.LastIndex(text, "-"))
	index, err := strconv.ParseUint(strings.TrimPrefix(text[at:], "-"), 10, 31)
	if err != nil || groupOf(job, text[:at]).size == 0 {
		return gang.Rank{}, false
	}
	return gang.Rank{Task: text[:at], Index: int32(index)}, true
}

// group is the ranks of a task, or its spares.
type group struct {
	name  string
	size  int32
	task  *v1alpha1.Task
	spare bool
}

// groups are those of a job, each task followed by its spares.
func groups(job *v1alpha1.TrainingJob) []group {
	var out []group
	for i := range job.Spec.Tasks {
		t := &job.Spec.Tasks[i]
		out = append(out, group{t.Name, t.Replicas, t, false}, group{t.Name + v1alpha1.SpareSuffix, ptr.Deref(t.Spares, 0), t, true})
	}
	return out
}

// groupOf is the group of a name; an empty one where there is none.
func groupOf(job *v1alpha1.TrainingJob, name string) group {
	for _, g := range groups(job) {
		if g.name == name {
			return g
		}
	}
	return group{name: name}
}

// Ranks says which names Find knows, for people.
func Ranks(job *v1alpha1.TrainingJob) string {
	var out []string
	for _, g := range groups(job) {
		switch g.size {
		case 0:
		case 1:
			out = append(out, g.name+"-0")
		default:
			out = append(out, fmt.Sprintf("%s-0 to %s-%d", g.name, g.name, g.size-1))
		}
	}
	return strings.Join(out, ", ")
}

// RankNames are the names of all ranks and spares of a job.
func RankNames(job *v1alpha1.TrainingJob) []string {
	var out []string
	for _, g := range groups(job) {
		for index := range g.size {
			out = append(out, Name(gang.Rank{Task: g.name, Index: index}))
		}
	}
	return out
}

// Name of a rank, such as worker-3.
func Name(r gang.Rank) string { return fmt.Sprintf("%s-%d", r.Task, r.Index) }

// Knows reports whether the pod that is asked about exists, must have existed, or is named by anything that is recorded. A rank
// that the job had before it shrank is known by its events and incidents.
func (s *Snapshot) Knows(sub Subject) bool {
	if s.pod(sub.Pod) != nil || !s.couldRead("pods") || (sub.Attempt <= max(1, s.Job.Status.Attempt) && sub.Rank.Index < groupOf(s.Job, sub.Rank.Task).size) {
		return true
	}
	if slices.ContainsFunc(s.Events, func(e corev1.Event) bool { return e.InvolvedObject.Kind == "Pod" && e.InvolvedObject.Name == sub.Pod }) {
		return true
	}
	return slices.ContainsFunc(s.Job.Status.Incidents, func(inc v1alpha1.Incident) bool {
		return slices.ContainsFunc(inc.Pods, func(p v1alpha1.IncidentPod) bool { return p.Name == sub.Pod })
	})
}
