// Places: the HyperNodes that a topology allows, and which of them has the most room for a gang.

package capacity

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// place is some nodes that pods have to share.
type place struct {
	name  string
	nodes []corev1.Node
}

// places finds gangs, and partitions of them, that no place has room for.
func places(job *v1alpha1.TrainingJob, needs []need, c *Cluster) []Finding {
	out := fits("the gang", job.Spec.NetworkTopology, needs, c)
	if len(out) > 0 {
		return out
	}
	for i := range needs {
		task := needs[i].task
		if task.Partition == nil || !gang.IsHard(task.Partition.NetworkTopology) {
			continue
		}
		one := needs[i]
		one.pods = int64(task.Partition.Size)
		out = append(out, fits("a partition of task "+task.Name, task.Partition.NetworkTopology, []need{one}, c)...)
	}
	return out
}

// fits finds out whether some place that a topology allows could hold what is needed.
func fits(what string, t *v1alpha1.NetworkTopology, needs []need, c *Cluster) []Finding {
	var out []Finding
	highest, confined := int32(0), gang.IsHard(t) && t.HighestTierAllowed != nil && c.Topology != nil
	if confined {
		highest = *t.HighestTierAllowed
		if top := topTier(c); highest >= top {
			confined = false
			story := fmt.Sprintf("the highest HyperNode is of tier %d", top-1)
			if len(c.Topology.All()) == 0 {
				story = "the cluster has no HyperNodes"
			}
			out = found("HyperNodes", "highestTierAllowed %d lets Volcano spread %s over all nodes: %s.", highest, what, story)
		}
	}
	if !confined {
		everywhere := place{nodes: c.Nodes}
		if lack := everywhere.lack(needs); lack != "" {
			out = append(out, found("Nodes", "The cluster is too small for %s, even if it were empty: %s.", what, lack)...)
		}
		return out
	}
	allowed := hyperNodes(c, highest)
	if len(allowed) == 0 {
		return found("HyperNodes", "No HyperNode is of tier %d at most, as networkTopology.highestTierAllowed of %s asks: the lowest is of tier %d.", highest, what, c.Topology.All()[0].Tier)
	}
	best := allowed[0]
	for _, p := range allowed {
		if p.lack(needs) == "" {
			return nil
		}
		if p.holds(needs) > best.holds(needs) {
			best = p
		}
	}
	return found("HyperNodes", "No HyperNode of tier %d at most is large enough for %s, even if it were empty. The largest is %s: %s.", highest, what, best.name, best.lack(needs))
}

// topTier is the tier of the HyperNode that Volcano imagines above all others, with all nodes of the cluster: a topology that
// allows it confines to nothing. See addClusterTopHyperNode in Volcano's pkg/scheduler/framework/session.go.
func topTier(c *Cluster) int32 {
	top := int32(1)
	for _, h := range c.Topology.All() {
		top = max(top, h.Tier+1)
	}
	return top
}

// hyperNodes are the HyperNodes up to a tier, with their nodes.
func hyperNodes(c *Cluster, highest int32) []place {
	byName := make(map[string]*corev1.Node, len(c.Nodes))
	for i := range c.Nodes {
		byName[c.Nodes[i].Name] = &c.Nodes[i]
	}
	var out []place
	for _, h := range c.Topology.All() {
		if h.Tier > highest {
			continue
		}
		p := place{name: h.Name}
		for _, name := range h.Nodes {
			if n := byName[name]; n != nil {
				p.nodes = append(p.nodes, *n)
			}
		}
		out = append(out, p)
	}
	return out
}

// lack is what a place has too little of; empty where it has room for all that is needed, as far as each task and each resource
// by itself can tell.
func (p *place) lack(needs []need) string {
	for i := range needs {
		n := &needs[i]
		if room := n.room(p.nodes); room < n.pods {
			return fmt.Sprintf("it has room for %d of the %d pods of task %s that have to run together", room, n.pods, n.task.Name)
		}
	}
	asked := corev1.ResourceList{}
	for i := range needs {
		for name, each := range needs[i].requests {
			each.Mul(needs[i].pods)
			each.Add(asked[name])
			asked[name] = each
		}
	}
	for _, name := range sortedNames(asked) {
		var has resource.Quantity
		for i := range p.nodes {
			has.Add(p.nodes[i].Status.Allocatable[name])
		}
		if all := asked[name]; all.Cmp(has) > 0 {
			return fmt.Sprintf("it has %s of %s, and the pods that have to run together ask for %s", has.String(), name, all.String())
		}
	}
	return ""
}

// holds is how many of the pods that are needed a place has room for, each task by itself.
func (p *place) holds(needs []need) int64 {
	var sum int64
	for i := range needs {
		sum += min(needs[i].pods, needs[i].room(p.nodes))
	}
	return sum
}
