// Package why answers questions about a TrainingJob in sentences: why it is in its state, why a rank is on its node, why a pod
// was deleted. Each sentence is one fact, and names what it was read from. The package decides nothing and reads nothing: what
// the manager has recorded, and what Kubernetes and Volcano say, is all that it knows.
package why

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/duration"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/capacity"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
)

// Snapshot is one look at a TrainingJob and at what it depends on.
type Snapshot struct {
	// Now is the time of the look.
	Now time.Time
	Job *v1alpha1.TrainingJob
	// PodGroup of the present attempt; nil where there is none.
	PodGroup *scheduling.PodGroup
	// Cluster around the job. Its usage is read while the job waits for nodes.
	capacity.Cluster
	// NodeHealths are those that Concerned chooses. A node without reports has none.
	NodeHealths []v1alpha1.NodeHealth
	// Events of the job, and of the pod that is asked about.
	Events []corev1.Event
	// Unread are the sources that could not be read.
	Unread []Unread
	// FromFile reports whether the job was read from a file, and nothing beside it.
	FromFile bool
	// Whole asks for all that is known of a job, and All for every name in the lists of that.
	Whole, All bool
}

// Unread is a source that could not be read.
type Unread struct {
	// What it is, in the plural, such as nodes.
	What string
	Err  error
}

// Fact is one sentence of an answer.
type Fact = capacity.Fact

// Answer is what is known of a job, or of a rank of it.
type Answer struct {
	Namespace string         `json:"namespace"`
	Name      string         `json:"name"`
	State     v1alpha1.State `json:"state,omitempty"`
	// Rank that was asked about, such as worker-3, and the name of its pod; empty where the job was.
	Rank  string `json:"rank,omitempty"`
	Pod   string `json:"pod,omitempty"`
	Facts []Fact `json:"facts"`
}

// Ask answers why a job is in its state; or of a rank of it, why it is where it is.
func Ask(s *Snapshot, sub *Subject) Answer {
	out := Answer{Namespace: s.Job.Namespace, Name: s.Job.Name, State: s.Job.Status.State}
	if sub == nil {
		out.Facts = Job(s)
	} else {
		out.Rank, out.Pod, out.Facts = Name(sub.Rank), sub.Pod, Rank(s, *sub)
	}
	return out
}

// told makes a fact with its source.
func told(source, format string, args ...any) []Fact {
	return capacity.Told(source, format, args...)
}

// Role is the ClusterRole with the rights to all that answers are made of.
const Role = "lockstep-explain"

// unread names what could not be read.
func unread(s *Snapshot) []Fact {
	var out []Fact
	forbidden := false
	for _, u := range s.Unread {
		out = append(out, told("", "The %s could not be read: %s.", u.What, strings.TrimSuffix(u.Err.Error(), "."))...)
		forbidden = forbidden || apierrors.IsForbidden(u.Err)
	}
	if forbidden {
		out = append(out, told("", "The ClusterRole %s has the rights to all of that.", Role)...)
	}
	return out
}

// couldRead reports whether a source was read.
func (s *Snapshot) couldRead(what string) bool {
	return !s.FromFile && !slices.ContainsFunc(s.Unread, func(u Unread) bool { return u.What == what })
}

// at writes a time, and how long ago it was or how soon it comes.
func (s *Snapshot) at(t time.Time) string {
	format := time.TimeOnly
	if t.UTC().Format(time.DateOnly) != s.Now.UTC().Format(time.DateOnly) {
		format = time.DateTime
	}
	stamp := t.UTC().Format(format) + " UTC"
	if d := t.Sub(s.Now); d >= time.Second { // the clock of the API server has no fractions
		return stamp + " (in " + duration.HumanDuration(d) + ")"
	}
	return stamp + " (" + duration.HumanDuration(s.Now.Sub(t)) + " ago)"
}

// until writes the time at which the manager ends something.
func (s *Snapshot) until(t time.Time) string {
	if t.After(s.Now) {
		return s.at(t)
	}
	return strings.TrimSuffix(s.at(t), ")") + ", and the manager has yet to notice)"
}

// maxNames is how many names a sentence has, and how many things of a kind an answer has, unless all are asked for.
const maxNames = 4

// listed are some names, and how many more there are.
func (s *Snapshot) listed(names []string) string {
	if s.All {
		return lines.Names(names, len(names))
	}
	return lines.Names(names, maxNames)
}

// first is what there is to say of the first of some things, and how many more there are; or of all, if all are asked for.
func first[T any](s *Snapshot, things []T, tell func(T) []Fact, source, more string) []Fact {
	var each [][]Fact
	for _, thing := range things {
		if facts := tell(thing); len(facts) > 0 {
			each = append(each, facts)
		}
	}
	if s.All || len(each) <= maxNames {
		return slices.Concat(each...)
	}
	return append(slices.Concat(each[:maxNames]...), told(source, more, len(each)-maxNames)...)
}
