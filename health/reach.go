// Reach: who answers in a sample, and what is there.

package health

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// reach finds out who answers. An engine that answers and sees no GPU at all, where there
// were some, has lost the driver (nv-hostengine starts without one): it is as good as silent,
// for GPUs do not leave all at once.
func (p *poll) reach() {
	gpus := 0
	for e, values := range p.sample.Values {
		switch e.Kind {
		case KindGPU:
			gpus++
			p.lookAtGPU(e.ID, values)
		case KindNIC:
			_, isPort := values[FieldPortState]
			p.ports = p.ports || isPort
		}
	}
	if p.sample.Reachable && gpus > 0 && p.areOthers() {
		p.forgetGPUs()
	}
	p.dcgm = p.sample.Reachable && (gpus > 0 || !p.expects(KindGPU))
	p.next.unreadable++
	if p.dcgm {
		p.next.unreadable, p.next.dcgmTime = 0, p.sample.Time
	}
	p.next.portless++
	if p.ports || !p.expects(KindNIC) {
		p.next.portless = 0
	}
	if p.ports {
		p.next.portsTime = p.sample.Time
	}
}

// areOthers reports whether there were GPUs, and none of them is there.
func (p *poll) areOthers() bool {
	for e := range p.prev.expected {
		if e.Kind == KindGPU && p.present(e) {
			return false
		}
	}
	return p.expects(KindGPU)
}

// forgetGPUs forgets the GPUs that were there, their links, and what was wrong with them. Others are there now, and none of them: another machine has the node's name, or all were
// replaced.
func (p *poll) forgetGPUs() {
	ofGPU := func(e Entity) bool { _, is := gpuOf(e); return is }
	p.prev.Faults, p.prev.tracks = without(p.prev.Faults, ofGPU), without(p.prev.tracks, ofGPU)
	p.next.tracks, p.next.xids = without(p.next.tracks, ofGPU), without(p.next.xids, ofGPU)
	p.next.expected, p.next.up = without(p.next.expected, ofGPU), without(p.next.up, ofGPU)
}

// without is a map without some of its keys.
func without[K comparable, V any](m map[K]V, drop func(K) bool) map[K]V {
	next := cloned(m)
	maps.DeleteFunc(next, func(k K, _ V) bool { return drop(k) })
	return next
}

// lookAtGPU notes the GPUs of whose links nothing can be said.
func (p *poll) lookAtGPU(uuid string, values map[Field]Value) {
	if mig := values[FieldMIG]; !mig.Blank && mig.Int == 1 {
		p.mig = append(p.mig, uuid)
	}
	if status := values[FieldGPUStatus].Int; status == statusLost || status == statusDetached {
		p.lost = append(p.lost, uuid)
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

// answers reports whether this sample tells anything of a field of such entities. What is
// below zero of a port is read from sysfs, without DCGM.
func (p *poll) answers(k Kind, f Field) bool {
	if k == KindNIC && f < 0 {
		return p.ports
	}
	return p.dcgm
}

// lastRead is when that was last so before this sample.
func (p *poll) lastRead(k Kind, f Field) time.Time {
	if k == KindNIC && f < 0 {
		return p.prev.portsTime
	}
	return p.prev.dcgmTime
}

// expect remembers what is there, and counts the polls in which it is not.
func (p *poll) expect() {
	for e, values := range p.sample.Values {
		if e.Kind == KindGPU && p.dcgm || e.Kind == KindNIC && p.isUp(e, values) {
			p.absent(e, 0)
		}
	}
	for e, polls := range p.next.expected {
		if !p.present(e) && p.answers(e.Kind, fieldMissing) {
			p.absent(e, polls+1)
		}
	}
}

// isUp reports whether a port is up, or was.
func (p *poll) isUp(e Entity, values map[Field]Value) bool {
	state, isPort := values[FieldPortState]
	return isPort && (state.Int == portActive || p.next.up[e])
}

// absent sets for how many polls an entity has not been there.
func (p *poll) absent(e Entity, polls int) {
	if before, known := p.next.expected[e]; !known || before != polls {
		changed(&p.next.expected, &p.own.expected)[e] = polls
	}
}

// isNowUp remembers that an entity was seen up.
func (p *poll) isNowUp(e Entity) {
	if !p.next.up[e] {
		changed(&p.next.up, &p.own.up)[e] = true
	}
}

// changed is a map of the new state that may be changed: the first time, it is no longer the old state's.
func changed[K comparable, V any](m *map[K]V, own *bool) map[K]V {
	if !*own {
		*m, *own = cloned(*m), true
	}
	return *m
}

func (p *poll) present(e Entity) bool {
	_, present := p.sample.Values[e]
	return present
}

func (p *poll) inMIG(e Entity) bool { return isOf(e, p.mig) }

// isLost reports whether DCGM tells of a GPU, or of its links, no more than that it is gone.
func (p *poll) isLost(e Entity) bool { return isOf(e, p.lost) }

// isOf reports whether an entity is one of these GPUs, or a link of one.
func isOf(e Entity, gpus []string) bool {
	if len(gpus) == 0 {
		return false
	}
	gpu, ofGPU := gpuOf(e)
	return ofGPU && slices.Contains(gpus, gpu)
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
