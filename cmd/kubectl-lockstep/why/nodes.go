// Nodes: which a job that waits could have, which of those with ranks are not well, and what the NodeHealths say of them.

package why

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/capacity"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
	"github.com/lockstep-dev/lockstep/policies/gang"
	policynodes "github.com/lockstep-dev/lockstep/policies/nodes"
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

// kept sums up what the nodes that a waiting job may use are to it, the most first.
func kept(s *Snapshot) []Fact {
	standings := s.Standings(s.Job)
	by := map[string][]string{}
	for i := range s.Nodes {
		if what, selected := standings[s.Nodes[i].Name]; selected {
			by[what] = append(by[what], s.Nodes[i].Name)
		}
	}
	if len(by[capacity.UnknownUse]) == len(standings) { // which may be 0
		return nil
	}
	var parts []string
	for _, what := range slices.SortedFunc(maps.Keys(by), func(a, b string) int {
		return cmp.Or(len(by[b])-len(by[a]), strings.Compare(a, b))
	}) {
		parts = append(parts, fmt.Sprintf("%d %s %s (%s)", len(by[what]), lines.Plural(len(by[what]), "is", "are"), what, s.listed(by[what])))
	}
	which := ""
	if len(standings) < len(s.Nodes) {
		which = " that the job may use by its nodeSelector"
	}
	return told("Nodes, Pods", "Of %s%s, %s.", lines.Count(len(standings), "node"), which, strings.Join(parts, ", "))
}

