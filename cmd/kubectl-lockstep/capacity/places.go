// Places: the HyperNodes that a topology allows, and which of them has the most room for a gang.

package capacity

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/topology"
)

// places finds gangs, and partitions of them, that no place has room for.
func places(job *v1alpha1.TrainingJob, needs []need, c *Cluster) []Fact {
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
func fits(what string, t *v1alpha1.NetworkTopology, needs []need, c *Cluster) []Fact {
	var out []Fact
	all := c.Topology.All() // the highest comes last
	confined := gang.IsHard(t) && t.HighestTierAllowed != nil && c.Topology != nil
	// Volcano imagines a HyperNode above all others, with all nodes of the cluster: a topology that allows it confines to nothing. See
	// addClusterTopHyperNode in Volcano's pkg/scheduler/framework/session.go.
	if confined && (len(all) == 0 || *t.HighestTierAllowed > all[len(all)-1].Tier) {
		story := "the cluster has no HyperNodes"
		if len(all) > 0 {
			story = fmt.Sprintf("the highest HyperNode is of tier %d", all[len(all)-1].Tier)
		}
		confined, out = false, Told("HyperNodes", "highestTierAllowed %d lets Volcano spread %s over all nodes: %s.", *t.HighestTierAllowed, what, story)
	}
	if !confined {
		if lack := lackOf(c.Nodes, needs); lack != "" {
			out = append(out, Told("Nodes", "The cluster is too small for %s, even if it were empty: %s.", what, lack)...)
		}
		return out
	}
	best, most, lack := "", int64(-1), ""
	for _, h := range all {
		if h.Tier > *t.HighestTierAllowed {
			break
		}
		nodes := c.nodesOf(h)
		switch lacks, n := lackOf(nodes, needs), holds(nodes, needs); {
		case lacks == "":
			return nil
		case n > most:
			best, most, lack = h.Name, n, lacks
		}
	}
	if most < 0 {
		return Told("HyperNodes", "No HyperNode is of tier %d at most, as networkTopology.highestTierAllowed of %s asks: the lowest is of tier %d.",
			*t.HighestTierAllowed, what, all[0].Tier)
	}
	return Told("HyperNodes", "No HyperNode of tier %d at most is large enough for %s, even if it were empty. The largest is %s: %s.",
		*t.HighestTierAllowed, what, best, lack)
}

// nodesOf are the nodes of a HyperNode.
func (c *Cluster) nodesOf(h topology.HyperNode) []corev1.Node {
	var out []corev1.Node
	for i := range c.Nodes {
		if h.Holds([]string{c.Nodes[i].Name}) {
			out = append(out, c.Nodes[i])
		}
	}
	return out
}

// lackOf is what nodes have too little of; empty where they have room for all that is needed, as far as each task and each resource
// by itself can tell.
func lackOf(nodes []corev1.Node, needs []need) string {
	for i := range needs {
		n := &needs[i]
		if room := n.room(nodes); room < n.pods {
			return fmt.Sprintf("it has room for %d of the %d pods of task %s that have to run together", room, n.pods, n.task.Name)
		}
	}
	asked := total(needs)
	for _, name := range sortedNames(asked) {
		var has resource.Quantity
		for i := range nodes {
			has.Add(nodes[i].Status.Allocatable[name])
		}
		if all := asked[name]; all.Cmp(has) > 0 {
			return fmt.Sprintf("it has %s of %s, and the pods that have to run together ask for %s", has.String(), name, all.String())
		}
	}
	return ""
}

// holds is how many of the pods that are needed nodes have room for, each task by itself.
func holds(nodes []corev1.Node, needs []need) int64 {
	var sum int64
	for i := range needs {
		sum += min(needs[i].pods, needs[i].room(nodes))
	}
	return sum
}
