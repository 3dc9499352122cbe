package simulation

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// bind binds pods to the nodes that their job has held for them, as the controller does: it looks at the API server
// first, and leaves the pods to the scheduler that their nodes do not take.
func (m *manager) bind(t *tenant, b policies.Bindings) {
	if t.anyOtherWaits(b) {
		b = b.Settled()
	}
	var fitting []policies.Binding
	given := map[string]int{}
	for _, x := range b.Pods {
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
	if len(fitting) < b.Min {
		return
	}
	if b.Min > 0 && len(fitting) > 0 {
		t.happened("gang is bound without the scheduler")
	}
	if len(fitting) > 0 {
		m.checkWholeGang(t, fitting)
	}
	for _, x := range fitting {
		if x.Early {
			t.happened("pod is bound early")
		}
		m.write()
		t.bindReturning(x)
	}
}

// anyOtherWaits reports whether the scheduler has a pod to place that is not among those to bind.
func (t *tenant) anyOtherWaits(b policies.Bindings) bool {
	for _, n := range t.nodes {
		if n.arriving.gpus > 0 {
			return true
		}
	}
	return slices.ContainsFunc(t.tenants, func(other *tenant) bool {
		return slices.ContainsFunc(other.pods, func(p *pod) bool {
			ours := other == t && slices.ContainsFunc(b.Pods, func(x policies.Binding) bool { return x.UID == p.UID })
			return !ours && p.Node == "" && !p.Gated && !p.Deleting && !p.finished()
		})
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
	p.Node, p.returned, p.Unschedulable, p.BoundTime = n.Name, true, false, t.now.Truncate(time.Second)
	t.happened("pod is bound without the scheduler")
	t.changed("the manager binds pod %s to %s", p.Name, n.Name)
	t.refuse(p, n)
	t.checkRoomOwed(n, t, p)
}

// checkWholeGang checks that pods are bound without the scheduler only where the gang can run: as far as the manager
// has seen, others are bound, or it binds as many as the gang needs, together with those that wait for the scheduler because their nodes were
// free before they were held, and those whose pods are still to come to nodes that are held.
func (m *manager) checkWholeGang(t *tenant, binds []policies.Binding) {
	bound := slices.ContainsFunc(m.cache.Pods, func(p gang.Pod) bool {
		return p.Attempt == m.status.Attempt && p.Node != "" && !p.Spare && !p.Deleting && p.Phase != corev1.PodFailed && !replaced(m.status, &p)
	})
	needs := int(sizeOf(m.job, m.status).MinAvailable)
	late, coming := m.latePods(binds), m.comingPods()
	t.require(Holds, bound || len(binds)+late+coming >= needs, "%d pods of a gang of %d are bound, the scheduler has %d, and %d come to held nodes", len(binds), needs, late, coming)
}

// comingPods is how many ranks have no pod that could be bound, and a node that is held.
func (m *manager) comingPods() int {
	there := map[rank]bool{}
	for i := range m.cache.Pods {
		p := &m.cache.Pods[i]
		if p.Attempt == m.status.Attempt && !p.Spare && !p.Deleting && !ended(p) && !replaced(m.status, p) {
			there[rankOf(p)] = true
		}
	}
	coming := 0
	for _, r := range ranksOf(m.job, m.status) {
		at := slices.IndexFunc(m.status.Holds, func(h v1alpha1.NodeHold) bool { return h.Node == nodeOf(m.status, r) })
		if at >= 0 && !there[r] && m.cache.Nodes[m.status.Holds[at].Node].Hold == holdValue(m.status.Holds[at]) {
			coming++
		}
	}
	return coming
}

// latePods is how many pods are left to wait whose nodes were free before they were held.
func (m *manager) latePods(bound []policies.Binding) int {
	late := 0
	for i := range m.cache.Pods {
		p := &m.cache.Pods[i]
		at := slices.IndexFunc(m.status.Holds, func(h v1alpha1.NodeHold) bool { return h.Node == nodeOf(m.status, rankOf(p)) })
		if p.Attempt != m.status.Attempt || p.Node != "" || p.Spare || p.Deleting || ended(p) || replaced(m.status, p) || at < 0 {
			continue
		}
		if slices.ContainsFunc(bound, func(x policies.Binding) bool { return x.UID == p.UID }) {
			continue
		}
		if since := m.cache.Nodes[m.status.Holds[at].Node].HeldSince; m.status.Holds[at].Late || since.After(p.CreatedTime) {
			late++
		}
	}
	return late
}
