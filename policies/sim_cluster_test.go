// The fake world of the simulation: its nodes, kubelets and scheduler.

package policies

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// cluster is the fake world, as its API server has it.
type cluster struct {
	rng *rand.Rand
	now time.Time
	log []string
	// writes counts the changes to the world.
	writes int
	uids   int

	job     *v1alpha1.TrainingJob
	version int      // resourceVersion of the job
	earlier []stored // versions of the job before
	volcano []*simVolcanoJob
	pods    []*simPod
	nodes   map[string]*simNode
	names   []string // of the nodes, sorted
	racks   map[string][]string

	topology  *Topology // of the nodes that exist
	confined  bool      // the gang has to be in one rack
	never     bool      // the kubelet restarts nothing in place
	queueOpen bool
	done      bool // the program comes to its end

	manager *manager
	ledger  ledger
	broken  string
}

type stored struct {
	version int
	job     *v1alpha1.TrainingJob
}

type simNode struct {
	Node
	gone  bool
	other bool // another job runs there
}

type simPod struct {
	Pod
	target Target
}

var simStart = time.Date(2026, 1, 2, 3, 4, 5, 678901234, time.UTC)

// newCluster makes a cluster of three racks of four nodes, and a job for one of them.
func newCluster(rng *rand.Rand) *cluster {
	c := &cluster{rng: rng, now: simStart, nodes: map[string]*simNode{}, racks: map[string][]string{}, queueOpen: true, version: 1, manager: &manager{}}
	for i := range 12 {
		name := fmt.Sprintf("n%02d", i)
		// The hostname label is not always the node's name.
		c.nodes[name] = &simNode{Node: Node{Name: name, Hostname: "host-" + name, Ready: true}}
		c.names = append(c.names, name)
		rack := fmt.Sprintf("rack-%d", i/4)
		c.racks[rack] = append(c.racks[rack], name)
	}
	c.resolve()
	c.confined, c.never = rng.IntN(2) == 0, rng.IntN(2) == 0
	job := aJob().tasks(task("head", 1), task("worker", int32(1+rng.IntN(3))))
	job.Spec.RestartPolicy = c.drawPolicy()
	switch rng.IntN(4) {
	case 0:
		job.Spec.Hold = &v1alpha1.Hold{Policy: v1alpha1.HoldAlways, Seconds: 600}
	case 1:
		job.Spec.Hold = &v1alpha1.Hold{Policy: v1alpha1.HoldOnRecovery, Seconds: int32(rng.IntN(3) * 20)}
	}
	if rng.IntN(5) == 0 {
		job.Spec.SuccessPolicy = &v1alpha1.SuccessPolicy{Tasks: []string{"head"}}
	}
	if !c.confined && rng.IntN(5) == 0 {
		job.Spec.MinAvailable = ptr.To[int32](2)
	}
	c.job = job.TrainingJob
	return c
}

// resolve makes the topology of the nodes that exist.
func (c *cluster) resolve() {
	var hyperNodes []HyperNode
	all := HyperNode{Name: "spine", Tier: 2}
	for _, rack := range []string{"rack-0", "rack-1", "rack-2"} {
		h := HyperNode{Name: rack, Tier: 1}
		for _, n := range c.racks[rack] {
			if !c.nodes[n].gone {
				h.Nodes = append(h.Nodes, n)
			}
		}
		all.Nodes = append(all.Nodes, h.Nodes...)
		hyperNodes = append(hyperNodes, h)
	}
	c.topology = NewTopology(append(hyperNodes, all))
}

func (c *cluster) say(format string, args ...any) {
	c.log = append(c.log, fmt.Sprintf("%8.1fs ", c.now.Sub(simStart).Seconds())+fmt.Sprintf(format, args...))
}

// changed notes a change to the world.
func (c *cluster) changed(format string, args ...any) {
	c.writes++
	c.say(format, args...)
}

// sum says where the job stands.
func (c *cluster) sum() string {
	var b strings.Builder
	s := &c.job.Status
	fmt.Fprintf(&b, "%s, attempt %d, ready %s", s.State, s.Attempt, s.Ready)
	for _, inc := range s.Incidents {
		if inc.Outcome == "" {
			fmt.Fprintf(&b, "; %s, steps %v", story(&inc), inc.Steps)
		}
	}
	for _, p := range c.pods {
		fmt.Fprintf(&b, "; %s on %q %s ready=%v gated=%v deleting=%v life %d, to %v", p.Name, p.Node, p.Phase, p.Ready, p.Gated, p.Deleting, p.Incarnation, p.target)
	}
	for _, v := range c.volcano {
		fmt.Fprintf(&b, "; %+v", *v)
	}
	return b.String()
}

