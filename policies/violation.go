// Violations: ranks that lie further apart than a hard topology allows, whatever brought them there. They are said,
// and nothing is moved for them.

package policies

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// maxNodesTold is how many nodes of one HyperNode a message names.
const maxNodesTold = 4

// describeTopology says where a hard topology is violated. A job of which none ever was has no such condition.
func (j job) describeTopology(s *v1alpha1.TrainingJobStatus) {
	told := ""
	if !j.stopped(s) {
		told = j.violations(s)
	}
	switch {
	case j.lacksHyperNodes(s):
		j.SetCondition(s, v1alpha1.ConditionTopologyViolated, true, v1alpha1.ReasonNoHyperNodes,
			"the cluster has no HyperNodes, so that Volcano places the job as if it had no networkTopology: create HyperNodes for the nodes")
	case told != "":
		j.SetCondition(s, v1alpha1.ConditionTopologyViolated, true, v1alpha1.ReasonTierExceeded,
			told+". Lockstep moves nothing for that: a step RelocateJob, or a new TrainingJob, is placed from scratch")
	case meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionTopologyViolated) != nil:
		j.SetCondition(s, v1alpha1.ConditionTopologyViolated, false, v1alpha1.ReasonWithinTier, "the ranks that run are as close as networkTopology asks")
	}
}

// lacksHyperNodes reports whether the job runs on several nodes with a hard topology that nothing tells of.
func (j job) lacksHyperNodes(s *v1alpha1.TrainingJobStatus) bool {
	if j.stopped(s) || len(j.Topology.All()) > 0 || !j.demandsTopology() {
		return false
	}
	nodes := map[string]bool{}
	gang.EachRank(j.Effective, func(r gang.Rank) { nodes[j.liveNode(s, r)] = true })
	delete(nodes, "")
	return len(nodes) > 1
}

// demandsTopology reports whether the ranks of the job, or of a partition, have to be together.
func (j job) demandsTopology() bool {
	return gang.IsHard(j.Effective.Spec.NetworkTopology) || slices.ContainsFunc(j.Effective.Spec.Tasks, func(t v1alpha1.Task) bool {
		return t.Partition != nil && gang.IsHard(t.Partition.NetworkTopology)
	})
}

// violations tells where the ranks of the job, or of its partitions, lie apart; empty where none do.
func (j job) violations(s *v1alpha1.TrainingJobStatus) string {
	var all []string
	var told []string
	for i := range j.Effective.Spec.Tasks {
		t := &j.Effective.Spec.Tasks[i]
		partitions := map[int32][]string{}
		for index := range t.Replicas {
			r := gang.Rank{Task: t.Name, Index: index}
			if node := j.liveNode(s, r); node != "" {
				all = append(all, node)
				partitions[j.PartitionOf(r)] = append(partitions[j.PartitionOf(r)], node)
			}
		}
		if t.Partition == nil {
			continue
		}
		for _, n := range slices.Sorted(maps.Keys(partitions)) {
			what := fmt.Sprintf("partition %d of task %s", n, t.Name)
			told = append(told, j.violation(what, t.Partition.NetworkTopology, partitions[n]))
		}
	}
	told = slices.Insert(told, 0, j.violation("the job", j.Effective.Spec.NetworkTopology, all))
	return strings.Join(slices.DeleteFunc(told, func(one string) bool { return one == "" }), "; ")
}

// liveNode is the node on which a rank's pod is to stay; empty for a pod that has none, has ended, or is being replaced.
func (j job) liveNode(s *v1alpha1.TrainingJobStatus, r gang.Rank) string {
	p := j.Pod(r)
	if p == nil || p.Finished() || p.Deleting || gang.IsStale(s, p) {
		return ""
	}
	if _, exists := j.Nodes[p.Node]; !exists {
		return "" // a HyperNode does not hold a node that is gone
	}
	return p.Node
}

// violation tells where nodes lie apart that a topology wants together; empty where they do not, and where none of them
// is in a HyperNode of an allowed tier, for then the topology is not known.
func (j job) violation(what string, topology *v1alpha1.NetworkTopology, nodes []string) string {
	if !gang.IsHard(topology) || topology.HighestTierAllowed == nil {
		return ""
	}
	highest := *topology.HighestTierAllowed
	if h, ok := j.Topology.Lowest(nodes); ok && h.Tier <= highest {
		return ""
	}
	domains := map[string][]string{}
	for _, node := range slices.Compact(slices.Sorted(slices.Values(nodes))) {
		domain := j.Topology.Widest(node, highest)
		domains[domain] = append(domains[domain], node)
	}
	if len(domains) < 2 {
		return ""
	}
	var told []string
	for _, name := range slices.Sorted(maps.Keys(domains)) {
		in := name
		if in == "" {
			in = "no HyperNode"
		}
		told = append(told, fmt.Sprintf("%s (%s)", in, listed(domains[name])))
	}
	return fmt.Sprintf("networkTopology requires %s in one HyperNode of tier %d at most, and its ranks are in %s", what, highest, strings.Join(told, ", "))
}

// listed are the names of nodes, some of them where they are many.
func listed(nodes []string) string {
	out := strings.Join(nodes[:min(len(nodes), maxNodesTold)], ", ")
	if more := len(nodes) - maxNodesTold; more > 0 {
		out += fmt.Sprintf(" and %d more", more)
	}
	return out
}
