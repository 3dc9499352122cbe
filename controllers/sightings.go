// Sightings: since when this process has seen what others have stamped with their clocks. A time to wait is counted by one clock, so
// that nothing is early where the clock of a node or of another controller is behind.

package controllers

import (
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/policies/gang"
)

// sightings remembers when something was first seen, by job and by what it is.
type sightings struct {
	mu   sync.Mutex
	jobs map[types.NamespacedName]map[string]time.Time
}

// note sets in an observation since when this process has seen it, and forgets what is not seen any more.
func (s *sightings) note(o *gang.Observation) {
	key, seen := client.ObjectKeyFromObject(o.Job), map[string]time.Time{}
	s.mu.Lock()
	defer s.mu.Unlock()
	since := func(what string) time.Time {
		first, known := s.jobs[key][what]
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
	s.put(key, seen)
}

func (s *sightings) forget(job types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(job, nil)
}

func (s *sightings) put(job types.NamespacedName, seen map[string]time.Time) {
	if len(seen) == 0 {
		delete(s.jobs, job)
		return
	}
	if s.jobs == nil {
		s.jobs = map[types.NamespacedName]map[string]time.Time{}
	}
	s.jobs[job] = seen
}
