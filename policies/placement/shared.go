// Shared nodes: several jobs may hold one node, each for what it had there. No order of events makes them wait for each
// other: a rank returns to its own node past the holds of others, and a job gives way to those that precede it.

package placement

import (
	"slices"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/instant"
)

// heldByOthers reports whether another job holds some node.
func (v View) heldByOthers() bool {
	for _, n := range v.Nodes {
		if len(n.HoldsOfOthers()) > 0 {
			return true
		}
	}
	return false
}

// Leaves reports whether a pod of the job has still to leave a node: until then its room is not that of the next one.
func (m *Rooms) Leaves(node string) bool { return m.leaving()[node] }

func (m *Rooms) findLeaving() map[string]bool {
	out := map[string]bool{}
	for i := range m.Pods {
		if p := &m.Pods[i]; p.Node != "" && !p.Finished() && (p.Deleting || p.Attempt != m.s.Attempt || gang.IsStale(m.s, p)) {
			out[p.Node] = true
		}
	}
	return out
}

// Passable returns the keys of the holds of other jobs that do not keep a rank's pod away. On the rank's own node, while
// its job is seen to hold that too and has nothing there that has to leave, these are all: the others hold what they had there, and not what
// the rank had. Once the rank has looked for room unsuccessfully, they are those of the younger jobs that lack room, too: of jobs that wait for
// what another one holds, the oldest goes first.
func (m *Rooms) Passable(r gang.Rank, pins []string) []string {
	var keys []string
	own := gang.NodeOf(m.s.Placement, r)
	if n, exists := m.Nodes[own]; exists && n.Hold != "" && Held(m.s, own) && !m.Leaves(own) && slices.Equal(pins, []string{n.Hostname}) {
		keys = n.HoldsOfOthers()
	}
	if p := m.Pod(r); m.intent.LacksRoom(r) || (p != nil && m.Pending(p)) {
		keys = append(keys, m.givingWay()...)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// givingWay returns the keys of the holds of younger jobs that have looked for room unsuccessfully.
func (v View) givingWay() []string {
	var keys []string
	for _, y := range v.Younger {
		if !y.Since.Add(NoRoomAfter).After(v.Now) {
			keys = append(keys, y.Key)
		}
	}
	return keys
}

// MissingTolerations are the holds that the pods which look for a node do not tolerate yet. A node may be held after the
// gate was lifted.
func (m *Rooms) MissingTolerations() []Toleration {
	var out []Toleration
	gang.EachRank(m.Effective, func(r gang.Rank) {
		p := m.looking(r)
		if p == nil {
			return
		}
		missing := slices.DeleteFunc(m.Passable(r, p.Pins), func(key string) bool { return slices.Contains(p.Tolerates, key) })
		if len(missing) > 0 {
			out = append(out, Toleration{Pod: p.Name, UID: p.UID, Keys: missing})
		}
	})
	return out
}

// looking returns the pod of a rank that the scheduler looks for a node for; nil where there is none.
func (v View) looking(r gang.Rank) *gang.Pod {
	if p := v.Pod(r); p != nil && p.Node == "" && !p.Gated && !p.Deleting && !p.Finished() && !gang.IsStale(v.s, p) {
		return p
	}
	return nil
}

// NextYoungerCheck is when to look again at whether the jobs lack room that hold nodes of this one's. Nothing tells when
// they begin to look for it. Zero where no rank looks for a node that another job holds.
func (v View) NextYoungerCheck() time.Time {
	waits := false
	gang.EachRank(v.Effective, func(r gang.Rank) { waits = waits || v.looking(r) != nil })
	if !waits || !v.heldByOthers() {
		return time.Time{}
	}
	next := v.Now.Add(NoRoomAfter)
	for _, y := range v.Younger {
		if at := y.Since.Add(NoRoomAfter); at.After(v.Now) {
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
func SearchesSince(pods []gang.Pod) time.Time {
	var since time.Time
	for i := range pods {
		if p := &pods[i]; !p.Spare && !p.Deleting && p.Searches() {
			since = instant.Earliest(since, p.PlacedTime)
		}
	}
	return since
}

// Toleration is a pod that has to tolerate more holds.
type Toleration struct {
	Pod, UID string
	Keys     []string
}

// HoldOn is a job's hold on a node; nil for none. The holds of a status are in the order of their nodes' names.
func HoldOn(holds []v1alpha1.NodeHold, node string) *v1alpha1.NodeHold {
	i, found := slices.BinarySearchFunc(holds, node, func(h v1alpha1.NodeHold, node string) int { return strings.Compare(h.Node, node) })
	if !found {
		return nil
	}
	return &holds[i]
}

// Held reports whether a job holds a node.
func Held(s *v1alpha1.TrainingJobStatus, node string) bool { return HoldOn(s.Holds, node) != nil }
