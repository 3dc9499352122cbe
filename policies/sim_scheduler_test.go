// The fake scheduler of the simulation: Volcano's gang and network-topology-aware plugins.

package policies

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// simGang is what the scheduler sees of a Volcano Job. Failed and terminating pods do not count.
type simGang struct {
	waiting []*simPod // for a node
	bound   []*simPod
	valid   int // ranks
}

// schedule binds the pods of the current gang, all that it takes or none. Spares do not
// count: they get what is left.
func (c *cluster) schedule() {
	v := c.currentVolcanoJob()
	if v == nil || v.ended || v.stopping || v.pending {
		return
	}
	g := c.gang(v)
	if len(g.waiting) == 0 {
		return
	}
	if g.valid < int(v.size.MinAvailable) {
		if c.one(2) {
			c.findNoRoom(g)
		}
		return
	}
	// The most confined first, so that a free pod does not take the node of a pinned one.
	slices.SortStableFunc(g.waiting, func(a, b *simPod) int { return confinement(a) - confinement(b) })
	for _, room := range c.roomsFor(g) {
		chosen := c.fit(g, room)
		if ranksOf(g.bound, func(*simPod) bool { return true })+ranksOf(g.waiting, func(p *simPod) bool { return chosen[p] != "" }) < int(v.size.MinAvailable) {
			continue
		}
		for _, p := range g.waiting {
			if node := chosen[p]; node != "" {
				p.Node, p.Unschedulable = node, false
				c.changed("pod %s is bound to %s", p.Name, p.Node)
			}
		}
		break
	}
	c.findNoRoom(g)
}

// findNoRoom says of the pods without a node that they are unschedulable.
func (c *cluster) findNoRoom(g simGang) {
	for _, p := range g.waiting {
		if p.Node == "" && !p.Unschedulable {
			p.Unschedulable = true
			c.changed("pod %s is unschedulable", p.Name)
		}
	}
}

func ranksOf(pods []*simPod, ok func(*simPod) bool) int {
	n := 0
	for _, p := range pods {
		if !p.Spare && ok(p) {
			n++
		}
	}
	return n
}

func (c *cluster) gang(v *simVolcanoJob) simGang {
	g := simGang{}
	for _, p := range c.podsOf(v) {
		switch {
		case p.Deleting || p.Phase == corev1.PodFailed:
			continue
		case p.Node != "":
			g.bound = append(g.bound, p)
		case !p.Gated:
			g.waiting = append(g.waiting, p)
		}
		if !p.Spare {
			g.valid++
		}
	}
	return g
}

func confinement(p *simPod) int {
	n := len(p.target.In)
	if p.target.In == nil {
		n = 1000
	}
	if p.Spare {
		n += 10000
	}
	return n
}

// roomsFor are the sets of nodes that may hold the gang, in random order.
func (c *cluster) roomsFor(g simGang) [][]string {
	if !c.confined {
		return [][]string{c.names}
	}
	var rooms [][]string
	for _, i := range c.rng.Perm(racks) {
		if room := c.members[rackName(i)]; holdsAll(room, g.bound) {
			rooms = append(rooms, room)
		}
	}
	return rooms
}

func holdsAll(room []string, bound []*simPod) bool {
	return !slices.ContainsFunc(bound, func(p *simPod) bool { return !slices.Contains(room, p.Node) })
}

// fit chooses nodes for the waiting pods, the partitions first.
func (c *cluster) fit(g simGang, room []string) map[*simPod]string {
	chosen := map[*simPod]string{}
	var seen []int32
	for _, p := range g.waiting {
		if id := c.subgroup(p); id >= 0 && !slices.Contains(seen, id) {
			seen = append(seen, id)
			c.fitSubgroup(g, id, room, chosen)
		}
	}
	for _, p := range g.waiting {
		if c.subgroup(p) < 0 {
			c.choose(p, room, chosen)
		}
	}
	return chosen
}

// fitSubgroup places the waiting pods of a partition in one leaf, beside those that are bound.
func (c *cluster) fitSubgroup(g simGang, id int32, room []string, chosen map[*simPod]string) {
	others := func(p *simPod) bool { return c.subgroup(p) != id }
	bound := slices.DeleteFunc(slices.Clone(g.bound), others)
	waiting := slices.DeleteFunc(slices.Clone(g.waiting), others)
	for _, i := range c.rng.Perm(racks * leavesOfRack) {
		leaf := c.members[leafName(i)]
		if !slices.Contains(room, leaf[0]) || !holdsAll(leaf, bound) {
			continue
		}
		if !slices.ContainsFunc(waiting, func(p *simPod) bool { return !c.choose(p, leaf, chosen) }) {
			return
		}
		for _, p := range waiting {
			delete(chosen, p)
		}
	}
}

// subgroup is the partition of a pod, where that has to be in one leaf; else negative.
func (c *cluster) subgroup(p *simPod) int32 {
	for i := range c.job.Spec.Tasks {
		t := &c.job.Spec.Tasks[i]
		if t.Name == p.Task && !p.Spare && t.Partition != nil && t.Partition.NetworkTopology != nil && t.Partition.NetworkTopology.Mode == v1alpha1.TopologyHard {
			return p.Index / t.Partition.Size
		}
	}
	return -1
}

// choose gives a pod a random node of those that take it.
func (c *cluster) choose(p *simPod, room []string, chosen map[*simPod]string) bool {
	start := c.rng.IntN(len(room))
	for i := range room {
		n := c.nodes[room[(start+i)%len(room)]]
		if n.schedulable() && p.target.admits(n.Hostname) && !c.occupied(n.Name) && !promised(chosen, n.Name) {
			chosen[p] = n.Name
			return true
		}
	}
	return false
}

func promised(chosen map[*simPod]string, node string) bool {
	for _, n := range chosen {
		if n == node {
			return true
		}
	}
	return false
}

func (t Target) admits(hostname string) bool {
	return (t.In == nil || slices.Contains(t.In, hostname)) && !slices.Contains(t.NotIn, hostname)
}
