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
		if p != nil && p.Node != "" && !g.Nodes[p.Node].Ready {
			g.outages.silent = true
			return
		}
		if NodeOf(s.Placement, r) == "" && (p == nil || p.Node == "") {
			return // a replica beyond the gang that has yet to find its first node
		}
		gone := p == nil || IsStale(s, p)
		if g.outages.note(r, p, gone, g.Now.Add(ClocksApart)); !gone {
			g.outages.steps.note(r, p, s.Epoch)
		}
		if len(g.outages.starting) < 2 && g.isStarting(s, r) {
			g.outages.starting = append(g.outages.starting, r)
		}
	})
	return g.outages
}

// note takes a rank down that is gone or does not run, and when its process last ended. A time that no clock has reached yet says nothing.
func (o *outage) note(r Rank, p *Pod, gone bool, latestExit time.Time) {
	if len(o.down) < 2 && (gone || p.Phase != corev1.PodRunning || (!p.Ready && len(p.Failure.Containers) > 0) || p.processEnded()) {
		o.down = append(o.down, r)
	}
	if p != nil && p.LastExit != nil && !p.LastExit.Time.After(latestExit) {
		o.exits = latest(o.exits, moment{r, p.LastExit.Time})
	}
}

// OthersStart reports whether another rank has yet to start. A program that exits meanwhile has waited for it in vain.
func (g *Gang) OthersStart(s *v1alpha1.TrainingJobStatus, r Rank) bool {
	return !g.IsIndependent(r.Task) && slices.ContainsFunc(g.outage(s).starting, func(other Rank) bool { return other != r })
}

// OthersDown reports whether the process of a rank other than a pod's own has ended or is missing, so that the pod
// cannot be training. An exit counts from a minute before the pod's node was found silent, which takes the node
// controller about as long, and not where the pod's process began after it, together with the others, or these have made a step since. So the gang
// is down where its others make no steps any more.
func (g *Gang) OthersDown(s *v1alpha1.TrainingJobStatus, r Rank, p *Pod) bool {
	if g.IsIndependent(r.Task) {
		return false
	}
	o, since := g.outage(s), g.Now
	if p != nil {
		if silent := g.Nodes[p.Node].SilentSince; !silent.IsZero() {
			since = silent
		}
	}
	since = since.Add(-NodeWake)
	if p != nil && !p.StartedTime.IsZero() {
		since = instant.Latest(since, p.StartedTime.Add(Wake))
	}
	for _, other := range o.down {
		if other != r {
			return true
		}
	}
	since = instant.Latest(since, lastBesides(o.steps.moved, r))
	if last := lastBesides(o.exits, r); last.After(since) {
		return true
	}
	missed := o.steps.missedAt(r)
	return !missed.IsZero() && !missed.After(g.Now)
}

// LastExits are the times of the last exits of processes that others need, of two ranks at most, the latest first.
func (g *Gang) LastExits(s *v1alpha1.TrainingJobStatus) []time.Time {
	var times []time.Time
	for _, e := range g.outage(s).exits {
		times = append(times, e.at)
	}
	return times
}
