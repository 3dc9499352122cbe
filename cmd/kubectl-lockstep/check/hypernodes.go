package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
	"github.com/lockstep-dev/lockstep/controllers/hypernodes"
	"github.com/lockstep-dev/lockstep/fit"
	"github.com/lockstep-dev/lockstep/policies/topology"
)

// hyperNodes checks that the HyperNodes are a tree, that each holds nodes, and that every GPU node is in one.
func hyperNodes(c *Cluster, r *Result) {
	gpus := c.gpuNodes()
	r.Saw = fmt.Sprintf("%s, %s", lines.Count(len(c.HyperNodes.Items), "HyperNode"), lines.Count(len(gpus), "GPU node"))
	if len(c.HyperNodes.Items) == 0 {
		r.problem("HyperNodes", "There are none: a job that asks for a topology is not placed, and none goes back to its place.",
			"Create HyperNodes by hand, or have Volcano discover them from node labels or UFM.")
		return
	}
	for _, f := range hypernodes.Faults(c.HyperNodes.Items, c.Nodes.Items) {
		if len(f.Gone) > 0 {
			r.warning("HyperNode/"+f.HyperNode, strings.TrimSuffix(f.What, ".")+": "+some(f.Gone)+".", f.Fix)
		} else {
			r.problem("HyperNode/"+f.HyperNode, f.What, f.Fix)
		}
	}
	tree := topology.New(hypernodes.Resolve(c.HyperNodes.Items, c.Nodes.Items))
	r.shared(c, tree)
	if out := slices.DeleteFunc(gpus, func(node string) bool { return len(tree.Containing(node)) > 0 }); len(out) > 0 {
		r.problem("Node/"+slices.Min(out),
			countAre(len(out), "GPU node")+" in no HyperNode: "+some(out)+". Jobs with a hard topology never use them.",
			"Add them to the HyperNodes that they are close to.")
	}
}

// shared finds nodes that are in several HyperNodes of one tier.
func (r *Result) shared(c *Cluster, tree *topology.Topology) {
	shared := map[string][]string{} // by the tier and the HyperNodes
	for _, node := range c.Nodes.Items {
		tiers := map[int32][]string{}
		for _, h := range tree.Containing(node.Name) {
			tiers[h.Tier] = append(tiers[h.Tier], h.Name)
		}
		for tier, names := range tiers {
			if len(names) > 1 {
				slices.Sort(names)
				key := fmt.Sprintf("%d %s", tier, strings.Join(names, " "))
				shared[key] = append(shared[key], node.Name)
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(shared)) {
		names, nodes := strings.Fields(key), shared[key]
		r.problem("HyperNode/"+names[1], "It shares "+lines.Count(len(nodes), "node")+" with "+some(names[2:])+", of the same tier "+names[0]+": "+
			some(nodes)+". Where a gang is at home there cannot be told.", "Leave each node in one HyperNode of a tier.")
	}
}

// gpuNodes are the names of the nodes with GPUs.
func (c *Cluster) gpuNodes() []string {
	var out []string
	for _, n := range c.Nodes.Items {
		if fit.GPUs(n.Status.Capacity) > 0 {
			out = append(out, n.Name)
		}
	}
	return out
}
