// Running: what is known of whether the gang runs, while one of its ranks does not answer.

package gang

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/instant"
)

// outage looks at every rank that others need and whose node answers. Of the others nothing is known.
func (g *Gang) outage(s *v1alpha1.TrainingJobStatus) *outage {
	if g.outages != nil {
		return g.outages
	}
	g.outages = &outage{}
	EachRank(g.Effective, func(r Rank) {
		p := g.Pod(r)
		if g.IsIndependent(r.Task) || (p != nil && (p.Succeeded() || p.Completing)) {
			return
		}
		if g.isSilent(p) {
			g.outages.silent = true
			return
		}
		if NodeOf(s.Placement, r) == "" && (p == nil || p.Node == "") {
			return // a replica beyond the gang that has yet to find its first node
		}
		gone := p == nil || IsStale(s, p)
		if g.outages.note(r, p, gone, g.Now.Add(ClocksApart)); !gone {
			g.noteSteps(&g.outages.steps, s, p)
		}
		if len(g.outages.starting) < 2 && g.isStarting(s, r) {
			g.outages.starting = append(g.outages.starting, r)
		}
	})
	return g.outages
}

// isSilent reports whether the node of a pod does not answer.
func (g *Gang) isSilent(p *Pod) bool { return p != nil && p.Node != "" && !g.Nodes[p.Node].Ready }

// note takes a rank down that is gone or does not run, and when its process last ended. A time that no clock has reached yet says nothing.
func (o *outage) note(r Rank, p *Pod, gone bool, latest time.Time) {
	if len(o.down) < 2 && (gone || p.Phase != corev1.PodRunning || (!p.Ready && len(p.Failure.Containers) > 0) || p.processEnded()) {
		o.down = append(o.down, r)
	}
	if p == nil || p.LastExit == nil || p.LastExit.Time.After(latest) {
		return
	}
	for i := range 2 {
		if i == len(o.exits) || o.exits[i].at.Before(p.LastExit.Time) {
			o.exits = append(o.exits[:i], append([]exit{{r, p.LastExit.Time}}, o.exits[i:]...)...)
			o.exits = o.exits[:min(2, len(o.exits))]
			return
		}
	}
}

// OthersStart reports whether another rank has yet to start. A program that exits meanwhile has waited for it in vain.
func (g *Gang) OthersStart(s *v1alpha1.TrainingJobStatus, r Rank) bool {
	return !g.IsIndependent(r.Task) && slices.ContainsFunc(g.outage(s).starting, func(other Rank) bool { return other != r })
}

// OthersDown reports whether the process of a rank other than a pod's own has ended or is missing, so that the pod
// cannot be training. An exit counts from a minute before the pod's node was found silent, which takes the node
// controller about as long, and not where the pod's process began after it, together with the others. Of a pod whose node does not answer the
// steps of the others tell more: an exit before one does not count, and the gang is down where they make none any more.
func (g *Gang) OthersDown(s *v1alpha1.TrainingJobStatus, r Rank, p *Pod) bool {
	if g.IsIndependent(r.Task) {
		return false
	}
	o, since, silent := g.outage(s), g.Now, g.isSilent(p)
	if silent && !g.Nodes[p.Node].SilentSince.IsZero() {
		since = g.Nodes[p.Node].SilentSince
	}
	since = since.Add(-NodeWake)
	if p != nil && !p.StartedTime.IsZero() {
		since = instant.Latest(since, p.StartedTime.Add(Wake))
	}
	if silent {
		since = instant.Latest(since, o.steps.moved)
	}
	for _, other := range o.down {
		if other != r {
			return true
		}
	}
	for _, e := range o.exits {
		if e.rank != r && e.at.After(since) {
			return true
		}
	}
	missed := o.steps.missedAt()
	return silent && !missed.IsZero() && !missed.After(g.Now)
}

// LastExits are the times of the last exits of processes that others need, of two ranks at most, the latest first.
func (g *Gang) LastExits(s *v1alpha1.TrainingJobStatus) []time.Time {
	var times []time.Time
	for _, e := range g.outage(s).exits {
		times = append(times, e.at)
	}
	return times
}
