// Evaluation: what a sample says, in the light of those before it. A pure function: the time
// is the sample's, and the state before is left as it is.

package health

import (
	"cmp"
	"slices"
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
	next := prev.begun(s, t)
	p := &poll{prev: prev, next: &next, sample: s, table: t}
	p.found, p.calm, p.stirred = map[faultKey]finding{}, map[faultKey]bool{}, map[faultKey]bool{}
	p.settled = s.Time.Sub(next.settling) // the longest there is, where that is not known
	p.reach()
	p.expect()
	p.lookAtFields()
	p.lookForMissing()
	p.lookAtXIDs()
	p.settle()
	p.escalate()
	p.spin()
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
	// mig and lost are the GPUs that are in MIG mode, and those that are gone.
	mig, lost []string
	// settled is for how long the node has been up, or its driver loaded.
	settled time.Duration
	// own says what of the new state it no longer shares with the one before.
	own struct{ expected, up, tracks bool }
	// read is what is being judged.
	read reading
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

// lookAtFields judges every row of every entity that is there, or was.
func (p *poll) lookAtFields() {
	there := 0
	for e, values := range p.sample.Values {
		if p.lookAt(e, values) {
			there++
		}
	}
	if there == len(p.prev.tracks) {
		return
	}
	for e := range p.prev.tracks {
		switch {
		case p.present(e):
		case p.absentWithReason(e):
			p.hush(e)
		default:
			p.lookAt(e, nil)
		}
	}
}

// absentWithReason reports whether the rows for missing things are about an entity: GPUs, their links, and ports.
func (p *poll) absentWithReason(e Entity) bool {
	gpu, ofGPU := gpuOf(e)
	return e.Kind == KindNIC || ofGPU && !p.present(Entity{KindGPU, gpu})
}

// lookAt judges the rows of an entity, and says whether it was known before.
func (p *poll) lookAt(e Entity, values map[Field]Value) bool {
	rows := p.table.fields[e.Kind]
	before, known := p.next.tracks[e]
	if !known {
		before = make([]track, len(rows))
	}
	after := before
	for i, r := range rows {
		if !p.answers(e.Kind, r.what.field) || p.still(r, &before[i], values) {
			continue
		}
		if t := p.look(e, r, before[i], values); t != before[i] {
			if &after[0] == &before[0] {
				after = slices.Clone(before)
			}
			after[i] = t
		}
	}
	if len(rows) > 0 && (!known || &after[0] != &before[0]) {
		changed(&p.next.tracks, &p.own.tracks)[e] = after
	}
	return known
}

// still reports whether an entity reads as it did, of a row that is at rest: nothing would come of looking at
// it. Nearly all that is read of a healthy node is like that.
func (p *poll) still(r *Row, t *track, values map[Field]Value) bool {
	v, ok := values[r.what.field]
	return ok && v.Int == t.last && !v.Blank && t.atRest(r.polls()) && r.alone &&
		len(p.prev.Faults) == 0 && r.IgnoredAfterBoot.Duration <= p.settled
}

// hush notes that an entity is not read any more.
func (p *poll) hush(e Entity) {
	after := slices.Clone(p.next.tracks[e])
	for i, r := range p.table.fields[e.Kind] {
		if p.answers(e.Kind, r.what.field) {
			after[i].hush(p.lastRead(e.Kind, r.what.field))
		}
	}
	changed(&p.next.tracks, &p.own.tracks)[e] = after
}

// look reads one field of one entity.
func (p *poll) look(e Entity, r *Row, t track, values map[Field]Value) track {
	v, ok := values[r.what.field]
	if !ok || v.Blank || r.counts() && v.Int < 0 {
		return p.unread(e, r, t)
	}
	if r.counts() && (v.Int != t.last || t.rises != nil) {
		p.count(e, r, &t, v.Int)
	}
	t.readable, t.blank, t.silent = true, 0, time.Time{}
	if r.IgnoredAfterBoot.Duration <= p.settled {
		p.read = reading{value: v.Int, others: values, rises: t.past(), now: p.sample.Time}
		p.judge(e, r, &t)
	}
	return t
}

// count takes a counter's value. Errors while links train do not count, whenever they are read.
func (p *poll) count(e Entity, r *Row, t *track, value int64) {
	before := cmp.Or(t.silent, p.lastRead(e.Kind, r.what.field))
	if before.Sub(p.next.settling) < r.IgnoredAfterBoot.Duration {
		t.last, t.rises = value, nil
		return
	}
	t.count(value, before, p.sample.Time, r.remembered())
}

// unread notes that a field says nothing.
func (p *poll) unread(e Entity, r *Row, t track) track {
	t.hush(p.lastRead(e.Kind, r.what.field))
	if p.inMIG(e) || p.isLost(e) {
		return t // fields of links are blank then, or all are
	}
	t.blank = min(t.blank+1, unknownAfter)
	if t.never() && p.present(e) && r.clears(r.State) == ClearsOnRecovery {
		p.rest(faultKey{e, r.Signal}) // after a boot, that is: within one, nothing clears it
	}
	return t
}

// judge says what the reading means.
func (p *poll) judge(e Entity, r *Row, t *track) {
	held, known := r.test.holds(&p.read)
	if !known || held && r.When.Rate != nil && !p.read.rises.until(p.read.now) {
		return // a burst stays in the window for some polls, and is one all the same
	}
	p.seenUp(e, r, t, held)
	if p.excepted(e, r, t) {
		return
	}
	if t.hold(held, r.polls()); !held {
		t.last = p.read.value
	}
	p.conclude(e, r, t)
}

// conclude finds a fault where the condition has held for enough polls, and calm where it has not.
func (p *poll) conclude(e Entity, r *Row, t *track) {
	switch {
	case t.streak >= r.polls():
		state := r.State
		if x := r.Escalate; x != nil && x.AtLeast > 0 && p.read.rises.count(p.read.now, x.Within.Duration) >= float64(x.AtLeast) {
			state = x.State
		}
		p.found[faultKey{e, r.Signal}] = finding{state, p.read.now, describe(r, &p.read)}
	case t.streak > 0:
		p.stirred[faultKey{e, r.Signal}] = true
	case t.calm >= r.polls():
		p.rest(faultKey{e, r.Signal})
	}
}

// rest says of a fault, if there is one, that its condition no longer holds.
func (p *poll) rest(key faultKey) {
	if len(p.prev.Faults) == 0 {
		return
	}
	if _, ill := p.prev.Faults[key.Entity][key.Signal]; ill {
		p.calm[key] = true
	}
}

// seenUp remembers that an entity was up.
func (p *poll) seenUp(e Entity, r *Row, t *track, held bool) {
	switch {
	case t.up:
	case len(r.Up) == 0:
		t.up = !held
	case OneOf(r.Up).contains(p.read.value):
		t.up = true
		p.isNowUp(e)
	}
}

func (p *poll) excepted(e Entity, r *Row, t *track) bool {
	for _, x := range r.Unless {
		switch {
		case x == UnlessMIG && p.inMIG(e):
			return true
		case x == UnlessNeverUp && !t.up && (len(r.Up) == 0 || !p.next.up[e]):
			return true
		}
	}
	return false
}

// lookForMissing judges what is expected and not there.
func (p *poll) lookForMissing() {
	for e, polls := range p.next.expected {
		r, ok := p.table.missing[e.Kind]
		if !ok || !p.answers(e.Kind, fieldMissing) || r.IgnoredAfterBoot.Duration > p.settled {
			continue
		}
		key := faultKey{e, r.Signal}
		if polls >= r.polls() {
			p.found[key] = finding{r.State, p.sample.Time, describe(r, &reading{})}
		}
		if polls == 0 {
			p.rest(key)
		}
	}
}
