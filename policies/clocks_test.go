// Clocks that are apart: what waits, waits by one clock.

package policies

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/test/check"
)

// The decisions' clock is two minutes ahead of that by which things are stamped: no time to wait is shorter for it.
func TestWaitsAreCountedByOneClock(t *testing.T) {
	const apart = 2 * time.Minute
	tests := map[string]struct {
		story func(s *scene, stamped, seen time.Time)
		wait  time.Duration
		// is reports whether the time is over.
		is func(*scene) bool
	}{
		"of a silent node": {
			func(s *scene, stamped, seen time.Time) {
				s.node("n01", func(n *gang.Node) { n.Ready, n.SilentSince, n.SilentSeen = false, stamped, seen })
				s.Pods[1].Deleting = true
			}, time.Minute,
			func(s *scene) bool { return len(s.deleted()) > 0 },
		},
		"of a pod that never ran": {
			func(s *scene, stamped, seen time.Time) {
				p := &s.Pods[1]
				p.Phase, p.Deleting, p.NeverRan = corev1.PodPending, true, true
				p.Grace, p.GraceEnds, p.DeletingSeen = 30*time.Second, stamped.Add(30*time.Second), seen
			}, time.Minute,
			func(s *scene) bool { return len(s.deleted()) > 0 },
		},
		"of a pod that may be ending": {
			func(s *scene, stamped, seen time.Time) {
				s.unready(1)
				p := &s.Pods[1]
				p.StartedTime, p.Conditions, p.UnreadySeen = stamped.Add(-time.Hour), notReadySince(stamped), seen
			}, gang.EndReportedWithin,
			func(s *scene) bool { return len(s.status().Incidents) > 0 },
		},
	}
	t.Run("of a node that was silent long before", func(t *testing.T) {
		s := running(2)
		s.node("n01", func(n *gang.Node) { n.Ready, n.SilentSince, n.SilentSeen = false, s.Now.Add(-gang.ClocksApart), s.Now })
		s.Pods[1].Deleting = true
		s.after(time.Minute - time.Second).decide()
		check.Equal(t, "early", false, len(s.deleted()) > 0)
		s.after(time.Second).decide()
		check.Equal(t, "in time", true, len(s.deleted()) > 0)
		s.node("n01", func(n *gang.Node) { n.SilentSeen = s.Now })
		s.decide()
		check.Equal(t, "and not again", true, len(s.deleted()) > 0)
	})
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := running(2)
			seen := s.Now
			tc.story(s, seen.Add(-apart), seen)
			s.after(tc.wait - time.Second).decide()
			check.Equal(t, "early", false, tc.is(s))
			s.after(time.Second).decide()
			check.Equal(t, "in time", true, tc.is(s))
		})
	}
}
