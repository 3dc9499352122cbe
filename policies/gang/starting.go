// Starting: pods that have their nodes and do not start there, or never become ready.

package gang

import (
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

// Progress is how far a pod has come on its node.
type Progress int

// The stages of a start, in order.
const (
	NotStarted Progress = iota
	Started             // its containers run
	wasReady            // it has been ready, or has run and crashed
)

// Progress returns how far the pod has come.
func (p *Pod) Progress() Progress {
	switch {
	case p == nil || p.Gated || p.Node == "":
		return NotStarted
	case p.Ready || p.WasReady || p.Succeeded():
		return wasReady
	case p.Phase == corev1.PodRunning:
		return Started
	}
	return NotStarted
}

// StartsUntil is until when a pod has time to start and to become ready; zero for one that has done so, has ended, or
// has no node.
func (p *Pod) StartsUntil() time.Time {
	switch {
	case p.Node == "" || p.Finished() || p.Progress() == wasReady:
		return time.Time{}
	case p.StartProblem.Reason != "" && p.Progress() == NotStarted:
		return p.BoundSince().Add(startErrorAfter)
	}
	return p.BoundSince().Add(slowStartAfter)
}

// StartsSilently reports whether a pod has not started on its node for so long that the kubelet should have said why,
// and its status does not tell.
func StartsSilently(p *Pod, now time.Time) bool {
	return p.Phase == corev1.PodPending && p.Progress() == NotStarted && p.Node != "" && !p.Deleting && p.StartProblem.Reason == "" &&
		!p.BoundSince().Add(startErrorAfter).After(now)
}

// StuckAt is when a pod that is being deleted, and of which no container was ever made, has had its time to go; zero for
// another one. A node that cannot give a sandbox a network often cannot take the sandbox away either.
func (p *Pod) StuckAt() time.Time {
	if !p.Deleting || !p.NeverRan || p.GraceEnds.IsZero() {
		return time.Time{}
	}
	ends := p.GraceEnds
	if !p.DeletingSeen.IsZero() {
		ends = instant.Latest(ends, p.DeletingSeen.Add(p.Grace))
	}
	return ends.Add(startErrorAfter)
}

// BoundSince is when the pod was bound to its node; where that is not known, when its gate was lifted.
func (p *Pod) BoundSince() time.Time { return instant.Latest(p.PlacedTime, p.BoundTime) }

// FailsToStart reports whether a pod has had its time to start, while others of its task came further in the same: then
// it is for its node. Where none comes further it is for the job itself. The only pod of a task is compared with those
// of the other tasks.
func (g *Gang) FailsToStart(p *Pod) bool {
	until := p.StartsUntil()
	return !p.Spare && !until.IsZero() && !until.After(g.Now) && g.furthest(p.Task) > p.Progress()
}

// furthest is how far the pods of a task have come.
func (g *Gang) furthest(task string) Progress {
	best := NotStarted
	t := g.Task(task)
	for i := range g.Effective.Spec.Tasks {
		other := g.Effective.Spec.Tasks[i].Name
		if other != task && (t == nil || t.Replicas > 1) {
			continue
		}
		for _, p := range g.TaskPods(other).Pods {
			best = max(best, p.Progress())
		}
	}
	return best
}

// isStarting reports whether the pod of a rank has its node and has yet to start there.
func (g *Gang) isStarting(s *v1alpha1.TrainingJobStatus, r Rank) bool {
	p := g.Pod(r)
	return p != nil && p.Node != "" && p.Phase == corev1.PodPending && !p.Deleting && p.Disrupted == "" && !IsStale(s, p) &&
		g.Nodes[p.Node].Ready
}

// NextStartCheck is when to look again at pods that have not started. Some of the kubelet's reasons are only in its
// events, of which nothing tells.
func (g *Gang) NextStartCheck(s *v1alpha1.TrainingJobStatus) time.Time {
	var next time.Time
	EachRank(g.Effective, func(r Rank) {
		p := g.Pod(r)
		if p == nil || IsStale(s, p) || p.Deleting || p.StartsUntil().IsZero() {
			return
		}
		if until := p.StartsUntil(); until.After(g.Now) {
			next = instant.Earliest(next, until)
		}
		if p.Progress() == NotStarted && p.StartProblem.Reason == "" {
			waited := max(0, g.Now.Sub(p.BoundSince())).Truncate(startErrorAfter)
			next = instant.Earliest(next, p.BoundSince().Add(waited+startErrorAfter))
		}
	})
	return next
}
