package simulation

import "slices"

// checkWaiting checks, in a settled world, that no rank waits although there is a place for it.
func (t *tenant) checkWaiting() {
	s := &t.job.Status
	for _, p := range t.pods {
		if p.Spare || p.Gated || p.Node != "" || p.Deleting || p.finished() || p.Attempt != s.Attempt || replaced(s, &p.Pod) {
			continue
		}
		own := t.nodes[nodeOf(s, p.rank())]
		pinned := own != nil && len(p.target.In) == 1 && p.target.In[0] == own.Hostname
		if pinned {
			_, held := own.holds[t.name]
			refused := held && t.takes(own) && t.overShare(1)
			t.requireOf(Liveness, heldPlace, !refused, "pod %s may go to node %s, which the job holds for it, and the queue's share refuses it", p.Name, own.Name)
			continue
		}
		t.checkLateNodes(p)
	}
}

// checkLateNodes checks that a rank that finds no room is not kept from a good node that joined its home since.
func (t *tenant) checkLateNodes(p *pod) {
	s := &t.job.Status
	home := t.members[homeOf(t.job, s, p.rank())]
	room := func(name string) bool {
		n := t.nodes[name]
		return t.takes(n) && !isExcluded(s, name) && !t.hasLeft(name)
	}
	if slices.ContainsFunc(home, func(name string) bool { return room(name) && admits(p.target, t.nodes[name].Hostname) }) {
		return // the gang waits for something else
	}
	for _, name := range home {
		n := t.nodes[name]
		late := !n.joinTime.IsZero() && n.joinTime.After(p.PlacedTime)
		t.require(Liveness, !late || !room(name), "pod %s finds no room, and is kept from node %s, which joined %s", p.Name, name, homeOf(t.job, s, p.rank()))
	}
}
