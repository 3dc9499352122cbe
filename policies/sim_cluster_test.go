// The fake world of the simulation: its nodes, its pods and their kubelets.

package policies

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// cluster is the fake world, as its API server has it.
type cluster struct {
	rng  *rand.Rand
	now  time.Time
	told bool // it keeps a log
	log  []string
	// writes counts the changes to the world.
	writes int
	uids   int

	job     *v1alpha1.TrainingJob
	version int      // resourceVersion of the job
	earlier []stored // the last versions of the job before
	volcano []*simVolcanoJob
	pods    []*simPod
	nodes   map[string]*simNode
	names   []string            // of the nodes, sorted
	members map[string][]string // of the HyperNodes, nodes that are gone among them

	topology  *Topology // of the nodes that exist
	confined  bool      // the gang has to be in one rack
	never     bool      // the kubelet restarts nothing in place
	queueOpen bool
	health    *v1alpha1.HealthPolicySpec
	done      bool // the program comes to its end

	manager *manager // the leader
	former  *manager // one that has yet to hear that it leads no more
	acting  *manager // the one whose turn it is
	ledger  ledger
	tally   census
	broken  string
}

type stored struct {
	version int
	job     *v1alpha1.TrainingJob
}

type simNode struct {
	Node
	gone    bool
	other   bool // another job runs there
	signals []Signal
}

type simPod struct {
	Pod
	target Target
}

// The tiers of the HyperNodes.
const (
	leafTier int32 = 1 + iota
	rackTier
	spineTier
)

const racks, leavesOfRack = 3, 2

var simStart = time.Date(2026, 1, 2, 3, 4, 5, 678901234, time.UTC)

// newCluster makes a cluster of three racks of two leaves, and a job for one of them.
func newCluster(rng *rand.Rand, told bool) *cluster {
	c := &cluster{
		rng: rng, now: simStart, told: told, nodes: map[string]*simNode{}, members: map[string][]string{}, queueOpen: true, version: 1,
		manager: &manager{}, tally: census{},
	}
	perLeaf := 2 + rng.IntN(2)
	for i := range perLeaf * leavesOfRack * racks {
		name := fmt.Sprintf("n%02d", i)
		// The hostname label is not always the node's name.
		c.nodes[name] = &simNode{Node: Node{Name: name, Hostname: "host-" + name, Ready: true}}
		c.names = append(c.names, name)
		for _, h := range []string{leafName(i / perLeaf), rackName(i / perLeaf / leavesOfRack), "spine"} {
			c.members[h] = append(c.members[h], name)
		}
	}
	c.resolve()
	c.confined, c.never = rng.IntN(2) == 0, rng.IntN(2) == 0
	c.job, c.health = c.drawJob(), c.drawHealthPolicy()
	return c
}

func leafName(i int) string { return fmt.Sprintf("leaf-%d", i) }
func rackName(i int) string { return fmt.Sprintf("rack-%d", i) }

func (c *cluster) rackSize() int { return len(c.members["rack-0"]) }

// resolve makes the topology of the nodes that exist.
func (c *cluster) resolve() {
	var hyperNodes []HyperNode
	add := func(name string, tier int32) {
		h := HyperNode{Name: name, Tier: tier}
		for _, n := range c.members[name] {
			if !c.nodes[n].gone {
				h.Nodes = append(h.Nodes, n)
			}
		}
		hyperNodes = append(hyperNodes, h)
	}
	for i := range racks * leavesOfRack {
		add(leafName(i), leafTier)
	}
	for i := range racks {
		add(rackName(i), rackTier)
	}
	add("spine", spineTier)
	c.topology = NewTopology(hyperNodes)
}

// one is true once in n times.
func (c *cluster) one(n int) bool { return c.rng.IntN(n) == 0 }

func (c *cluster) say(format string, args ...any) {
	if c.told {
		c.log = append(c.log, fmt.Sprintf("%8.1fs ", c.now.Sub(simStart).Seconds())+fmt.Sprintf(format, args...))
	}
}

// sayIncidents tells the incidents that are not what they were.
func (c *cluster) sayIncidents(old, s *v1alpha1.TrainingJobStatus) {
	if !c.told {
		return
	}
	for _, inc := range s.Incidents {
		if was := incidentOf(old, inc.ID); !equality.Semantic.DeepEqual(was, inc) {
			c.say("  %s %s of %s; rule %s, %q; charged %v; steps %v", story(&inc), inc.Outcome, inc.Class, inc.Rule, inc.PolicyTask, inc.Charged, inc.Steps)
		}
	}
	c.say("  lives %+v, placement %s, excluded %v, left %v", s.Tasks, sayPlacement(s), s.ExcludedNodes, s.LeftHyperNodes)
}

// sayPlacement tells a placement. It holds pointers, which are others in each run.
func sayPlacement(s *v1alpha1.TrainingJobStatus) string {
	raw, err := json.Marshal(s.Placement)
	if err != nil {
		panic(err)
	}
	return string(raw)
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
	fmt.Fprintf(&b, "%s, attempt %d, ready %s, policy %+v", s.State, s.Attempt, s.Ready, c.job.Spec.RestartPolicy)
	for _, inc := range s.Incidents {
		if inc.Outcome == "" {
			fmt.Fprintf(&b, "\n  %s, rule %s, steps %v", story(&inc), inc.Rule, inc.Steps)
		}
	}
	for _, p := range c.pods {
		fmt.Fprintf(&b, "\n  %s on %q %s ready=%v gated=%v deleting=%v life %d, to %v", p.Name, p.Node, p.Phase, p.Ready, p.Gated, p.Deleting, p.Incarnation, p.target)
	}
	for _, v := range c.volcano {
		fmt.Fprintf(&b, "\n  %+v", *v)
	}
	fmt.Fprintf(&b, "\n  excluded %v, left %v, placement %s", s.ExcludedNodes, s.LeftHyperNodes, sayPlacement(s))
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

// speaks is true for a node whose kubelet still says what ends there.
func (n *simNode) speaks() bool { return !n.gone && (n.Ready || n.SilentSince.IsZero()) }

// schedulable is true for a node that takes new pods, of anybody who tolerates a hold.
func (n *simNode) schedulable() bool {
	return n.answers() && !n.Unschedulable && !n.OutOfService && !n.other && len(n.Taints) == 0
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
func (c *cluster) lazy() bool { return !c.quiet() && c.one(2) }

// quiet is true once the trouble is over.
func (c *cluster) quiet() bool { return c.ledger.calm }

func (c *cluster) runPod(p *simPod) {
	n := c.nodes[p.Node]
	switch {
	case p.Deleting && (n == nil || n.speaks() || n.gone):
		c.remove(p)
	case n != nil && n.gone:
		p.Deleting = true
		c.changed("the pod garbage collector deletes pod %s", p.Name)
	case n == nil || !n.Ready || p.finished():
	case p.Phase == corev1.PodPending:
		p.Phase, p.IP = corev1.PodRunning, "10.0.0."+p.UID
		c.changed("pod %s runs", p.Name)
	case !p.Ready:
		p.Ready, p.WasReady, p.Failure = true, true, Failure{}
		c.changed("pod %s is ready", p.Name)
	case c.done && !p.Spare:
		p.Phase, p.Ready = corev1.PodSucceeded, false
		c.changed("pod %s has succeeded", p.Name)
	}
}
