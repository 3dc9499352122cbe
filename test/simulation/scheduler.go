package simulation

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// gangPods is what the scheduler sees of a Volcano Job. Failed and terminating pods do not count.
type gangPods struct {
	waiting   []*pod // for a node
	bound     []*pod
	succeeded int // ranks, which confine the others to no HyperNode any more
	valid     int // ranks
}

// schedule lets Volcano's scheduler look at every job once, in random order.
func (w *world) schedule() {
	for _, i := range w.rng.Perm(len(w.tenants)) {
		w.tenants[i].scheduleGang()
	}
}

// scheduleGang binds the pods of the current gang: minAvailable ranks or none. Spares do not count, and get
// what is left.
func (t *tenant) scheduleGang() {
	v := t.currentVolcanoJob()
	if v == nil || v.ended || v.stopping || v.pending {
		return
	}
	g := t.gang(v)
	v.misled = v.misled && len(g.bound) > 0
	if len(g.waiting) == 0 {
		return
	}
	if v.misled {
		t.markUntried(g)
		return
	}
	if g.valid < int(v.size.MinAvailable) {
		if t.one(2) {
			t.markUnschedulable(g)
		}
		return
	}
	// The most confined pods come first, so that a free one does not take the node of a pinned one.
	slices.SortStableFunc(g.waiting, func(a, b *pod) int { return confinement(a) - confinement(b) })
	for _, room := range t.roomsFor(g) {
		chosen := t.fit(g, room)
		placed := g.placed() + countRanks(g.waiting, func(p *pod) bool { return chosen.nodes[p] != "" })
		if placed < int(v.size.MinAvailable) {
			continue
		}
		for _, p := range g.waiting {
			if node := chosen.nodes[p]; node != "" {
				t.bind(p, node)
			}
		}
		break
	}
	t.markUnschedulable(g)
}

func (t *tenant) bind(p *pod, node string) {
	n := t.nodes[node]
	if t.losesPlace(p, n) || t.schedulable(n) < t.request {
		return
	}
	p.Node, p.Unschedulable, p.BoundTime = node, false, t.now.Truncate(time.Second)
	t.changed("pod %s is bound to %s", p.Name, node)
	if !n.joinTime.IsZero() {
		t.happened("late node is used")
	}
	t.refuse(p, n)
	t.checkRoomOwed(n, t, p)
}

// markUnschedulable sets the condition of the pods that found no node.
func (t *tenant) markUnschedulable(g gangPods) {
	for _, p := range g.waiting {
		if untried := t.overShare(1); p.Node == "" && (!p.Unschedulable || p.Untried != untried) {
			p.Unschedulable, p.Untried = true, untried
			t.changed("pod %s is unschedulable", p.Name)
		}
	}
}

// markUntried sets the condition of the pods for which no node was tried.
func (t *tenant) markUntried(g gangPods) {
	for _, p := range g.waiting {
		if !p.Unschedulable || !p.Untried {
			p.Unschedulable, p.Untried = true, true
			t.changed("no node is tried for pod %s", p.Name)
		}
	}
}

// misleadBy has the scheduler lose sight of where hard gangs run that have a pod on a node, now and then, when that is deleted.
func (w *world) misleadBy(node string) {
	for _, t := range w.tenants {
		v, asked := t.currentVolcanoJob(), t.job.Spec.NetworkTopology
		if v == nil || asked == nil || asked.Mode != v1alpha1.TopologyHard || !slices.ContainsFunc(t.podsOf(v), func(p *pod) bool { return p.Node == node }) {
			continue
		}
		v.misled = true
		w.happened("Volcano is misled by a deleted node")
	}
}

