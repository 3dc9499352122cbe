package lab

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/topology"
)

// Failure is one failure of a play.
type Failure struct {
	At    time.Duration // since the play began
	Cause Cause
	// Nodes that it hits. Default: the node on which Rank is then.
	Nodes []string
	Rank  gang.Rank
	// Costs are the times that things take from this failure on. Default: as before.
	Costs *Costs
	// NoRoom is for how long after the failure no node is free on which the job has no pod, as other jobs are there. Default: 0.
	NoRoom time.Duration
}

// draw draws the failures of a play. Every node of the cluster fails, whether the job is on it or not, so that the failures are the
// same under every policy.
func (s *Setup) draw() []Failure {
	total := 0.0 // of one node in a day
	for _, c := range s.Causes {
		total += c.PerThousandNodeDays / 1000
	}
	tree := topology.New(clone(s.HyperNodes))
	nodes := nodesOf(tree)
	if total == 0 || len(nodes) == 0 {
		return nil
	}
	d := drawing{rng: rand.New(rand.NewChaCha8(seedOf(s.Seed))), causes: s.Causes, nodes: nodes, leaves: leavesOf(tree)}
	d.pickLemons(s.Lemons)
	var out []Failure
	for at := d.pause(total); at < s.For; at += d.pause(total) {
		c := d.cause(total)
		hit := []string{d.node()}
		if c.Scope == HyperNodeScope {
			hit = d.leaves[hit[0]]
		}
		out = append(out, Failure{At: at, Cause: c, Nodes: hit})
	}
	return out
}

// drawing draws failures. Nodes fail independently of each other, at constant rates, so that the times between failures are
// exponential.
type drawing struct {
	rng           *rand.Rand
	causes        []Cause
	nodes, lemons []string
	lemonShare    float64
	leaves        map[string][]string // the nodes of the lowest HyperNode of each node
}

// pickLemons chooses the nodes that fail more often than the others.
func (d *drawing) pickLemons(l *Lemons) {
	if l == nil {
		return
	}
	n := int(math.Round(l.Nodes * float64(len(d.nodes))))
	if n == 0 && d.rng.Float64() < l.Nodes*float64(len(d.nodes)) {
		n = 1
	}
	for _, i := range d.rng.Perm(len(d.nodes))[:n] {
		d.lemons = append(d.lemons, d.nodes[i])
	}
	if n > 0 {
		d.lemonShare = l.Failures
	}
}

func (d *drawing) pause(perNodeDay float64) time.Duration {
	days := -math.Log(1-d.rng.Float64()) / (perNodeDay * float64(len(d.nodes)))
	return time.Duration(days * 24 * float64(time.Hour))
}

func (d *drawing) cause(total float64) Cause {
	draw := d.rng.Float64() * total
	for _, c := range d.causes {
		if draw -= c.PerThousandNodeDays / 1000; draw < 0 {
			return c
		}
	}
	return d.causes[len(d.causes)-1]
}

func (d *drawing) node() string {
	if d.lemonShare > 0 && d.rng.Float64() < d.lemonShare {
		return d.lemons[d.rng.IntN(len(d.lemons))]
	}
	return d.nodes[d.rng.IntN(len(d.nodes))]
}

// nodesOf are the nodes of a topology, those of a HyperNode beside each other.
func nodesOf(t *topology.Topology) []string {
	var out []string
	seen := map[string]bool{}
	for _, h := range t.All() {
		for _, n := range h.Nodes {
			if !seen[n] {
				seen[n] = true
				out = append(out, n)
			}
		}
	}
	return out
}

// leavesOf are the nodes of the lowest HyperNode of each node, itself among them.
func leavesOf(t *topology.Topology) map[string][]string {
	out := map[string][]string{}
	all := slices.SortedStableFunc(slices.Values(t.All()), func(a, b topology.HyperNode) int { return int(a.Tier - b.Tier) })
	for _, h := range all {
		for _, n := range h.Nodes {
			if out[n] == nil {
				out[n] = h.Nodes
			}
		}
	}
	return out
}