// confined says how the topology confines a job without a home, and which HyperNode has the most free nodes.
func confined(s *Snapshot) []Fact {
	t := s.Job.Spec.NetworkTopology
	if s.Job.Status.Placement != nil || !gang.IsHard(t) || t.HighestTierAllowed == nil {
		return nil
	}
	out := told("spec.networkTopology", "The topology is hard: all pods have to fit into one HyperNode of tier %d at most.", *t.HighestTierAllowed)
	standings := s.Standings(s.Job)
	best, most := topology.HyperNode{}, -1
	for _, h := range s.Topology.All() {
		n := 0
		for _, node := range h.Nodes {
			if standings[node] == capacity.Free {
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

// rankNodes are the nodes of the job's ranks, and of its spares, each with the ranks on it; the nodes are in the order of the ranks.
func (s *Snapshot) rankNodes() (nodes []string, ranks map[string][]string) {
	ranks = map[string][]string{}
	if gang.Finished(&s.Job.Status) {
		return nil, ranks
	}
	note := func(r gang.Rank, node string) {
		if node != "" && ranks[node] == nil {
			nodes = append(nodes, node)
		}
		ranks[node] = append(ranks[node], Name(r))
	}
	gang.EachRank(gang.Effective(s.Job, &s.Job.Status), func(r gang.Rank) { note(r, gang.NodeOf(s.Job.Status.Placement, r)) })
	for i := range s.Job.Spec.Tasks {
		t := &s.Job.Spec.Tasks[i]
		for index := range ptr.Deref(t.Spares, 0) {
			r := gang.SpareRank(t.Name, index)
			if p := s.podOf(r); p != nil {
				note(r, p.Spec.NodeName)
			}
		}
	}
	return nodes, ranks
}

// onBadNodes says which ranks are on nodes that are unhealthy, or that take no new pod.
func onBadNodes(s *Snapshot) []Fact {
	if !s.active() || !s.couldRead("nodes") {
		return nil
	}
	nodes, ranks := s.rankNodes()
	return first(s, nodes, func(node string) []Fact {
		trouble := s.trouble(node, capacity.HeldByOthers)
		if trouble == "" {
			return nil
		}
		n := len(ranks[node])
		verb := lines.Plural(n, "was", "were")
		if s.isOn(node) {
			verb = lines.Plural(n, "is", "are")
		}
		return told("Node "+node, "%s %s on node %s, which %s.", s.listed(ranks[node]), verb, node, trouble)
	}, "Nodes", "Nodes of its ranks that are not well beside these: %d. `kubectl lockstep map "+s.Job.Name+"` has all.")
}

// trouble is what is wrong with a node, as it reads behind "which". It leaves one obstacle out, and is empty where nothing is wrong.
func (s *Snapshot) trouble(node, except string) string {
	n := s.node(node)
	if n == nil {
		return "does not exist any more"
	}
	bad := slices.DeleteFunc(capacity.Obstacles(s.Job, n), func(one string) bool { return one == except })
	if slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == v1alpha1.TaintDegraded && t.Value == "" }) {
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

// Concerned chooses the NodeHealths of the nodes that an answer is about. An answer about a rank is about the nodes that it is on and was
// on. One about a job is about the nodes of its ranks, those that it keeps away from, those that its open incidents name, and, while it
// waits, those in quarantine.
func (s *Snapshot) Concerned(sub *Subject, all []v1alpha1.NodeHealth) []v1alpha1.NodeHealth {
	about := sets.New[string]()
	if sub == nil {
		about = s.concernedNodes()
	} else {
		_, before := s.lastLoss(sub.Rank)
		about.Insert(before)
		if p := s.pod(sub.Pod); p != nil {
			about.Insert(p.Spec.NodeName)
		}
	}
	return slices.DeleteFunc(all, func(h v1alpha1.NodeHealth) bool { return !about.Has(h.Name) })
}

func (s *Snapshot) concernedNodes() sets.Set[string] {
	out := sets.New[string]()
	if s.active() {
		nodes, _ := s.rankNodes()
		out.Insert(nodes...)
	}
	for _, x := range s.Job.Status.ExcludedNodes {
		out.Insert(x.Name)
	}
	for _, inc := range s.Job.Status.Incidents {
		for _, p := range inc.Pods {
			if inc.Outcome == "" {
				out.Insert(p.Node)
			}
		}
	}
	waits := s.Waits()
	for i := range s.Nodes {
		if n := &s.Nodes[i]; waits && slices.Contains(capacity.Obstacles(s.Job, n), capacity.InQuarantine) {
			out.Insert(n.Name)
		}
	}
	return out
}

// illNodes repeats what the NodeHealths say of the unhealthy nodes of the answer.
func illNodes(s *Snapshot) []Fact {
	return first(s, s.NodeHealths, s.Health, "NodeHealths", "Such nodes beside these: %d. `kubectl lockstep nodes --unhealthy` has all.")
}

// Health says what is known to be wrong with a node.
func (s *Snapshot) Health(h v1alpha1.NodeHealth) []Fact {
	source := "NodeHealth " + h.Name
	out := first(s, h.Status.Reports, func(r v1alpha1.HealthReport) []Fact {
		return told(source, "Node %s: %s reports %s of %s, %s since %s%s.",
			h.Name, r.Source, r.Signal, r.Entity, r.State, s.at(r.Since.Time), reasonStory("", r.Message))
	}, source, "Faults that are reported of node "+h.Name+" beside these: %d.")
	for _, from := range h.Status.Sources {
		if from.State == v1alpha1.HealthUnknown {
			out = append(out, told(source, "Node %s: %s cannot tell whether it is well%s.", h.Name, from.Name, reasonStory("", from.Message))...)
		}
	}
	return append(out, s.tellVerdict(source, &h)...)
}

// tellVerdict says what the manager decided about the health of a node.
func (s *Snapshot) tellVerdict(source string, h *v1alpha1.NodeHealth) []Fact {
	v := cmp.Or(h.Status.Verdict, &v1alpha1.HealthVerdict{})
	var out []Fact
	if v.HeldBackTime != nil {
		out = told(source, "The breaker of %s holds node %s back since %s: too many nodes are ill at once, so no pod is moved from it until a person has looked, and acknowledged that: `kubectl lockstep ack breaker`.",
			policynodes.DescribeScope(v.HeldBackBy), h.Name, s.at(v.HeldBackTime.Time))
	}
	if v.QuarantinedTime == nil {
		return out
	}
	text := fmt.Sprintf("Node %s is in quarantine since %s", h.Name, s.at(v.QuarantinedTime.Time))
	switch {
	case v.Lemon:
		text += fmt.Sprintf(". It has failed too often to come back by itself (%s lately): it stays there until a person has looked at it, and acknowledged that: `kubectl lockstep ack node %s`.",
			lines.Count(len(v.FailureTimes), "time"), h.Name)
	case v.WellTime != nil:
		text += fmt.Sprintf(", and well since %s: it comes back when it has been well for long enough.", s.at(v.WellTime.Time))
	default:
		text += fmt.Sprintf(", because it is %s: no job is placed on it.", v.State)
	}
	return append(out, told(source, "%s", text)...)
}
