// The state: what is remembered between polls. It is a value: Evaluate makes a new one and
// leaves the old one as it is.

package health

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// State is what is known of a node after a poll. The zero State knows nothing.
type State struct {
	// Faults that are known.
	Faults map[Entity]map[string]Fault
	// Unknown says why it cannot be told how well the node is; empty where it can.
	Unknown string
	// Time, BootID and DriverID of the last sample.
	Time             time.Time
	BootID, DriverID string
	// EngineVersion is the last that DCGM's host engine told.
	EngineVersion string

	// driverTime is that of the poll before the driver was loaded again; zero where it was not.
	driverTime time.Time
	// settling since: the boot, or that.
	settling time.Time
	// acknowledged: what happened up to then has been looked at.
	acknowledged time.Time
	// unreadable counts the polls in a row in which DCGM, or all ports, said nothing.
	unreadable, portless int
	// dcgmTime is when DCGM last said anything, portsTime when a port did.
	dcgmTime, portsTime time.Time
	// tracks of the rows that a table has for an entity's kind, in their order.
	tracks map[Entity][]track
	table  *Table
	// xids are the times of the XIDs of a row, oldest first.
	xids map[Entity]map[string][]time.Time
	// expected are GPUs and ports that were there, and for how many polls they are not.
	expected map[Entity]int
	// up are links and ports that were seen up.
	up map[Entity]bool
	// spinning is since when GPUs spin, by their UUIDs.
	spinning map[string]time.Time
}

// Fault is what is wrong with an entity, by one signal.
type Fault struct {
	State v1alpha1.HealthState
	// Since is when it began, and Seen when its condition last held.
	Since, Seen time.Time
	// BootID and DriverID when its condition last held.
	BootID, DriverID string
	Message          string
}

// faultKey is a fault's place in the state.
type faultKey struct {
	Entity
	Signal string
}

// Expected are the entities that have to be there, and up: what Restore needs to know after
// the agent was started again, to miss a GPU that vanished in between.
func (s State) Expected() []Entity {
	all := map[Entity]bool{}
	maps.Copy(all, s.up)
	for e := range s.expected {
		all[e] = true
	}
	return slices.SortedFunc(maps.Keys(all), compareEntities)
}

func compareEntities(a, b Entity) int {
	return cmp.Or(strings.Compare(string(a.Kind), string(b.Kind)), strings.Compare(a.ID, b.ID))
}

// Acknowledge clears the faults that began up to then, until they are found again. A GPU
// that is lost is then no longer expected.
func Acknowledge(prev State, then time.Time) State {
	if !then.After(prev.acknowledged) {
		return prev
	}
	next := prev
	next.acknowledged = then
	next.Faults = map[Entity]map[string]Fault{}
	next.expected, next.up = cloned(prev.expected), cloned(prev.up)
	for e, faults := range prev.Faults {
		for signal, f := range faults {
			if f.Since.After(then) {
				put(next.Faults, e, signal, f)
			} else if next.expected[e] > 0 {
				next.unexpect(e)
			}
		}
	}
	next.xids = map[Entity]map[string][]time.Time{}
	for e, rows := range prev.xids {
		for id, times := range rows {
			put(next.xids, e, id, slices.DeleteFunc(slices.Clone(times), func(t time.Time) bool { return !t.After(then) }))
		}
	}
	next.tracks = mapped(prev.tracks, func(t track) track { t.keep(t.past().since(then)); return t })
	return next
}

// unexpect forgets what is gone for good, a GPU with its links.
func (s State) unexpect(gone Entity) {
	delete(s.expected, gone)
	maps.DeleteFunc(s.up, func(e Entity, _ bool) bool {
		gpu, ofGPU := gpuOf(e)
		return e == gone || ofGPU && gone == Entity{KindGPU, gpu}
	})
}

// put sets a value of a map of maps.
func put[E, K comparable, V any](m map[E]map[K]V, e E, k K, v V) {
	if m[e] == nil {
		m[e] = map[K]V{}
	}
	m[e][k] = v
}

// begun is the state that a poll starts from. It shares what is big with the one before, until
// the poll changes it. A new boot or a new load of the driver empties the counters.
func (s State) begun(sample Sample, table *Table) State {
	next := s
	next.Time = sample.Time
	next.xids, next.Faults = map[Entity]map[string][]time.Time{}, map[Entity]map[string]Fault{}
	next.tracks, next.table = s.tracksOf(table), table
	if s.isOfAnotherBoot(sample) {
		next.tracks = mapped(next.tracks, func(t track) track { return track{up: t.up} })
	} else {
		for e, rows := range s.xids {
			next.xids[e] = maps.Clone(rows)
		}
	}
	if differ(s.DriverID, sample.DriverID) {
		next.driverTime = cmp.Or(s.Time, sample.Time)
	}
	next.settling = later(next.settling, later(sample.BootTime, next.driverTime))
	next.BootID, next.DriverID = cmp.Or(sample.BootID, s.BootID), cmp.Or(sample.DriverID, s.DriverID)
	next.EngineVersion = cmp.Or(sample.EngineVersion, s.EngineVersion)
	return next
}

// tracksOf are the tracks in the order of another table's rows.
func (s State) tracksOf(table *Table) map[Entity][]track {
	if s.table == table {
		return s.tracks
	}
	next := make(map[Entity][]track, len(s.tracks))
	for e, tracks := range s.tracks {
		rows := table.fields[e.Kind]
		next[e] = make([]track, len(rows))
		for i, r := range rows {
			if j := slices.IndexFunc(s.table.fields[e.Kind], func(old *Row) bool { return old.ID == r.ID }); j >= 0 {
				next[e][i] = tracks[j]
			}
		}
	}
	return next
}

func mapped(tracks map[Entity][]track, change func(track) track) map[Entity][]track {
	next := make(map[Entity][]track, len(tracks))
	for e, old := range tracks {
		next[e] = make([]track, len(old))
		for i, t := range old {
			next[e][i] = change(t)
		}
	}
	return next
}

func cloned[K comparable, V any](m map[K]V) map[K]V {
	next := make(map[K]V, len(m))
	maps.Copy(next, m)
	return next
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// isOfAnotherBoot reports whether a sample is of another boot, or of a driver that was loaded again.
func (s State) isOfAnotherBoot(sample Sample) bool {
	return differ(s.BootID, sample.BootID) || differ(s.DriverID, sample.DriverID)
}

// differ reports whether two ids are both known, and not the same.
func differ(a, b string) bool { return a != "" && b != "" && a != b }
