// The outcome of a recovery: all that must not depend on what happened to the operator.

package chaos

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// outcome is the difference that one recovery made.
type outcome struct {
	State v1alpha1.State
	// Incidents that it was, each as a sentence.
	Incidents []string
	// Epochs, Attempts and Restarts that it took.
	Epochs   int64
	Attempts int32
	Restarts v1alpha1.Restarts
	// Ranks says where each is now: untouched, on its same node, elsewhere at home, or away.
	Ranks []string
	// Lives that each rank has begun.
	Lives []int32
	// Excluded are the ranks whose nodes the job must not go back to.
	Excluded []int
	// Holds are the ranks whose nodes are held: by status, and by their taints.
	Holds, Taints []int
}

// before is what an outcome is the difference to.
type before struct {
	status v1alpha1.TrainingJobStatus
	ranks  []corev1.Pod
}

func (l *lane) before() before {
	l.t.Helper()
	return before{status: *l.job.Status.DeepCopy(), ranks: l.ranks()}
}

// outcome looks at the job as it is after a recovery.
func (l *lane) outcome(b before) outcome {
	l.t.Helper()
	was, is := &b.status, &l.job.Status
	o := outcome{
		State:    is.State,
		Epochs:   is.Epoch - was.Epoch,
		Attempts: is.Attempt - was.Attempt,
		Restarts: v1alpha1.Restarts{
			Total: is.Restarts.Total - was.Restarts.Total, Pod: is.Restarts.Pod - was.Restarts.Pod, Process: is.Restarts.Process - was.Restarts.Process,
			Task: is.Restarts.Task - was.Restarts.Task, Job: is.Restarts.Job - was.Restarts.Job,
			Relocations: is.Restarts.Relocations - was.Restarts.Relocations, Charged: is.Restarts.Charged - was.Restarts.Charged,
		},
	}
	for i := range is.Incidents {
		if id := is.Incidents[i].ID; !slices.ContainsFunc(was.Incidents, func(inc v1alpha1.Incident) bool { return inc.ID >= id }) {
			o.Incidents = append(o.Incidents, sentence(&is.Incidents[i]))
		}
	}
	held := l.held()
	for i, pod := range l.ranks() {
		o.Ranks = append(o.Ranks, l.whereabouts(b.ranks[i], pod))
		o.Lives = append(o.Lives, gang.Incarnation(is, "worker", int32(i))-gang.Incarnation(was, "worker", int32(i)))
		if slices.Contains(held, pod.Spec.NodeName) {
			o.Taints = append(o.Taints, i)
		}
		if slices.ContainsFunc(is.Holds, func(h v1alpha1.NodeHold) bool { return h.Node == pod.Spec.NodeName }) {
			o.Holds = append(o.Holds, i)
		}
		if slices.ContainsFunc(is.ExcludedNodes, func(e v1alpha1.ExcludedNode) bool { return e.Name == b.ranks[i].Spec.NodeName }) {
			o.Excluded = append(o.Excluded, i)
		}
	}
	l.tidy(o, held)
	return o
}

func sentence(inc *v1alpha1.Incident) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s by rule %s:", inc.Trigger, inc.Rule)
	for _, f := range inc.Steps {
		fmt.Fprintf(&b, " %s (%d)", f.Action, f.Index)
	}
	fmt.Fprintf(&b, ", %s", inc.Outcome)
	if inc.Charged {
		b.WriteString(", charged")
	}
	return b.String()
}

func (l *lane) whereabouts(was, is corev1.Pod) string {
	switch {
	case is.UID == was.UID:
		return "untouched"
	case is.Spec.NodeName == was.Spec.NodeName:
		return "same node"
	case l.nodes()[is.Spec.NodeName].Labels[cluster.RackLabel] == l.job.Status.Placement.HyperNode:
		return "at home"
	}
	return "away, on " + is.Spec.NodeName
}

// tidy checks what no recovery leaves behind: pods and holds that belong to no rank,
// two pods on one node, a pod that was given another life than status says.
func (l *lane) tidy(o outcome, held []string) {
	l.t.Helper()
	ranks, on := l.ranks(), map[string]string{}
	l.await("the garbage collector has taken away what is no rank's", func() bool { return len(l.pods()) == len(ranks) })
	if len(held) != len(o.Taints) || len(l.job.Status.Holds) != len(o.Holds) {
		l.t.Errorf("held nodes %v, holds in status %v: some are no rank's", held, l.job.Status.Holds)
	}
	for i, p := range ranks {
		if other := on[p.Spec.NodeName]; other != "" {
			l.t.Errorf("pods %s and %s are both on node %s", other, p.Name, p.Spec.NodeName)
		}
		on[p.Spec.NodeName] = p.Name
		if want := fmt.Sprint(gang.Incarnation(&l.job.Status, "worker", int32(i))); p.Annotations[v1alpha1.AnnotationIncarnation] != want {
			l.t.Errorf("pod %s was told life %q, status says %s", p.Name, p.Annotations[v1alpha1.AnnotationIncarnation], want)
		}
	}
}
