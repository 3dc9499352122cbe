// What is remembered across connections: the XIDs that were read.

package dcgm

import (
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/health"
)

// keepXIDs is how long the engine keeps XIDs. They are read again after every connection, so
// an agent that was away no longer than this misses none that the engine saw.
const keepXIDs = time.Hour

// overlap is read again each time: the engine writes an XID down some time after the time
// that it gives it, and by then that time may have been asked for.
const overlap = time.Minute

type memory struct {
	seen map[health.XID]bool
	// xids that wait to be delivered.
	xids []health.XID
}

func newMemory() *memory {
	return &memory{seen: map[health.XID]bool{}}
}

// note takes an XID that was read, and remembers it once.
func (m *memory) note(x health.XID) {
	if !m.seen[x] {
		m.seen[x] = true
		m.xids = append(m.xids, x)
	}
}

// forget drops what cannot be read any more, by the engine's time.
func (m *memory) forget(now time.Time) {
	for x := range m.seen {
		if now.Sub(x.Time) > keepXIDs+2*overlap {
			delete(m.seen, x)
		}
	}
}

// pending are the XIDs that nobody has got yet, the oldest first.
func (m *memory) pending() []health.XID {
	slices.SortStableFunc(m.xids, func(a, b health.XID) int { return a.Time.Compare(b.Time) })
	return slices.Clone(m.xids)
}

func (m *memory) deliver() { m.xids = nil }