func (c *cluster) remove(p *simPod) {
	c.changed("pod %s is gone", p.Name)
	c.pods = slices.DeleteFunc(c.pods, func(q *simPod) bool { return q == p })
}

func (c *cluster) podNamed(name string) *simPod {
	for _, p := range c.pods {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// occupied is true for a node that a pod of ours has not given back.
func (c *cluster) occupied(node string) bool {
	return slices.ContainsFunc(c.pods, func(p *simPod) bool { return p.Node == node && !p.finished() })
}

func (n *simNode) answers() bool { return !n.gone && n.Ready }

// schedulable is true for a node that takes new pods, of anybody who tolerates a hold.
func (n *simNode) schedulable() bool {
	return n.answers() && !n.Unschedulable && !n.OutOfService && !n.other
}

// schedule binds the pods of the current gang, all that it takes or none.
func (c *cluster) schedule() {
	v := c.currentVolcanoJob()
	if v == nil || v.ended || v.stopping || v.pending {
		return
	}
	waiting, bound, valid := c.gang(v)
	if valid < int(MinAvailable(c.job)) || len(waiting) == 0 {
		return
	}
	// The most confined first, so that a free pod does not take the node of a pinned one.
	slices.SortStableFunc(waiting, func(a, b *simPod) int { return confinement(a.target) - confinement(b.target) })
	for _, room := range c.rooms(bound) {
		chosen := c.fit(waiting, room)
		if len(chosen)+len(bound) < int(MinAvailable(c.job)) {
			continue
		}
		for _, p := range waiting {
			if node, ok := chosen[p]; ok {
				p.Node = node
				c.changed("pod %s is bound to %s", p.Name, p.Node)
			}
		}
		return
	}
}

// gang are the pods that wait for a node, the nodes of those that have one, and how
// many pods Volcano's gang plugin counts.
func (c *cluster) gang(v *simVolcanoJob) (waiting []*simPod, bound []string, valid int) {
	for _, p := range c.podsOf(v) {
		switch {
		case p.Deleting || p.Phase == corev1.PodFailed:
			continue // it does not count these
		case p.Node != "":
			bound = append(bound, p.Node)
		case !p.Gated:
			waiting = append(waiting, p)
		}
		valid++
	}
	return waiting, bound, valid
}

func confinement(t Target) int {
	if t.In == nil {
		return 1000
	}
	return len(t.In)
}

// rooms are the sets of nodes that may hold the gang, in random order.
func (c *cluster) rooms(bound []string) [][]string {
	if !c.confined {
		return [][]string{c.names}
	}
	var rooms [][]string
	for _, i := range c.rng.Perm(3) {
		room := c.racks[fmt.Sprintf("rack-%d", i)]
		if !slices.ContainsFunc(bound, func(n string) bool { return !slices.Contains(room, n) }) {
			rooms = append(rooms, room)
		}
	}
	return rooms
}

func (c *cluster) fit(waiting []*simPod, room []string) map[*simPod]string {
	chosen, taken := map[*simPod]string{}, map[string]bool{}
	for _, p := range waiting {
		for _, i := range c.rng.Perm(len(room)) {
			n := c.nodes[room[i]]
			if n.schedulable() && !taken[n.Name] && !c.occupied(n.Name) && p.target.admits(n.Hostname) {
				chosen[p], taken[n.Name] = n.Name, true
				break
			}
		}
	}
	return chosen
}

func (t Target) admits(hostname string) bool {
	return (t.In == nil || slices.Contains(t.In, hostname)) && !slices.Contains(t.NotIn, hostname)
}

// runKubelets lets every kubelet do what is next, in trouble only some of it.
func (c *cluster) runKubelets() {
	for _, p := range slices.Clone(c.pods) {
		if c.lazy() {
			continue
		}
		c.runPod(p)
	}
}

// lazy is true now and then while there is trouble.
func (c *cluster) lazy() bool { return !c.quiet() && c.rng.IntN(2) == 0 }

// quiet is true once the trouble is over.
func (c *cluster) quiet() bool { return c.ledger.calm }

func (c *cluster) runPod(p *simPod) {
	n := c.nodes[p.Node]
	switch {
	case p.Deleting && (n == nil || n.answers() || n.gone):
		c.remove(p)
	case n != nil && n.gone:
		p.Deleting = true
		c.changed("the pod garbage collector deletes pod %s", p.Name)
	case n == nil || !n.Ready || p.finished():
	case p.Phase == corev1.PodPending:
		p.Phase = corev1.PodRunning
		c.changed("pod %s runs", p.Name)
	case !p.Ready:
		p.Ready, p.WasReady, p.Failure = true, true, Failure{}
		c.changed("pod %s is ready", p.Name)
	case c.done:
		p.Phase, p.Ready = corev1.PodSucceeded, false
		c.changed("pod %s has succeeded", p.Name)
	}
}
