// XIDs: errors that the driver reports once each. What an XID means lasts: that none comes
// any more says nothing of the GPU.

package health

import (
	"slices"
	"time"
)

const (
	// xidsKept is how many XIDs of a row are remembered, at most. A storm of one code is one fault.
	xidsKept = 64
	// xidsKeptFor is how long, at least: an engine that is asked again may tell them again.
	xidsKeptFor = 24 * time.Hour
)

// lookAtXIDs takes the XIDs of a sample, and judges all that are remembered.
func (p *poll) lookAtXIDs() {
	if !p.sample.Reachable {
		return
	}
	for _, x := range p.sample.XIDs {
		p.take(x)
	}
	for e, rows := range p.next.xids {
		for id, times := range rows {
			p.judgeXIDs(e, id, times)
		}
	}
	if p.dcgm {
		p.calmXIDs()
	}
}

// take remembers an XID, by GPU, code and time. Those of an earlier boot, those that have been
// acknowledged, and those told before do not count.
func (p *poll) take(x XID) {
	if x.Time.IsZero() || x.Time.After(p.sample.Time) {
		x.Time = p.sample.Time
	}
	forgotten := !p.prev.Time.IsZero() && x.Time.Before(p.prev.Time.Add(-xidsKeptFor))
	if forgotten || x.Time.Before(p.next.settling) || !x.Time.After(p.next.acknowledged) {
		return
	}
	e := Entity{KindGPU, x.GPU}
	if x.GPU == "" {
		e = Entity{Kind: KindNode}
	}
	for _, r := range p.table.xids[x.Code] {
		put(p.next.xids, e, r.ID, remember(p.next.xids[e][r.ID], x.Time))
	}
}

// remember adds a time, in order, once.
func remember(times []time.Time, t time.Time) []time.Time {
	i, known := slices.BinarySearchFunc(times, t, time.Time.Compare)
	if known || i == 0 && len(times) >= xidsKept {
		return times
	}
	times = slices.Insert(slices.Clone(times), i, t)
	return times[max(0, len(times)-xidsKept):]
}

func (p *poll) judgeXIDs(e Entity, id string, times []time.Time) {
	now := p.sample.Time
	horizon := now.Add(-xidsKeptFor)
	for len(times) > 0 && !times[0].After(horizon) {
		times = times[1:]
	}
	p.next.xids[e][id] = times
	r, ok := p.table.Row(id)
	if !ok || !r.active() || len(times) == 0 {
		return
	}
	within := times[firstAfter(times, now.Add(-r.When.window())):]
	if int64(len(within)) < r.When.Increase.AtLeast {
		return
	}
	f := finding{state: r.State, since: within[r.When.Increase.AtLeast-1]}
	f.text = describe(r, &reading{value: int64(len(within))})
	if x := r.Escalate; x != nil && x.AtLeast > 0 && int64(len(times)-firstAfter(times, now.Add(-x.Within.Duration))) >= x.AtLeast {
		f.state = x.State
	}
	p.found[faultKey{e, r.Signal}] = f
}

func firstAfter(times []time.Time, t time.Time) int {
	i := slices.IndexFunc(times, func(x time.Time) bool { return x.After(t) })
	if i < 0 {
		return len(times)
	}
	return i
}

// calmXIDs says of each fault by an XID that is not found now that it is calm.
func (p *poll) calmXIDs() {
	for e, faults := range p.prev.Faults {
		for signal := range faults {
			key := faultKey{e, signal}
			r, ok := p.table.rowOf(key)
			if _, found := p.found[key]; ok && r.what.isXID() && !found {
				p.calm[key] = true
			}
		}
	}
}
