// Fuzzing: whatever is read, and whatever users write.

package health

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Overrides that are taken make a table that judges; others say which file is wrong.
func FuzzOverrides(f *testing.F) {
	entries, _ := defaults.ReadDir("defaults")
	for _, e := range entries {
		data, _ := defaults.ReadFile("defaults/" + e.Name())
		f.Add(data)
	}
	f.Add([]byte("rows: [{id: '439', polls: 2, when: {rate: {atLeast: 3, per: 1m}}}]"))
	f.Add([]byte("rows: [{id: '174/x', name: x, entity: nic, signal: X, when: {bits: {shift: 62, width: 1, atLeast: 1}}, state: Failed}]"))
	f.Add([]byte("rows: [null, {id: 'xid:1', when: null, escalate: null, unless: [MIG]}]"))
	base := Default()
	f.Fuzz(func(t *testing.T, data []byte) {
		table, err := ParseOverrides(base, map[string][]byte{"mine.yaml": data})
		if err != nil {
			if table != nil || !strings.Contains(err.Error(), "mine.yaml") {
				t.Fatalf("table %v, error %v", table, err)
			}
			return
		}
		n := newNode()
		n.table = table
		for _, r := range table.Rows() {
			if len(r.When.tests()) != 1 || r.When.tests()[0].limit() == "" {
				t.Fatalf("row %+v", r)
			}
		}
		n.xid(gpu0, 79).add(gpu0, 439, 1).poll().silent(3)
		n.polls(2)
	})
}

// FuzzEvaluate plays arbitrary histories, and looks at every step.
func FuzzEvaluate(f *testing.F) {
	f.Add([]byte("a history"))
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 250, 251, 252, 253, 254, 255, 17, 99, 3, 3, 3, 3, 128, 64})
	f.Add([]byte(strings.Repeat("\x00\x05\x10\xff\x03\x07", 60)))
	table := Default()
	f.Fuzz(func(t *testing.T, data []byte) {
		h := &history{data: data, table: table, sample: Sample{Time: start, BootID: "1", BootTime: start.Add(-time.Hour), Reachable: true}}
		state := State{}
		for len(h.data) > 0 {
			s := h.next()
			next := Evaluate(state, s, table)
			check(t, table, state, next, s)
			if len(Reports(next)) > MaxReports {
				t.Fatal("too many reports")
			}
			state = next
			if h.byte()%16 == 0 {
				restored := Restore(Reports(state), Source(state, ""), state.Expected())
				if diff := cmp.Diff(Reports(state), Reports(restored)); diff != "" {
					t.Fatalf("a restart (-before +after):\n%s", diff)
				}
				state = restored
			}
		}
	})
}

// check says what must hold after every sample, whatever it is.
func check(t *testing.T, table *Table, before, after State, s Sample) {
	t.Helper()
	for e, faults := range after.Faults {
		for signal, fault := range faults {
			if _, known := before.Faults[e][signal]; !known && !s.Reachable && e.Kind != KindNIC {
				t.Fatalf("%s of %s from silence", signal, entityName(e))
			}
			if !slices.Contains(ills, fault.State) || fault.Message == "" {
				t.Fatalf("fault %+v", fault)
			}
		}
	}
	for e, faults := range before.Faults {
		for signal, was := range faults {
			is, still := after.Faults[e][signal]
			if still && worse(was.State, is.State) != is.State {
				t.Fatalf("%s of %s was %s, and is %s", signal, entityName(e), was.State, is.State)
			}
			r, _ := table.rowOf(faultKey{e, signal})
			if !still && !mayClear(r, e, was, before, s) {
				t.Fatalf("%s of %s was cleared by nothing", signal, entityName(e))
			}
		}
	}
}

// mayClear is what a fault needs, at least, to clear.
func mayClear(r *Row, e Entity, f Fault, before State, s Sample) bool {
	if e.Kind != KindNIC && !s.Reachable {
		return false
	}
	reloaded := before.isOfAnotherBoot(s) || differ(f.BootID, s.BootID) || differ(f.DriverID, s.DriverID)
	return r.clears(f.State) != ClearsOnRecovery || reloaded
}

// history makes samples of bytes.
type history struct {
	data   []byte
	table  *Table
	sample Sample
}

func (h *history) byte() byte {
	if len(h.data) == 0 {
		return 1
	}
	b := h.data[0]
	h.data = h.data[1:]
	return b
}

func (h *history) number() int64 {
	if b := h.byte(); b < 240 {
		return int64(b)
	}
	var wide [8]byte
	h.data = h.data[copy(wide[:], h.data):]
	return int64(binary.LittleEndian.Uint64(wide[:]))
}

func (h *history) next() Sample {
	s := &h.sample
	s.Time = s.Time.Add(time.Duration(int8(h.byte())) * time.Second * 10)
	s.Reachable = h.byte()%4 != 0
	switch h.byte() % 16 {
	case 0:
		s.BootID, s.BootTime = s.BootID+"1", s.Time
	case 1:
		s.DriverID += "1"
	}
	s.XIDs = nil
	entities := []Entity{gpu0, gpu1, link0, aPort, aPort1, sw0, theOne}
	s.Values = map[Entity]map[Field]Value{}
	for _, e := range entities {
		if h.byte()%8 == 0 || e.Kind != KindNIC && !s.Reachable {
			continue
		}
		fields := h.table.Fields(e.Kind)
		for range h.byte() % 8 {
			if len(fields) > 0 {
				put(s.Values, e, fields[int(h.byte())%len(fields)], Value{Int: h.number(), Blank: h.byte()%8 == 0})
			}
		}
	}
	codes := []int64{79, 94, 74, 145, 63, 13, h.number()}
	for range h.byte() % 4 {
		s.XIDs = append(s.XIDs, XID{GPU: fmt.Sprintf("GPU-%d", h.byte()%3), Code: codes[int(h.byte())%len(codes)], Time: s.Time.Add(-time.Duration(int8(h.byte())) * time.Minute)})
	}
	return *s
}
