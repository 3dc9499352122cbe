// Nodes: what each is to the job, which a job that waits could have, and which of those with ranks are not well.

package why

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/capacity"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
	"github.com/lockstep-dev/lockstep/fit"
	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/placement"
	"github.com/lockstep-dev/lockstep/policies/topology"
)

// node returns a node of the snapshot; nil where it is not there.
func (s *Snapshot) node(name string) *corev1.Node {
	i := slices.IndexFunc(s.Nodes, func(n corev1.Node) bool { return n.Name == name })
	if i < 0 {
		return nil
	}
	return &s.Nodes[i]
}

// What a node is to the job, as it reads behind "is".
const (
	quarantined  = "in quarantine"
	heldByOthers = "held by other TrainingJobs"
	freeForIt    = "free for its pods"
	unknownUse   = "perhaps in use, as the pods of all namespaces could not be read"
)

func tainted(n *corev1.Node, key string) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
}

// obstacles are what keeps pods of the job from a node by what the node itself tells, the worst first.
func (s *Snapshot) obstacles(n *corev1.Node) []string {
	unready := func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue
	}
	foreign := func(t corev1.Taint) bool { return gang.IsHold(t) && t.Key != policies.HoldKey(s.Job) }
	var out []string
	for _, o := range []struct {
		is   bool
		what string
	}{
		{slices.ContainsFunc(n.Status.Conditions, unready), "not ready"},
		{tainted(n, corev1.TaintNodeOutOfService), "out of service"},
		{tainted(n, v1alpha1.TaintQuarantine), quarantined},
		{n.Spec.Unschedulable, "cordoned"},
		{slices.ContainsFunc(n.Spec.Taints, foreign), heldByOthers},
	} {
		if o.is {
			out = append(out, o.what)
		}
	}
	return out
}

// standing is what a node is to a job that waits for nodes. Each node has one.
func (s *Snapshot) standing(n *corev1.Node) string {
	if obstacles := s.obstacles(n); len(obstacles) > 0 {
		return obstacles[0]
	}
	taint := s.untolerated(n)
	job := gang.Effective(s.Job, &s.Job.Status)
	switch {
	case !s.inHome(n.Name):
		return "outside of home"
	case placement.Excluded(&s.Job.Status, n.Name):
		return "avoided by the job after a failure"
	case taint != "":
		return "tainted with " + taint
	case !capacity.NewUsage(nil).HasRoom(job, n):
		return "too small for its pods"
	case slices.ContainsFunc(s.Pods, func(p corev1.Pod) bool { return p.Spec.NodeName == n.Name && !hasEnded(&p) }):
		return "in use by the job itself"
	case s.Usage == nil:
		return unknownUse
	case !s.Usage.HasRoom(job, n):
		return "in use by others"
	}
	return freeForIt
}

// inHome reports whether a node may take ranks of the job because it is in home, or because there is none.
func (s *Snapshot) inHome(node string) bool {
	if s.Job.Status.Placement == nil {
		return true
	}
	home, known := s.Topology.Find(s.Job.Status.Placement.HyperNode)
	return !known || home.Holds([]string{node})
}

// untolerated is a taint that keeps the pods of every task from a node; empty where one tolerates all.
func (s *Snapshot) untolerated(n *corev1.Node) string {
	ownHold := func(t corev1.Taint) bool { return t.Key == policies.HoldKey(s.Job) }
	kept := ""
	for i := range s.Job.Spec.Tasks {
		taint, is := fit.Untolerated(&corev1.Pod{Spec: s.Job.Spec.Tasks[i].Template.Spec}, n, ownHold)
		if !is {
			return ""
		}
		kept = taint.ToString()
	}
	return kept
}

// selected reports whether some task of the job may go to a node by its nodeSelector and node affinity.
func (s *Snapshot) selected(n *corev1.Node) bool {
	return slices.ContainsFunc(s.Job.Spec.Tasks, func(t v1alpha1.Task) bool {
		return fit.Selected(&corev1.Pod{Spec: t.Template.Spec}, n) == nil
	})
}

