// Waiting: how long a pod has looked for a node.

package placement

import (
	"time"

	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/instant"
)

const (
	// NoRoomAfter is how long a pod has to wait for a node until that is a failure: Volcano
	// looks once a second.
	NoRoomAfter = 30 * time.Second
	// NoRoomToldAfter is how long it has to wait until people are told: the scheduler finds no room for
	// it, too, in a round that has yet to see what its predecessor has left.
	NoRoomToldAfter = 5 * time.Second
	// podsPerSecond is how many more pods of a gang take it a second longer, at worst: a
	// thousand at once took it 30 s on two cores (test/bench).
	podsPerSecond = 10
	// longSearch is how long a pod has to wait at most, however often others of its gang were let go since: where these fail again and
	// again because it is missing, there is no last gate.
	longSearch = 5 * time.Minute
	// sameWave is how long before the last gate others were lifted with it.
	sameWave = 5 * time.Minute
)

// Pending reports whether a pod has looked for a node for long enough.
func (m *Rooms) Pending(p *gang.Pod) bool {
	at := m.PendingAt(p)
	return !at.IsZero() && !at.After(m.Now)
}

// PendingAt is when a pod that looks for a node will have looked for long enough; zero
// for one that does not look. Behind its gate it looks while nowhere is good for it.
func (m *Rooms) PendingAt(p *gang.Pod) time.Time {
	switch {
	case p.Node != "" || p.Deleting || p.Finished() || gang.IsStale(m.s, p):
		return time.Time{}
	case p.Gated && m.ForRank(p.Rank()).None():
		return p.CreatedTime.Add(NoRoomAfter)
	case p.Searches():
		ends := m.searchEnds()
		if ends.IsZero() {
			return ends
		}
		return instant.Earliest(ends, p.PlacedTime.Add(longSearch))
	}
	return time.Time{}
}

// LacksRoom reports whether it is a failure that a pod has no node.
func (m *Rooms) LacksRoom(p *gang.Pod) bool {
	at := m.LacksRoomAt(p)
	return !at.IsZero() && !at.After(m.Now)
}

// LacksRoomAt returns when it will be a failure that a pod has no node; zero for never. A gang that was never placed as a whole
// finds nodes as a whole, and waits for room for as long as that takes. Once a part of it has nodes, because a binding was lost or
// a pod has failed meanwhile, there may be no room for the others beside that part.
func (m *Rooms) LacksRoomAt(p *gang.Pod) time.Time {
	at := m.PendingAt(p)
	if m.s.Placement != nil || at.IsZero() {
		return at
	}
	if m.lastBound().IsZero() {
		return time.Time{}
	}
	return instant.Latest(at, m.lastBound().Add(NoRoomAfter))
}

// findLastBound returns when the last pod of the gang was bound that has its node still; zero where none has.
func (m *Rooms) findLastBound() time.Time {
	var last time.Time
	gang.EachRank(m.Effective, func(r gang.Rank) {
		if m.State(m.s, r) >= gang.Bound && !m.Pod(r).Finished() {
			last = instant.Latest(last, m.Pod(r).BoundSince())
		}
	})
	return last
}

// searchEnds is when the scheduler will have looked for long enough for the pods that it was
// let have: it looks once the gang is complete, so the last gate counts. Zero while it is not.
func (m *Rooms) searchEnds() time.Time {
	if !m.ends.IsZero() || m.incomplete {
		return m.ends
	}
	var last time.Time
	gang.EachRank(m.Effective, func(r gang.Rank) {
		p := m.Pod(r)
		if p == nil || p.Gated || p.Deleting || gang.IsStale(m.s, p) {
			m.incomplete = true
			return
		}
		last = instant.Latest(last, p.PlacedTime)
	})
	if m.incomplete {
		return m.ends
	}
	wave := 0
	gang.EachRank(m.Effective, func(r gang.Rank) {
		if last.Sub(m.Pod(r).PlacedTime) <= sameWave {
			wave++
		}
	})
	m.ends = last.Add(NoRoomAfter + time.Duration(wave/podsPerSecond)*time.Second)
	return m.ends
}

// NoRoomToldAt is when people are told that a pod finds no room; zero for one that does not look.
func NoRoomToldAt(p *gang.Pod) time.Time {
	if !p.Searches() {
		return time.Time{}
	}
	return p.PlacedTime.Add(NoRoomToldAfter)
}
