// Shared nodes: several jobs may hold one node, each for what it had there. No order of events makes them wait for each
// other: a rank returns to its own node past the holds of others, and a job gives way to those that precede it.

package policies

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/instant"
)

// isHold reports whether a taint is the hold of a job.
func isHold(t corev1.Taint) bool { return strings.HasPrefix(t.Key, v1alpha1.HoldTaintPrefix) }

// holdsOfOthers returns the keys by which other jobs hold a node.
func (n Node) holdsOfOthers() []string {
	var keys []string
	for _, t := range n.Taints {
		if isHold(t) {
			keys = append(keys, t.Key)
		}
	}
	return keys
}

// heldByOthers reports whether another job holds some node.
func (w *world) heldByOthers() bool {
	for _, n := range w.Nodes {
		if len(n.holdsOfOthers()) > 0 {
			return true
		}
	}
	return false
}

// passable returns the keys of the holds of other jobs that do not keep a rank's pod away. On the rank's own node, while
// its job holds that too, these are all: the others hold what they had there, and not what the rank had. Once the rank
// has looked for room in vain, they are those of the younger jobs that lack room, too: of jobs that wait for what
// another one holds, the oldest goes first.
func (m *rooms) passable(r rank, pins []string) []string {
	var keys []string
	own := rankNode(m.s.Placement, r)
	if n, exists := m.Nodes[own]; exists && held(m.s, own) && slices.Equal(pins, []string{n.Hostname}) {
		keys = n.holdsOfOthers()
	}
	if p := m.pod(r); m.waitingFor(m.s, r, v1alpha1.PodPending) != nil || (p != nil && m.pending(m.s, p, m)) {
		for _, y := range m.Younger {
			if !y.Since.Add(noRoomAfter).After(m.Now) {
				keys = append(keys, y.Key)
			}
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// missingTolerations are the holds that the pods which look for a node do not tolerate yet. A node may be held after the
// gate was lifted.
func (w *world) missingTolerations(s *v1alpha1.TrainingJobStatus) []Toleration {
	var out []Toleration
	m := w.rooms(s)
	eachRank(w.job, func(r rank) {
		p := w.looking(s, r)
		if p == nil {
			return
		}
		missing := slices.DeleteFunc(m.passable(r, p.Pins), func(key string) bool { return slices.Contains(p.Tolerates, key) })
		if len(missing) > 0 {
			out = append(out, Toleration{Pod: p.Name, UID: p.UID, Keys: missing})
		}
	})
	return out
}

// looking returns the pod of a rank that the scheduler looks for a node for; nil where there is none.
func (w *world) looking(s *v1alpha1.TrainingJobStatus, r rank) *Pod {
	if p := w.pod(r); p != nil && p.Node == "" && !p.Gated && !p.Deleting && !p.finished() && !stale(s, p) {
		return p
	}
	return nil
}

// nextYoungerCheck is when to look again at whether the jobs lack room that hold nodes of this one's. Nothing tells when
// they begin to look for it. Zero where no rank looks for a node that another job holds.
func (w *world) nextYoungerCheck(s *v1alpha1.TrainingJobStatus) time.Time {
	waits := false
	eachRank(w.job, func(r rank) { waits = waits || w.looking(s, r) != nil })
	if !waits || !w.heldByOthers() {
		return time.Time{}
	}
	next := w.Now.Add(noRoomAfter)
	for _, y := range w.Younger {
		if at := y.Since.Add(noRoomAfter); at.After(w.Now) {
			next = instant.Earliest(next, at)
		}
	}
	return next
}

// Precedes reports whether a job goes before another where each waits for what the other holds: it was made first.
func Precedes(a, b *v1alpha1.TrainingJob) bool {
	if a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.UID < b.UID
	}
	return a.CreationTimestamp.Before(&b.CreationTimestamp)
}

// SearchesSince is since when a rank of a job has looked for a node in vain; zero where none does.
func SearchesSince(pods []Pod) time.Time {
	var since time.Time
	for i := range pods {
		if p := &pods[i]; !p.Spare && !p.Deleting && p.searches() {
			since = instant.Earliest(since, p.PlacedTime)
		}
	}
	return since
}
