// Running: what is known of whether the gang runs, while one of its ranks does not answer.

package policies

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/instant"
)

// outage is what the ranks of a job show of its gang's being down. Two ranks of a kind are enough to answer for any
// rank what the others show.
type outage struct {
	down  []rank // ranks whose process does not run, two at most
	exits []exit // the last exits, the latest first, two at most
	// starting are ranks whose pods have their nodes and have yet to start there, two at most.
	starting []rank
}

type exit struct {
	rank rank
	at   time.Time
}

// outage looks at every rank that others need and whose node answers. Of the others nothing is known.
func (w *world) outage(s *v1alpha1.TrainingJobStatus) *outage {
	if w.outages != nil {
		return w.outages
	}
	w.outages = &outage{}
	eachRank(w.job, func(r rank) {
		p := w.pod(r)
		if w.isIndependent(r.task) || (p != nil && (p.succeeded() || p.Completing || (p.Node != "" && !w.Nodes[p.Node].Ready))) {
			return
		}
		if rankNode(s.Placement, r) == "" && (p == nil || p.Node == "") {
			return // a replica beyond the gang that has yet to find its first node
		}
		w.outages.note(r, p, p == nil || stale(s, p))
		if len(w.outages.starting) < 2 && w.isStarting(s, r) {
			w.outages.starting = append(w.outages.starting, r)
		}
	})
	return w.outages
}

func (o *outage) note(r rank, p *Pod, gone bool) {
	if len(o.down) < 2 && (gone || p.Phase != corev1.PodRunning || (!p.Ready && len(p.Failure.Containers) > 0)) {
		o.down = append(o.down, r)
	}
	if p == nil || p.LastExit == nil {
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

// othersStart reports whether another rank has yet to start. A program that exits meanwhile has waited for it in vain.
func (w *world) othersStart(s *v1alpha1.TrainingJobStatus, r rank) bool {
	return !w.isIndependent(r.task) && slices.ContainsFunc(w.outage(s).starting, func(other rank) bool { return other != r })
}

// gangDown reports whether the process of a rank other than a pod's own has ended or is missing, so that the pod
// cannot be training. An exit counts from a minute before the pod's node was found silent, which takes the node
// controller about as long, and not where the pod's process began after it, together with the others.
func (w *world) gangDown(s *v1alpha1.TrainingJobStatus, r rank, p *Pod) bool {
	if w.isIndependent(r.task) {
		return false
	}
	o, since := w.outage(s), w.Now
	if p != nil {
		if silent := w.Nodes[p.Node].SilentSince; !silent.IsZero() {
			since = silent
		}
	}
	since = since.Add(-nodeWake)
	if p != nil && !p.StartedTime.IsZero() {
		since = instant.Latest(since, p.StartedTime.Add(wake))
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
	return false
}

// nextGangCheck is when the next exit will be too long ago to count, where some rule asks for that. For a failure of a
// silent node that never changes.
func (w *world) nextGangCheck(s *v1alpha1.TrainingJobStatus) time.Time {
	var next time.Time
	asks := func(r v1alpha1.Rule) bool {
		return r.Match.GangRunning != nil && !slices.Equal(r.Match.Events, []v1alpha1.EventType{v1alpha1.NodeNotReady})
	}
	for _, policy := range w.policies {
		if !slices.ContainsFunc(policy.rules, asks) {
			continue
		}
		for _, e := range w.outage(s).exits {
			if at := e.at.Add(nodeWake); at.After(w.Now) {
				next = instant.Earliest(next, at)
			}
		}
	}
	return next
}