func hasEnded(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// kept tells of a job that waits for nodes what each of those is to it that it may use: a sum, the most first.
func kept(s *Snapshot) []Fact {
	by, n := map[string][]string{}, 0
	for i := range s.Nodes {
		if s.selected(&s.Nodes[i]) {
			what := s.standing(&s.Nodes[i])
			by[what] = append(by[what], s.Nodes[i].Name)
			n++
		}
	}
	if len(by[unknownUse]) == n { // which may be 0
		return nil
	}
	var parts []string
	for _, what := range slices.SortedFunc(maps.Keys(by), func(a, b string) int {
		return cmp.Or(len(by[b])-len(by[a]), strings.Compare(a, b))
	}) {
		parts = append(parts, fmt.Sprintf("%d %s %s (%s)", len(by[what]), lines.Plural(len(by[what]), "is", "are"), what, s.listed(by[what])))
	}
	which := ""
	if n < len(s.Nodes) {
		which = " that the job may use by its nodeSelector"
	}
	return told("Nodes, Pods", "Of %s%s, %s.", lines.Count(n, "node"), which, strings.Join(parts, ", "))
}

// confined tells of a job without a home how its topology confines it, and what the cluster has of that.
func confined(s *Snapshot) []Fact {
	t := s.Job.Spec.NetworkTopology
	if s.Job.Status.Placement != nil || !gang.IsHard(t) || t.HighestTierAllowed == nil {
		return nil
	}
	out := told("spec.networkTopology", "The topology is hard: all pods have to fit into one HyperNode of tier %d at most.", *t.HighestTierAllowed)
	free := map[string]bool{}
	for i := range s.Nodes {
		free[s.Nodes[i].Name] = s.selected(&s.Nodes[i]) && s.standing(&s.Nodes[i]) == freeForIt
	}
	best, most := topology.HyperNode{}, -1
	for _, h := range s.Topology.All() {
		n := 0
		for _, node := range h.Nodes {
			if free[node] {
				n++
			}
		}
		if h.Tier <= *t.HighestTierAllowed && n > most {
			best, most = h, n
		}
	}
	if most < 0 || s.Usage == nil {
		return out
	}
	return append(out, told("HyperNodes", "Of the HyperNodes up to tier %d, %s has the most free nodes: %d of %d. The gang is %s.",
		*t.HighestTierAllowed, best.Name, most, len(best.Nodes), lines.Count(gang.MinAvailable(s.Job), "pod"))...)
}

// rankNodes are the nodes of the job's ranks, each with the ranks on it; the nodes are in the order of the ranks.
func (s *Snapshot) rankNodes() (nodes []string, ranks map[string][]string) {
	ranks = map[string][]string{}
	if !s.active() {
		return nil, ranks
	}
	gang.EachRank(gang.Effective(s.Job, &s.Job.Status), func(r gang.Rank) {
		node := gang.NodeOf(s.Job.Status.Placement, r)
		if node != "" && ranks[node] == nil {
			nodes = append(nodes, node)
		}
		ranks[node] = append(ranks[node], Name(r))
	})
	return nodes, ranks
}

// onBadNodes tells which ranks are on nodes that are not well, or that no new pod may go to.
func onBadNodes(s *Snapshot) []Fact {
	if !s.couldRead("nodes") {
		return nil
	}
	var each [][]Fact
	nodes, ranks := s.rankNodes()
	for _, node := range nodes {
		trouble := s.trouble(node)
		if trouble == "" {
			continue
		}
		n := len(ranks[node])
		verb := lines.Plural(n, "was", "were")
		if s.isOn(node) {
			verb = lines.Plural(n, "is", "are")
		}
		each = append(each, told("Node "+node, "%s %s on node %s, which %s.", s.listed(ranks[node]), verb, node, trouble))
	}
	return s.first(each, "Nodes", "Nodes of its ranks that are not well beside these: %d. `kubectl lockstep map "+s.Job.Name+"` has all.")
}

// trouble is what is wrong with a node of a rank, as it reads behind "which"; empty where nothing is.
func (s *Snapshot) trouble(node string) string {
	n := s.node(node)
	if n == nil {
		return "does not exist any more"
	}
	bad := slices.DeleteFunc(s.obstacles(n), func(one string) bool { return one == heldByOthers })
	if tainted(n, v1alpha1.TaintDegraded) {
		bad = append(bad, "degraded")
	}
	if len(bad) == 0 {
		return ""
	}
	return "is " + strings.Join(bad, ", ")
}

// isOn reports whether pods of the job may still be on a node: it is there, and not all of them have left.
func (s *Snapshot) isOn(node string) bool {
	return s.node(node) != nil && (!s.couldRead("pods") || slices.ContainsFunc(s.Pods, func(p corev1.Pod) bool { return p.Spec.NodeName == node }))
}
