// Settling: which faults of before stay, which clear, and which are new.

package health

import (
	"cmp"
	"slices"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// settle makes the faults after this poll from those before it and what it found.
func (p *poll) settle() {
	for e, faults := range p.prev.Faults {
		for signal, f := range faults {
			key := faultKey{e, signal}
			if f, stays := p.stays(key, f); stays {
				put(p.next.Faults, e, signal, f)
			}
		}
	}
	for key, found := range p.found {
		if _, known := p.prev.Faults[key.Entity][key.Signal]; !known {
			put(p.next.Faults, key.Entity, key.Signal, p.begin(found))
		}
	}
}

func (p *poll) begin(f finding) Fault {
	return Fault{
		State: f.state, Since: f.since, Seen: p.sample.Time,
		BootID: p.next.BootID, DriverID: p.next.DriverID, Message: f.text,
	}
}

// stays says whether a fault is still one, and what has become of it. One whose signal no row
// knows stays until it is acknowledged; one whose row is off is none.
func (p *poll) stays(key faultKey, f Fault) (Fault, bool) {
	// What was restored without the ids of its boot and driver has those of the first sample.
	f.BootID, f.DriverID = cmp.Or(f.BootID, p.next.BootID), cmp.Or(f.DriverID, p.next.DriverID)
	if f.Seen.IsZero() || p.stirred[key] {
		f.Seen = p.sample.Time
	}
	r, known := p.table.rowOf(key)
	if !known {
		return f, true
	}
	if !r.active() {
		return f, false
	}
	if found, still := p.found[key]; still {
		again := p.begin(found)
		if worse(f.State, found.state) == f.State {
			again.State, again.Message = f.State, f.Message // a message that changes each poll would be written each poll
		}
		again.Since = f.Since
		return again, true
	}
	return f, !p.calm[key] || !p.cleared(key, r, f)
}

// cleared says whether what ends a fault of this row, once it is calm, has come.
func (p *poll) cleared(key faultKey, r *Row, f Fault) bool {
	switch r.clears(f.State) {
	case ClearsItself:
		return p.sample.Time.Sub(f.Seen) >= r.quiet()
	case ClearsOnRecovery:
		reloaded := differ(f.BootID, p.next.BootID) || differ(f.DriverID, p.next.DriverID)
		return reloaded && p.needsNoRecovery(key.Entity)
	}
	return false
}

// fieldRecoveryAction is what the driver wants done to a GPU: 0 is nothing (nvmlDeviceGpuRecoveryAction_t).
const fieldRecoveryAction Field = 1523

// needsNoRecovery reports whether the driver says of the GPU concerned, or of each of the node's,
// that nothing has to be done. Ports are not its business.
func (p *poll) needsNoRecovery(e Entity) bool {
	if e.Kind == KindNIC {
		return true
	}
	if gpu, ofGPU := gpuOf(e); ofGPU {
		return p.recovered(Entity{KindGPU, gpu})
	}
	for gpu := range p.next.expected {
		if gpu.Kind == KindGPU && !p.recovered(gpu) {
			return false
		}
	}
	return p.dcgm
}

func (p *poll) recovered(gpu Entity) bool {
	v, read := p.sample.Values[gpu][fieldRecoveryAction]
	return p.dcgm && read && !v.Blank && v.Int == 0
}

// worse is the worse of two states.
func worse(a, b v1alpha1.HealthState) v1alpha1.HealthState {
	if b == v1alpha1.HealthStateFailed {
		return b
	}
	return a
}

// escalate makes those faults worse that come with others at the same GPU.
func (p *poll) escalate() {
	for e, faults := range p.next.Faults {
		for signal, f := range faults {
			r, ok := p.table.rowOf(faultKey{e, signal})
			if !ok || r.Escalate == nil || f.State == r.Escalate.State {
				continue
			}
			if with := p.oneOf(e, r.Escalate.With); with != "" {
				f.State = r.Escalate.State
				f.Message = limited(f.Message + "; with " + with)
				faults[signal] = f
			}
		}
	}
}

// oneOf is the first of these signals that the same GPU, or a link of it, has.
func (p *poll) oneOf(e Entity, signals []string) string {
	gpu, ofGPU := gpuOf(e)
	first := ""
	for other, faults := range p.next.Faults {
		if otherGPU, ok := gpuOf(other); !ofGPU || !ok || otherGPU != gpu {
			continue
		}
		for signal := range faults {
			if slices.Contains(signals, signal) && (first == "" || signal < first) {
				first = signal
			}
		}
	}
	return first
}

// unknown says why it cannot be told how well the node is.
func (p *poll) unknown() string {
	switch {
	case p.next.unreadable >= unknownAfter && p.sample.Reachable:
		return "DCGM sees no GPU, where there were some"
	case p.next.unreadable >= unknownAfter, p.next.dcgmTime.IsZero():
		return limited(cmp.Or(p.sample.Message, "DCGM does not answer"))
	case p.next.portless >= unknownAfter:
		return "no port is in /sys/class/infiniband, where there were some"
	}
	return p.blanks()
}

// blanks names the first field that was readable, and is not.
func (p *poll) blanks() string {
	if !p.dcgm && p.next.unreadable > 0 {
		return p.prev.Unknown // nothing was read that could say otherwise
	}
	first := ""
	for e, tracks := range p.next.tracks {
		for i := range tracks {
			if tracks[i].lost() {
				text := p.table.fields[e.Kind][i].title() + " of " + entityName(e) + " was readable, and is blank"
				if first == "" || text < first {
					first = text
				}
			}
		}
	}
	return first
}

// Restore is the state that was published: a restart of the agent heals nothing. What the source
// expected is expected still, and what the agent has seen itself by now; the source's ids tell a
// boot, or a load of the driver, since then.
func Restore(reports []v1alpha1.HealthReport, source v1alpha1.HealthSource, seen []Entity) State {
	s := State{
		BootID: source.BootID, DriverID: source.DriverID, EngineVersion: source.Version,
		Faults: map[Entity]map[string]Fault{}, expected: map[Entity]int{}, up: map[Entity]bool{},
	}
	for _, r := range reports {
		e, ok := parseEntity(r.Entity)
		if !ok || source.Name != "" && r.Source != source.Name {
			continue
		}
		put(s.Faults, e, r.Signal, Fault{
			State: r.State, Since: r.Since.Time, BootID: source.BootID, DriverID: source.DriverID, Message: r.Message,
		})
		if e.Kind == KindGPU {
			s.expected[e] = 0
		}
	}
	for _, e := range append(unfolded(source.Expected), seen...) {
		switch e.Kind {
		case KindGPU:
			s.expected[e] = 0
		case KindNVLink:
			s.up[e] = true
		case KindNIC:
			s.expected[e], s.up[e] = 0, true
		}
	}
	s.noteMissing()
	if source.State == v1alpha1.HealthUnknown {
		s.Unknown = source.Message
	}
	if source.DriverTime != nil {
		s.driverTime = source.DriverTime.Time
	}
	if source.HeartbeatTime != nil {
		s.Time = source.HeartbeatTime.Time // since when the driver may have been loaded again
	}
	return s
}

// noteMissing notes that what a fault says is missing is missing, so that an acknowledgement forgets it.
func (s State) noteMissing() {
	rows := Default()
	for e, faults := range s.Faults {
		for signal := range faults {
			if row, known := rows.rowOf(faultKey{e, signal}); known && row.what.isMissing() {
				s.expected[e] = 1
			}
		}
	}
}
