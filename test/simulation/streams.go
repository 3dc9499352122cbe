package simulation

import (
	"slices"
	"strconv"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/supervisor/epoch"
	"github.com/lockstep-dev/lockstep/supervisor/wire"
)

// What is between supervisors and the manager: reports and orders that come late, are lost, or are of an earlier manager.

// keptOrders is how many earlier orders may still be on their way.
const keptOrders = 12

// toldOrder is an order as a supervisor was told it last.
type toldOrder struct {
	policies.Order
	any bool
	// placed is whether it came with a rank.
	placed bool
}

// giveOrder has a manager tell its supervisors what to do. What a former leader tells comes late, if at all.
func (m *manager) giveOrder(t *tenant, plan *policies.Plan) {
	o := plan.Order
	if o == nil {
		return
	}
	if m == t.manager {
		t.givePlaces(plan)
	}
	t.orders = append(t.orders, *o)
	if n := len(t.orders); n > keptOrders {
		t.orders = slices.Clone(t.orders[n-keptOrders:])
	}
	if m == t.manager && (m.order == nil || *m.order != *o) {
		m.order = o
		t.changed("order: %+v", *o)
	}
}

// talk lets a supervisor report what is new, and hear what the manager wants.
func (t *tenant) talk(p *pod) {
	if !t.nodes[p.Node].answers() || t.now.Before(p.deaf) {
		t.disconnect(p)
		return
	}
	if p.heard == nil {
		p.heardSince = t.now
	}
	if p.heard != p.report {
		p.heard = p.report
		t.changed("the manager hears pod %s: %s in epoch %d", p.Name, p.report.State, p.report.Epoch)
	}
	if !t.hesitates() {
		t.obey(p)
	}
}

// obey gives a supervisor the manager's order: the last one, or in times of trouble one that is late.
func (t *tenant) obey(p *pod) {
	o := t.manager.order
	if o == nil {
		return
	}
	late := !t.calm && t.supervision.IntN(6) == 0
	if late {
		o = &t.orders[t.supervision.IntN(len(t.orders))]
	}
	if p.superseded != 0 && o.Epoch >= p.superseded {
		o = new(*o)
		o.Start, o.Release = false, false
	}
	if !late && p.up && p.told.any && p.told.Order == *o && p.told.placed == p.placed {
		return
	}
	if o.Epoch < p.kept {
		t.happened("supervisor hears an order of an older epoch")
	}
	if !p.up {
		p.up = true
		t.inform(p, epoch.Connected{})
	}
	p.told = toldOrder{*o, !late, p.placed}
	t.writes++
	p.ordered = o.Start // a program that is left to its kubelet starts without its gang
	order := &wire.Order{Epoch: o.Epoch, Start: o.Start, Resume: o.Epoch > 1, ResumeStep: o.ResumeStep, Release: o.Release, Keep: o.Keep}
	if p.placed {
		order.Place = &wire.Place{}
	}
	t.inform(p, epoch.Ordered{Order: order})
	p.ordered = false
}

// disconnect ends the stream of a supervisor.
func (t *tenant) disconnect(p *pod) {
	if p.heard == nil && !p.up {
		return
	}
	up := p.up
	if p.heard != nil {
		p.heardUntil, p.heardReached = t.now, p.heard.GetEpoch()
		if p.heard.GetState() == wire.State_STATE_STOPPING {
			p.heardReached--
		}
	}
	p.heard, p.up, p.told = nil, false, toldOrder{}
	t.changed("the stream of pod %s ends", p.Name)
	if up {
		t.inform(p, epoch.Disconnected{})
	}
}

// disconnectAll ends all streams, because the manager does. The next one does not know of them.
func (t *tenant) disconnectAll() {
	for _, p := range t.pods {
		if p.machine != nil {
			t.disconnect(p)
			p.heardUntil, p.heardReached = time.Time{}, 0
		}
	}
}

// withReports are pods as a manager sees them, with what their supervisors report to it.
func (t *tenant) withReports(pods []gang.Pod) []gang.Pod {
	if !t.supervised {
		return pods
	}
	pods = slices.Clone(pods)
	for i := range pods {
		switch p := t.podOfUID(pods[i].UID); {
		case p != nil && p.heard != nil:
			note(&pods[i], p.heard)
			pods[i].Process.HeardSince = p.heardSince
		case p != nil:
			pods[i].HeardUntil, pods[i].HeardReached = p.heardUntil, p.heardReached
		}
	}
	return pods
}

// giveEpoch keeps the epoch that a pod is given with its gate.
func (t *tenant) giveEpoch(p *pod, l policies.Lift) {
	if !t.supervised {
		return
	}
	e, err := strconv.ParseInt(l.Annotations[v1alpha1.AnnotationEpoch], 10, 64)
	t.require(Status, p.Spare || err == nil, "pod %s is given the epoch %q", p.Name, l.Annotations[v1alpha1.AnnotationEpoch])
	p.kept, p.standby = e, l.Annotations[v1alpha1.AnnotationStandby]
}

// haunt keeps the program of a pod whose object is removed, on a node that is only cut off.
func (t *tenant) haunt(p *pod) {
	if p.machine == nil {
		return
	}
	t.disconnect(p)
	if n := t.nodes[p.Node]; n != nil && n.cut && !n.gone && !n.Ready {
		t.happened("program outlives its pod")
		t.ghosts = append(t.ghosts, p)
		return
	}
	p.machine, p.running = nil, false
}

// runGhosts lets the supervisors of pods that are no more run on, until their nodes are back and the manager refuses them.
func (t *tenant) runGhosts() {
	for _, p := range slices.Clone(t.ghosts) {
		switch n := t.nodes[p.Node]; {
		case n == nil || n.gone:
			p.machine = nil
		case n.answers():
			t.inform(p, epoch.Ordered{Order: &wire.Order{Refused: "the rank gets another pod"}})
			t.stepSupervisor(p)
		default:
			if at := p.machine.Deadline(); !at.IsZero() && !at.After(t.now) {
				t.inform(p, epoch.Expired{})
			}
			t.stepSupervisor(p)
		}
	}
	t.ghosts = slices.DeleteFunc(t.ghosts, func(p *pod) bool {
		if p.machine == nil {
			t.changed("nothing is left of pod %s, uid %s", p.Name, p.UID)
		}
		return p.machine == nil
	})
}

// cutFor cuts a supervisor off from the manager for some time.
func (t *tenant) cutFor(p *pod, d time.Duration) {
	p.deaf = t.now.Add(d)
	t.disconnect(p)
	t.changed("pod %s reaches no manager for %s", p.Name, d)
}
