// Sightings: since when this process has seen what others have stamped with their clocks. A time to wait is counted by one clock, so
// that nothing is early where the clock of a node or of another controller is behind.

package controllers

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/policies/gang"
)

// sight sets in an observation since when this process has seen what is in it, and forgets what is not seen any more.
func (m *memory) sight(o *gang.Observation) {
	seen := map[string]time.Time{}
	since := func(what string) time.Time {
		first, known := m.sightings[what]
		if !known {
			first = o.Now
		}
		seen[what] = first
		return first
	}
	for i := range o.Pods {
		p := &o.Pods[i]
		if p.Phase == corev1.PodRunning && !p.Ready {
			p.UnreadySeen = since(fmt.Sprint("unready ", p.UID, p.ReadyChanged().Unix()))
		}
		if p.Deleting {
			p.DeletingSeen = since("deleting " + p.UID)
		}
	}
	for name, n := range o.Nodes {
		if !n.SilentSince.IsZero() {
			n.SilentSeen = since(fmt.Sprint("silent ", name, n.SilentSince.Unix()))
			o.Nodes[name] = n
		}
	}
	m.sightings = seen
}
