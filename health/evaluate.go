// Evaluation: what a sample says, in the light of those before it. A pure function: the time
// is the sample's, and the state before is left as it is.

package health

import (
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// unknownAfter is how many polls in a row have to read nothing until it is said that nothing
// is known. Engines restart, and single reads fail.
const unknownAfter = 3

// DcgmEntityStatusLost and DcgmEntityStatusDetached (dcgm_structs.h).
const statusLost, statusDetached = 4, 7

// portActive is IB_PORT_ACTIVE, the state of a port that works.
const portActive = 4

// Evaluate returns the state after a sample.
func Evaluate(prev State, s Sample, t *Table) State {
	next := prev.begun(s)
	p := &poll{prev: prev, next: &next, sample: s, table: t}
	p.found, p.calm, p.stirred = map[faultKey]finding{}, map[faultKey]bool{}, map[faultKey]bool{}
	p.reach()
	p.expect()
	p.lookAtFields()
	p.lookForMissing()
	p.lookAtXIDs()
	p.settle()
	p.escalate()
	next.Unknown = p.unknown()
	return next
}

// poll is one evaluation.
type poll struct {
	prev   State
	next   *State
	sample Sample
	table  *Table
	// dcgm and ports say whether this sample tells anything of them.
	dcgm, ports bool
	// found are the rows whose condition has held for long enough, calm the faults of which it has not.
	found map[faultKey]finding
	calm  map[faultKey]bool
	// stirred are those whose condition holds, and not yet for long enough.
	stirred map[faultKey]bool
}

// finding is a fault as this poll sees it.
type finding struct {
	state v1alpha1.HealthState
	since time.Time
	text  string
}

// reach finds out who answers. An engine that answers and sees no GPU at all, where there
// were some, has lost the driver (nv-hostengine starts without one): it is as good as silent,
// for GPUs do not leave all at once.
func (p *poll) reach() {
	gpus := 0
	for e, values := range p.sample.Values {
		if e.Kind == KindGPU {
			gpus++
		}
		if _, isPort := values[FieldPortState]; isPort {
			p.ports = true
		}
	}
	p.dcgm = p.sample.Reachable && (gpus > 0 || !p.expects(KindGPU))
	p.next.unreadable++
	if p.dcgm {
		p.next.unreadable = 0
	}
	p.next.portless++
	if p.ports || !p.expects(KindNIC) {
		p.next.portless = 0
	}
}

func (p *poll) expects(k Kind) bool {
	for e := range p.prev.expected {
		if e.Kind == k {
			return true
		}
	}
	return false
}

// answers is true where this sample tells anything of a field of such entities. What is
// below zero of a port is read from sysfs, without DCGM.
func (p *poll) answers(k Kind, f Field) bool {
	if k == KindNIC && f < 0 {
		return p.ports
	}
	return p.dcgm
}

// expect remembers what is there, and counts the polls in which it is not.
func (p *poll) expect() {
	for e, values := range p.sample.Values {
		_, isPort := values[FieldPortState]
		isUp := p.next.up[e] || values[FieldPortState].Int == portActive
		if e.Kind == KindGPU && p.dcgm || e.Kind == KindNIC && isPort && isUp {
			p.next.expected[e] = 0
		}
	}
	for e := range p.next.expected {
		if !p.present(e) && p.answers(e.Kind, fieldMissing) {
			p.next.expected[e]++
		}
	}
}

func (p *poll) present(e Entity) bool {
	_, present := p.sample.Values[e]
	return present
}

// lookAtFields judges every row of every entity that is there, or was.
func (p *poll) lookAtFields() {
	for e := range p.sample.Values {
		p.lookAt(e)
	}
	for e := range p.prev.tracks {
		if !p.present(e) && !p.absentWithReason(e) {
			p.lookAt(e)
		}
	}
}

// absentWithReason is true for what the rows for missing things are about: GPUs, their links, and ports.
func (p *poll) absentWithReason(e Entity) bool {
	gpu, ofGPU := gpuOf(e)
	return e.Kind == KindNIC || ofGPU && !p.present(Entity{KindGPU, gpu})
}

func (p *poll) lookAt(e Entity) {
	rows := p.table.fields[e.Kind]
	tracks := p.next.tracks[e]
	if tracks == nil && len(rows) > 0 {
		tracks = make(map[string]track, len(rows))
		p.next.tracks[e] = tracks
	}
	for _, r := range rows {
		if p.answers(e.Kind, r.what.field) {
			tracks[r.ID] = p.look(e, r, tracks[r.ID])
		}
	}
}

// look reads one field of one entity.
func (p *poll) look(e Entity, r *Row, t track) track {
	v, ok := p.sample.Values[e][r.what.field]
	counts := r.When.Increase != nil || r.When.Rate != nil
	if !ok || v.Blank || counts && v.Int < 0 {
		return p.unread(e, r, t)
	}
	t.readable, t.blank = true, 0
	if p.settling(r) {
		t.last, t.at, t.rises = v.Int, p.sample.Time, nil // errors while links train do not count
		return t
	}
	if counts {
		t = t.counted(v.Int, p.sample.Time, r.remembered())
	}
	return p.judge(e, r, t, v.Int)
}

// unread notes that a field says nothing.
func (p *poll) unread(e Entity, r *Row, t track) track {
	if p.inMIG(e) || p.lost(e) {
		return t // fields of links are blank then, or all are
	}
	if t = t.unread(); t.never() && p.present(e) && r.clears(r.State) == ClearsOnRecovery {
		p.rest(faultKey{e, r.Signal}) // after a boot, that is: within one, nothing clears it
	}
	return t
}

// judge says what a value means.
func (p *poll) judge(e Entity, r *Row, t track, value int64) track {
	reading := reading{value: value, others: p.sample.Values[e], rises: t.rises, now: p.sample.Time}
	held, known := r.When.tests()[0].holds(reading)
	if !known || held && r.When.Rate != nil && !t.rises.until(p.sample.Time) {
		return t // a burst stays in the window for some polls, and is one all the same
	}
	t = p.seenUp(e, r, t, value, held)
	if p.excepted(e, r, t) {
		return t
	}
	t = t.read(held)
	p.conclude(e, r, t, reading)
	return t
}

// conclude finds a fault where the condition has held for enough polls, and calm where it has not.
func (p *poll) conclude(e Entity, r *Row, t track, read reading) {
	key := faultKey{e, r.Signal}
	switch {
	case t.streak >= r.polls():
		state := r.State
		if x := r.Escalate; x != nil && x.AtLeast > 0 && t.rises.count(read.now, x.Within.Duration) >= float64(x.AtLeast) {
			state = x.State
		}
		p.found[key] = finding{state, read.now, describe(r, read)}
	case t.streak > 0:
		p.stirred[key] = true
	case t.calm >= r.polls():
		p.rest(key)
	}
}

// rest says of a fault, if there is one, that its condition no longer holds.
func (p *poll) rest(key faultKey) {
	if _, ill := p.prev.Faults[key.Entity][key.Signal]; ill {
		p.calm[key] = true
	}
}

// settling is true for a row whose entities are still coming up after boot.
func (p *poll) settling(r *Row) bool {
	from := p.next.settling
	return !from.IsZero() && p.sample.Time.Before(from.Add(r.IgnoredAfterBoot.Duration))
}

// seenUp remembers that an entity was up.
func (p *poll) seenUp(e Entity, r *Row, t track, value int64, held bool) track {
	switch {
	case len(r.Up) == 0:
		t.up = t.up || !held
	case OneOf(r.Up).contains(value):
		p.next.up[e] = true
	}
	return t
}

func (p *poll) excepted(e Entity, r *Row, t track) bool {
	for _, x := range r.Unless {
		switch {
		case x == UnlessMIG && p.inMIG(e):
			return true
		case x == UnlessNeverUp && len(r.Up) == 0 && !t.up:
			return true
		case x == UnlessNeverUp && len(r.Up) > 0 && !p.next.up[e]:
			return true
		}
	}
	return false
}

func (p *poll) inMIG(e Entity) bool {
	gpu, _ := gpuOf(e)
	mig := p.sample.Values[Entity{KindGPU, gpu}][FieldMIG]
	return !mig.Blank && mig.Int == 1
}

// lost is true for a GPU of which DCGM tells no more than that it is gone, and for its links.
func (p *poll) lost(e Entity) bool {
	gpu, ofGPU := gpuOf(e)
	status := p.sample.Values[Entity{KindGPU, gpu}][FieldGPUStatus].Int
	return ofGPU && (status == statusLost || status == statusDetached)
}

// gpuOf is the GPU that an entity is, or is a link of.
func gpuOf(e Entity) (string, bool) {
	switch e.Kind {
	case KindGPU:
		return e.ID, true
	case KindNVLink:
		gpu, _, _ := strings.Cut(e.ID, "/")
		return gpu, true
	}
	return "", false
}

// lookForMissing judges what is expected and not there.
func (p *poll) lookForMissing() {
	for e, polls := range p.next.expected {
		r, ok := p.table.missing[e.Kind]
		if !ok || !p.answers(e.Kind, fieldMissing) || p.settling(r) {
			continue
		}
		key := faultKey{e, r.Signal}
		if polls >= r.polls() {
			p.found[key] = finding{r.State, p.sample.Time, describe(r, reading{})}
		}
		if polls == 0 {
			p.rest(key)
		}
	}
}
