package simulation

import (
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// bind binds pods to the nodes that their job has held for them, as the controller does. The late ones follow, where no other job's
// pod waits for their nodes.
func (m *manager) bind(t *tenant, b policies.Bindings) {
	bound, complete := m.bindAll(t, b.Pods, b.Min, len(b.Late))
	if complete {
		late := slices.DeleteFunc(slices.Clone(b.Late), func(x policies.Binding) bool { return t.hasRivals(t.nodes[x.Node]) })
		m.bindAll(t, late, 0, bound+len(b.Late)-len(late))
	}
}

// bindAll looks at the API server first, and leaves the pods to the scheduler that their nodes do not take. It returns how many it has bound, and
// whether these were enough. Others of the gang are bound before, or left to the scheduler for a while.
func (m *manager) bindAll(t *tenant, bindings []policies.Binding, least, others int) (bound int, complete bool) {
	var fitting []policies.Binding
	given := map[string]int{}
	for _, x := range bindings {
		p := t.podOfUID(x.UID)
		if p == nil || p.Node != "" || p.Gated || p.Deleting {
			continue
		}
		if !t.takesReturning(t.nodes[x.Node], p, given[x.Node]) {
			m.tried[x.UID] = true
			t.happened("pod that returns is left to the scheduler")
			continue
		}
		given[x.Node]++
		fitting = append(fitting, x)
	}
	if len(fitting) < least {
		return 0, false
	}
	if least > 0 && len(fitting) > 0 {
		t.happened("gang is bound without the scheduler")
	}
	if len(fitting) > 0 {
		m.checkWholeGang(t, len(fitting)+others)
	}
	for _, x := range fitting {
		m.write()
		t.bindReturning(x)
	}
	return len(fitting), true
}

// hasRivals reports whether a pod of another job waits for a node, and may go to this one.
func (t *tenant) hasRivals(n *node) bool {
	return slices.ContainsFunc(t.tenants, func(other *tenant) bool {
		waits := func(p *pod) bool { return !p.Gated && p.Node == "" && !p.Deleting && admits(p.target, n.Hostname) }
		return other != t && other.findPod(waits) != nil
	})
}

// takesReturning reports whether a node takes a pod that returns to it, beside others that do. What other jobs hold
// there is what they had beside this one.
func (t *tenant) takesReturning(n *node, p *pod, others int) bool {
	_, held := n.holds[t.name]
	return held && n.good() && admits(p.target, n.Hostname) && t.free(n) >= t.request*(1+others)
}

func (t *tenant) bindReturning(x policies.Binding) {
	p, n := t.podOfUID(x.UID), t.nodes[x.Node]
	if t.leads() {
		t.require(Home, nodeOf(&t.job.Status, p.rank()) == x.Node, "pod %s is bound to %s, and is not to return there", p.Name, x.Node)
	}
	p.Node, p.Unschedulable, p.BoundTime = n.Name, false, t.now.Truncate(time.Second)
	t.happened("pod is bound without the scheduler")
	t.changed("the manager binds pod %s to %s", p.Name, n.Name)
	t.refuse(p, n)
	t.checkRoomOwed(n, t, p)
}

// checkWholeGang checks that pods are bound without the scheduler only where the gang can run: as far as the manager
// has seen, others are bound, or it binds as many as the gang needs, those apart that are late.
func (m *manager) checkWholeGang(t *tenant, binds int) {
	bound := slices.ContainsFunc(m.cache.Pods, func(p gang.Pod) bool {
		return p.Attempt == m.status.Attempt && p.Node != "" && !p.Spare && !p.Deleting && !ended(&p) && !replaced(m.status, &p)
	})
	needs := int(sizeOf(m.job, m.status).MinAvailable)
	t.require(Holds, bound || binds >= needs, "%d pods of a gang of %d are bound", binds, needs)
}
