package signals

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/health"
	"github.com/lockstep-dev/lockstep/test/dcgmsim"
)

// injection makes a row's condition hold.
type injection struct {
	// says what the simulator is told.
	says string
	// now is done before each of so many polls.
	now   func()
	polls int
	// heal undoes it.
	heal func()
}

// fieldOf is the DCGM field that a row reads; 0 for other things.
func fieldOf(r *health.Row) int {
	first, _, _ := strings.Cut(r.ID, "/")
	field, _ := strconv.Atoi(first)
	return field
}

// wellValue is one that a row does not mind.
func wellValue(r *health.Row) int {
	switch {
	case r.When.NotEquals != nil:
		return int(r.When.NotEquals[0])
	case len(r.Up) > 0:
		return int(r.Up[0])
	case r.When.Increase != nil || r.When.Rate != nil:
		return 1000
	case r.ID == "1508": // NVLINK_GET_STATE: active
		return 1
	}
	return 0
}

// illValue is one that a row minds, where it minds values.
func illValue(r *health.Row) int {
	switch w := r.When; {
	case w.Equals != nil:
		return int(w.Equals[0])
	case w.NotEquals != nil:
		return 2
	case w.Above != nil:
		return int(*w.Above) + 1
	case w.Bits != nil:
		part := w.Bits.AtLeast
		if len(w.Bits.Equals) > 0 {
			part = w.Bits.Equals[0]
		}
		return int(part) << w.Bits.Shift
	case w.ErrorRate != nil: // mantissa and exponent: 15e-12 is 15 and 12
		return 15<<8 | int(-math.Log10(w.ErrorRate.Over))
	case w.LessThan != nil:
		return 1
	case w.Unmasked != nil && w.Unmasked.Fatal:
		return 0x10 // by field 1309 of the node's adapter
	}
	return 0x01
}

// inject says how to make a row's condition hold, at the lowest place that there is.
func (n *node) inject(r *health.Row) injection {
	first, _, _ := strings.Cut(r.ID, "/")
	code, isXID := strings.CutPrefix(first, "xid:")
	switch file, ofPort := portFileOf[first]; {
	case isXID:
		return n.injectXID(code, int(r.When.Increase.AtLeast))
	case first == "gpu-missing":
		return once("GPU 0 is no longer listed", func() { n.engine.Lose(0) }, n.addGPU(dcgmsim.StatusOK))
	case first == "gpu-status":
		status := illValue(r)
		return once(fmt.Sprintf("GPU 0 has status %d", status), n.addGPU(status), n.addGPU(dcgmsim.StatusOK))
	case first == "link-state":
		return once("link 0 of GPU 0 is down", func() { n.engine.SetLink(0, 0, dcgmsim.LinkDown) }, func() { n.engine.SetLink(0, 0, dcgmsim.LinkUp) })
	case first == "port-missing":
		return once(port+" is gone", func() { n.unplug(port) }, func() { n.plug(port) })
	case ofPort:
		return n.injectFile(r, file)
	}
	return n.injectField(r)
}

func once(says string, now, heal func()) injection {
	return injection{says, func() { now() }, 1, heal}
}

func (n *node) addGPU(status int) func() {
	return func() { n.engine.AddGPU(0, uuid, status) }
}

func (n *node) injectXID(code string, times int) injection {
	number, err := strconv.Atoi(code)
	if err != nil {
		n.Fatal(err)
	}
	says := fmt.Sprintf("XID %d of GPU 0", number)
	if times > 1 {
		says += fmt.Sprintf(", %d times", times)
	}
	return once(says, func() {
		for i := range times {
			n.engine.XID(0, number, time.Now().Add(-time.Duration(i)*time.Millisecond))
		}
	}, func() {})
}

// injectField sets a DCGM field, or lets it rise.
func (n *node) injectField(r *health.Row) injection {
	field, d := fieldOf(r), devices[r.Entity][0]
	of := map[dcgmsim.Kind]string{dcgmsim.GPU: "GPU 0", dcgmsim.Link: "link 0 of GPU 0", dcgmsim.Switch: "NVSwitch 0", dcgmsim.ConnectX: "ConnectX 4", dcgmsim.Node: "the host"}
	name := fmt.Sprintf("field %d of %s", field, of[d.kind])
	value := 1000
	set := func(v int) { n.engine.SetField(d.kind, d.id, field, v) }
	if step, polls := rise(r); step > 0 {
		return injection{rising(name, step, polls), func() { value += step; set(value) }, polls, func() {}}
	}
	value = wellOf(r, field)
	return once(fmt.Sprintf("%s: %d", name, illValue(r)), func() { set(illValue(r)) }, func() { set(value) })
}

// wellOf is what a field read before: some rows compare it with another.
func wellOf(r *health.Row, field int) int {
	switch field {
	case 237, 1302:
		return 5
	case 238, 1301:
		return 16
	}
	return wellValue(r)
}

// rise is by how much a counter has to rise for a row, in each of how many polls.
func rise(r *health.Row) (step, polls int) {
	switch w := r.When; {
	case w.Increase != nil:
		return int(w.Increase.AtLeast), 1
	case w.Rate != nil && w.Rate.LaneLimit:
		return 40, max(1, r.Polls) // 31 a minute are what 16 lanes of generation 5 may have
	case w.Rate != nil: // in each poll as much as in the whole window
		return int(math.Ceil(float64(w.Rate.AtLeast) * w.Rate.Within.Seconds() / w.Rate.Per.Seconds())), max(1, r.Polls)
	}
	return 0, 0
}

func rising(name string, step, polls int) string {
	says := fmt.Sprintf("%s rises by %d", name, step)
	if polls > 1 {
		says += fmt.Sprintf(", %d polls in a row", polls)
	}
	return says
}

// portFileOf is the file of a port that a row reads.
var portFileOf = map[string]string{
	"port-state": "state", "port-phys-state": "phys_state",
	"port-link-downed": "counters/link_downed", "port-symbol-errors": "counters/symbol_error",
	"port-link-recovery": "counters/link_error_recovery", "port-receive-errors": "counters/port_rcv_errors",
	"port-transmit-discards": "counters/port_xmit_discards", "port-local-integrity-errors": "counters/local_link_integrity_errors",
	"port-excessive-buffer-overruns": "counters/excessive_buffer_overrun_errors",
}

// injectFile writes a port's file in sysfs.
func (n *node) injectFile(r *health.Row, file string) injection {
	name, well := port+"/"+file, portFiles[file]
	if step, polls := rise(r); step > 0 {
		value, err := strconv.Atoi(well)
		if err != nil {
			n.Fatal(err)
		}
		return injection{rising(name, step, polls), func() { value += step; n.write(name, strconv.Itoa(value)) }, polls, func() {}}
	}
	ill := map[string]string{"state": "1: DOWN", "phys_state": "2: Polling"}[file]
	return once(name+": "+ill, func() { n.write(name, ill) }, func() { n.write(name, well) })
}
