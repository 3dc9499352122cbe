// Ranks and spares of a job: those on nodes that are not well, and spares that hold no node.

package why

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// rankNodes are the nodes of the job's ranks, each with the ranks on it; the nodes are in the order of the ranks.
func (s *Snapshot) rankNodes() (nodes []string, ranks map[string][]string) {
	ranks = map[string][]string{}
	if s.Job.Status.Placement == nil || !s.active() {
		return nil, ranks
	}
	gang.EachRank(gang.Effective(s.Job, &s.Job.Status), func(r gang.Rank) {
		node := gang.NodeOf(s.Job.Status.Placement, r)
		if node == "" {
			return
		}
		if ranks[node] == nil {
			nodes = append(nodes, node)
		}
		ranks[node] = append(ranks[node], Subject{Rank: r}.name())
	})
	return nodes, ranks
}

// onBadNodes tells which ranks are on nodes that are not well, or that no new pod may go to.
func onBadNodes(s *Snapshot) []Fact {
	if !s.couldRead("nodes") {
		return nil
	}
	var out []Fact
	more := 0
	nodes, ranks := s.rankNodes()
	for _, node := range nodes {
		trouble := s.trouble(node)
		switch {
		case trouble == "":
		case len(out) == maxNames:
			more++
		default:
			out = append(out, told("Node "+node, "%s %s on node %s, which %s.", listed(ranks[node]), s.isOrWas(node, len(ranks[node])), node, trouble)...)
		}
	}
	if more > 0 {
		out = append(out, told("Nodes", "%d more of the nodes of its ranks %s not well: `kubectl lockstep map %s` has all.", more, isOrAre(more), s.Job.Name)...)
	}
	return out
}

// trouble is what is wrong with a node of a rank, as it reads behind "which"; empty where nothing is.
func (s *Snapshot) trouble(node string) string {
	n := s.node(node)
	if n == nil {
		return "does not exist any more"
	}
	bad := slices.DeleteFunc(s.obstacles(n), func(one string) bool { return one == heldByOthers })
	if slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == v1alpha1.TaintDegraded }) {
		bad = append(bad, "degraded")
	}
	if len(bad) == 0 {
		return ""
	}
	return "is " + strings.Join(bad, ", ")
}

// isOrWas is the verb for ranks on a node: one that is gone has none any more, and one that they have left has none of their pods.
func (s *Snapshot) isOrWas(node string, ranks int) string {
	there := !s.couldRead("pods") || slices.ContainsFunc(s.Pods, func(p corev1.Pod) bool { return p.Spec.NodeName == node })
	switch {
	case there && s.node(node) != nil:
		return isOrAre(ranks)
	case ranks == 1:
		return "was"
	}
	return "were"
}

func isOrAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// spares tells of the spares that hold no node, and why.
func spares(s *Snapshot) []Fact {
	if !s.active() || s.Job.Status.Placement == nil {
		return nil
	}
	var out []Fact
	for i := range s.Job.Spec.Tasks {
		t := &s.Job.Spec.Tasks[i]
		status := gang.TaskStatus(&s.Job.Status, t.Name+v1alpha1.SpareSuffix)
		wanted := ptr.Deref(t.Spares, 0)
		if status == nil || status.Ready >= wanted {
			continue
		}
		out = append(out, told("status.tasks", "Of the %s of task %s, %d %s a node. While one is missing, a rank that loses its node may have to wait for another.",
			counted(int(wanted), "spare"), t.Name, status.Ready, holdOrHolds(status.Ready))...)
		for index := range wanted {
			out = append(out, s.tellMissingSpare(gang.SpareRank(t.Name, index))...)
		}
	}
	return out
}

func holdOrHolds(n int32) string {
	if n == 1 {
		return "holds"
	}
	return "hold"
}

// tellMissingSpare tells what a spare without a node waits for.
func (s *Snapshot) tellMissingSpare(r gang.Rank) []Fact {
	if !s.couldRead("pods") {
		return nil
	}
	sub := Subject{Rank: r, Attempt: s.Job.Status.Attempt, Pod: gang.PodName(s.Job, s.Job.Status.Attempt, r)}
	p := s.pod(sub)
	switch {
	case p == nil:
		return told("Pods", "There is no pod of %s yet.", sub.name())
	case p.Spec.NodeName != "":
		return nil
	case gated(p):
		return told("Pod "+p.Name, "%s waits behind its gate: a spare gets a node while no incident is open, every rank has one, and home has a free one.", sub.name())
	}
	return told("Pod "+p.Name, "%s has no node: %s.", sub.name(), unplacedStory(p))
}
