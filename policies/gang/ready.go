// Readiness: pods that are not ready any more, and have not failed.

package gang

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/policies/instant"
)

// IsUnready reports whether a pod that was ready, or that crashed, is not ready, and is not about to complete.
func (p *Pod) IsUnready(now time.Time) bool {
	return p.Phase == corev1.PodRunning && !p.Ready && p.WasReady && !p.Completing && !p.mayEndUntil().After(now)
}

// mayEndUntil is until when a pod that is not ready, and whose containers run, may only be ending; zero for one of which a
// container has exited since it was last ready, or of which nothing is known.
func (p *Pod) mayEndUntil() time.Time {
	changed := p.ReadyChanged()
	if len(p.Failure.Containers) > 0 || p.StartedTime.IsZero() || changed.IsZero() {
		return time.Time{}
	}
	if !p.UnreadySeen.IsZero() {
		return p.UnreadySeen.Add(EndReportedWithin)
	}
	return changed.Add(EndReportedWithin)
}

// ReadyChanged is when the pod was last said to be ready, or not to be; zero where nothing was said.
func (p *Pod) ReadyChanged() time.Time {
	for _, c := range p.Conditions {
		if c.Type == corev1.PodReady {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// NextReadyCheck is when the next pod that is not ready will have had the time to end.
func (g *Gang) NextReadyCheck() time.Time {
	var next time.Time
	EachRank(g.Effective, func(r Rank) {
		p := g.Pod(r)
		if p == nil || p.Ready || !p.WasReady || p.Phase != corev1.PodRunning {
			return
		}
		if until := p.mayEndUntil(); until.After(g.Now) {
			next = instant.Earliest(next, until)
		}
	})
	return next
}
