// Starting: pods that have their nodes and do not start there, or never become ready.

package policies

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/instant"
)

const (
	// startErrorAfter is how long a pod has not started, in spite of the kubelet's tries, until that is a failure.
	startErrorAfter = 30 * time.Second
	// slowStartAfter is the same where the kubelet reports no error: it may be pulling an image of many gigabytes,
	// or the program may be loading its checkpoint.
	slowStartAfter = 10 * time.Minute
)

// progress is how far a pod has come on its node.
type progress int

const (
	notStarted progress = iota
	started             // its containers run
	wasReady            // it has been ready, or has run and crashed
)

func (p *Pod) progress() progress {
	switch {
	case p == nil || p.Gated || p.Node == "":
		return notStarted
	case p.Ready || p.WasReady || p.succeeded():
		return wasReady
	case p.Phase == corev1.PodRunning:
		return started
	}
	return notStarted
}

// startsUntil is until when a pod has time to start and to become ready; zero for one that has done so, has ended, or
// has no node.
func (p *Pod) startsUntil() time.Time {
	switch {
	case p.Node == "" || p.finished() || p.progress() == wasReady:
		return time.Time{}
	case p.StartProblem.Reason != "" && p.progress() == notStarted:
		return p.bound().Add(startErrorAfter)
	}
	return p.bound().Add(slowStartAfter)
}

// StartsSilently reports whether a pod has not started on its node for so long that the kubelet should have said why,
// and its status does not tell.
func StartsSilently(p *Pod, now time.Time) bool {
	return p.Phase == corev1.PodPending && p.progress() == notStarted && p.Node != "" && !p.Deleting && p.StartProblem.Reason == "" &&
		!p.bound().Add(startErrorAfter).After(now)
}

// stuckAt is when a pod that is being deleted, and of which no container was ever made, has had its time to go; zero for
// another one. A node that cannot give a sandbox a network often cannot take the sandbox away either.
func (p *Pod) stuckAt() time.Time {
	if !p.Deleting || !p.NeverRan || p.GraceEnds.IsZero() {
		return time.Time{}
	}
	return p.GraceEnds.Add(startErrorAfter)
}

// bound is when the pod was bound to its node; where that is not known, when its gate was lifted.
func (p *Pod) bound() time.Time { return instant.Latest(p.PlacedTime, p.BoundTime) }

// failsToStart reports whether a pod has had its time to start, while others of its task came further in the same: then
// it is for its node. Where none comes further it is for the job itself. The only pod of a task is compared with those
// of the other tasks.
func (w *world) failsToStart(p *Pod) bool {
	until := p.startsUntil()
	return !p.Spare && !until.IsZero() && !until.After(w.Now) && w.furthest(p.Task) > p.progress()
}

// furthest is how far the pods of a task have come.
func (w *world) furthest(task string) progress {
	best := notStarted
	t := w.task(task)
	for i := range w.job.Spec.Tasks {
		other := w.job.Spec.Tasks[i].Name
		if other != task && (t == nil || t.Replicas > 1) {
			continue
		}
		for _, p := range w.taskPods(other).pods {
			best = max(best, p.progress())
		}
	}
	return best
}

// mayStart reports whether each rank of an incident that is about a pod's start is back, on its way, or on a node where it
// may still start, as far as is known: where no other pod of its task comes further, that is not for the node.
func (w *world) mayStart(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) bool {
	m := w.rooms(s)
	return w.everyRankOf(inc, func(r rank) bool {
		p := w.pod(r)
		switch {
		case w.state(s, r) >= working:
			return true
		case w.state(s, r) < bound:
			return p == nil || !w.pending(s, p, m)
		}
		return !p.startsUntil().IsZero() && w.Nodes[p.Node].Ready && !w.failsToStart(p)
	})
}

// isStarting reports whether the pod of a rank has its node and has yet to start there.
func (w *world) isStarting(s *v1alpha1.TrainingJobStatus, r rank) bool {
	p := w.pod(r)
	return p != nil && p.Node != "" && p.Phase == corev1.PodPending && !p.Deleting && p.Disrupted == "" && !stale(s, p) &&
		w.Nodes[p.Node].Ready
}

// nextStartCheck is when to look again at pods that have not started. Some of the kubelet's reasons are only in its
// events, of which nothing tells.
func (w *world) nextStartCheck(s *v1alpha1.TrainingJobStatus) time.Time {
	var next time.Time
	eachRank(w.job, func(r rank) {
		p := w.pod(r)
		if p == nil || stale(s, p) || p.Deleting || p.startsUntil().IsZero() {
			return
		}
		if until := p.startsUntil(); until.After(w.Now) {
			next = instant.Earliest(next, until)
		}
		if p.progress() == notStarted && p.StartProblem.Reason == "" {
			waited := max(0, w.Now.Sub(p.bound())).Truncate(startErrorAfter)
			next = instant.Earliest(next, p.bound().Add(waited+startErrorAfter))
		}
	})
	return next
}

// startStory tells which pods have not started in time, and why; empty where all have.
func (w *world) startStory(s *v1alpha1.TrainingJobStatus) string {
	var first *Pod
	n := 0
	eachRank(w.job, func(r rank) {
		p := w.pod(r)
		if p == nil || stale(s, p) || p.Deleting {
			return
		}
		if until := p.startsUntil(); until.IsZero() || until.After(w.Now) {
			return
		}
		if n++; first == nil || (first.StartProblem.Reason == "" && p.StartProblem.Reason != "") {
			first = p
		}
	})
	if first == nil {
		return ""
	}
	told := "pod " + first.Name
	if n > 1 {
		told = fmt.Sprintf("%d pods, %s among them,", n, told)
	}
	if first.progress() == started {
		return fmt.Sprintf("%s runs on node %s since %s, and has not become ready", told, first.Node, first.bound().UTC().Format(time.TimeOnly))
	}
	return told + " cannot start on node " + first.Node + first.StartProblem.story()
}

// story tells a problem, if there is one.
func (p StartProblem) story() string {
	told := ""
	if p.Container != "" {
		told += ", container " + p.Container
	}
	if p.Reason != "" {
		told += ": " + p.Reason
	}
	if p.Message != "" {
		told += ": " + p.Message
	}
	return told
}