func (t *tenant) gang(v *volcanoJob) gangPods {
	g := gangPods{}
	for _, p := range t.podsOf(v) {
		switch {
		case p.Deleting || p.Phase == corev1.PodFailed:
			continue
		case p.Phase == corev1.PodSucceeded:
			if !p.Spare {
				g.succeeded++
			}
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

// placed is how many ranks have had a node.
func (g gangPods) placed() int {
	return g.succeeded + countRanks(g.bound, func(*pod) bool { return true })
}

func confinement(p *pod) int {
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
func (t *tenant) roomsFor(g gangPods) [][]string {
	if !t.confined {
		return [][]string{t.names}
	}
	var rooms [][]string
	for _, i := range t.rng.Perm(racks) {
		if room := t.members[rackName(i)]; holdsAll(room, g.bound) {
			rooms = append(rooms, room)
		}
	}
	// The busiest rack comes first, so that jobs which take less than a node share racks.
	slices.SortStableFunc(rooms, func(a, b []string) int { return t.occupiedIn(b) - t.occupiedIn(a) })
	return rooms
}

func (t *tenant) occupiedIn(room []string) int {
	if len(t.tenants) == 1 {
		return 0
	}
	return len(slices.DeleteFunc(slices.Clone(room), func(n string) bool { return !t.occupied(t.nodes[n]) }))
}

func holdsAll(room []string, bound []*pod) bool {
	return !slices.ContainsFunc(bound, func(p *pod) bool { return !slices.Contains(room, p.Node) })
}

// choice is which pods are promised which nodes in one round, and how many pods each node.
type choice struct {
	nodes map[*pod]string
	given map[string]int
}

// fit chooses nodes for the waiting pods, the partitions first.
func (t *tenant) fit(g gangPods, room []string) choice {
	chosen := choice{nodes: map[*pod]string{}, given: map[string]int{}}
	var seen []int32
	for _, p := range g.waiting {
		if id := t.subgroup(p); id >= 0 && !slices.Contains(seen, id) {
			seen = append(seen, id)
			t.fitSubgroup(g, id, room, chosen)
		}
	}
	for _, p := range g.waiting {
		if t.subgroup(p) < 0 {
			t.choose(p, room, chosen)
		}
	}
	return chosen
}

// fitSubgroup places the waiting pods of a partition in one leaf, beside those that are bound.
func (t *tenant) fitSubgroup(g gangPods, id int32, room []string, chosen choice) {
	others := func(p *pod) bool { return t.subgroup(p) != id }
	bound := slices.DeleteFunc(slices.Clone(g.bound), others)
	waiting := slices.DeleteFunc(slices.Clone(g.waiting), others)
	for _, i := range t.rng.Perm(racks * leavesOfRack) {
		leaf := t.members[leafName(i)]
		if !slices.Contains(room, leaf[0]) || !holdsAll(leaf, bound) {
			continue
		}
		if !slices.ContainsFunc(waiting, func(p *pod) bool { return !t.choose(p, leaf, chosen) }) {
			return
		}
		for _, p := range waiting {
			if node, ok := chosen.nodes[p]; ok {
				chosen.given[node]--
				delete(chosen.nodes, p)
			}
		}
	}
}

// subgroup is the partition of a pod, where that has to be in one leaf; else negative.
func (t *tenant) subgroup(p *pod) int32 {
	for i := range t.job.Spec.Tasks {
		task := &t.job.Spec.Tasks[i]
		if task.Name == p.Task && !p.Spare && task.Partition != nil && task.Partition.NetworkTopology != nil && task.Partition.NetworkTopology.Mode == v1alpha1.TopologyHard {
			return p.Index / task.Partition.Size
		}
	}
	return -1
}

// choose gives a pod a random node of those that take it: beside another job's pods where it can, and not beside
// its own, so that jobs which take less than a node share many.
func (t *tenant) choose(p *pod, room []string, chosen choice) bool {
	if t.overShare(len(chosen.nodes) + 1) {
		t.happened("queue's share refuses a pod")
		return false
	}
	first, best, found := t.rng.IntN(len(room)), 0, ""
	for i := range room {
		n := t.nodes[room[(first+i)%len(room)]]
		given := chosen.given[n.Name]
		if !n.good() || t.schedulable(n) < t.request*(1+given) || !t.mayPass(p, n) || !admits(p.target, n.Hostname) {
			continue
		}
		own := given > 0 || t.findPod(func(q *pod) bool { return q.Node == n.Name }) != nil
		score := 2
		if own {
			score = 1
		} else if t.occupied(n) {
			score = 3
		}
		if score > best {
			best, found = score, n.Name
		}
	}
	if found != "" {
		chosen.nodes[p] = found
		chosen.given[found]++
	}
	return found != ""
}
