// Room: which nodes a job that waits could have, what keeps it from the others, and what its topology leaves of them.

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
	"github.com/lockstep-dev/lockstep/fit"
	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// What a node is to a job that waits for nodes, beside its obstacles.
const (
	elsewhere  = "outside of home"
	avoided    = "avoided by the job after a failure"
	tooSmall   = "too small for its pods"
	ownNode    = "in use by the job itself"
	inUse      = "in use by others"
	freeForIt  = "free for its pods"
	unknownUse = "perhaps in use, as the pods of all namespaces could not be read"
)

// order of the obstacles: a node with several is counted by the first.
var order = []string{notReady, outOfService, quarantined, cordoned, heldByOthers}

// standing is what a node is to a job that waits for nodes. Each node has one.
func (s *Snapshot) standing(n *corev1.Node) string {
	obstacles := s.obstacles(n)
	for _, one := range order {
		if slices.Contains(obstacles, one) {
			return one
		}
	}
	if !s.inHome(n.Name) {
		return elsewhere
	}
	for _, x := range s.Job.Status.ExcludedNodes {
		if x.Name == n.Name {
			return avoided
		}
	}
	if taint, is := s.untolerated(n); is {
		return "tainted with " + taint
	}
	job := gang.Effective(s.Job, &s.Job.Status)
	switch {
	case !capacity.NewUsage(nil).HasRoom(job, n):
		return tooSmall
	case slices.ContainsFunc(s.Pods, func(p corev1.Pod) bool { return p.Spec.NodeName == n.Name && !hasEnded(&p) }):
		return ownNode
	case s.Usage == nil:
		return unknownUse
	case !s.Usage.HasRoom(job, n):
		return inUse
	}
	return freeForIt
}

// untolerated is a taint that keeps the pods of some task from a node.
func (s *Snapshot) untolerated(n *corev1.Node) (string, bool) {
	ownHold := func(t corev1.Taint) bool { return t.Key == policies.HoldKey(s.Job) }
	for i := range s.Job.Spec.Tasks {
		if taint, is := fit.Untolerated(&corev1.Pod{Spec: s.Job.Spec.Tasks[i].Template.Spec}, n, ownHold); is {
			return taint.ToString(), true
		}
	}
	return "", false
}

func hasEnded(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// kept tells of a job that waits for nodes what each of those is to it that it may use: a sum, the most first.
func kept(s *Snapshot) []Fact {
	if !s.Waits() || len(s.Nodes) == 0 {
		return nil
	}
	by, n := map[string][]string{}, 0
	for i := range s.Nodes {
		if !s.selected(&s.Nodes[i]) {
			continue
		}
		n++
		what := s.standing(&s.Nodes[i])
		by[what] = append(by[what], s.Nodes[i].Name)
	}
	if len(by[unknownUse]) == n { // which may be 0
		return nil
	}
	most := slices.SortedFunc(maps.Keys(by), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(by[b]), len(by[a])), strings.Compare(a, b))
	})
	var parts []string
	for _, what := range most {
		are := "are"
		if len(by[what]) == 1 {
			are = "is"
		}
		parts = append(parts, fmt.Sprintf("%d %s %s (%s)", len(by[what]), are, what, listed(by[what])))
	}
	which := ""
	if n < len(s.Nodes) || slices.ContainsFunc(s.Job.Spec.Tasks, func(t v1alpha1.Task) bool { return len(t.Template.Spec.NodeSelector) > 0 }) {
		which = " that the job may use by its nodeSelector"
	}
	return told("Nodes, Pods", "Of %s%s, %s.", counted(n, "node"), which, strings.Join(parts, ", "))
}

// selected reports whether some task of the job may go to a node by its nodeSelector and node affinity.
func (s *Snapshot) selected(n *corev1.Node) bool {
	for i := range s.Job.Spec.Tasks {
		if fit.Selected(&corev1.Pod{Spec: s.Job.Spec.Tasks[i].Template.Spec}, n) == nil {
			return true
		}
	}
	return false
}

// inHome reports whether a node may take ranks of the job because it is in home, or because there is none.
func (s *Snapshot) inHome(node string) bool {
	p := s.Job.Status.Placement
	if p == nil || p.HyperNode == "" || s.Topology == nil {
		return true
	}
	home, known := s.Topology.Find(p.HyperNode)
	return !known || home.Holds([]string{node})
}

// confined tells of a job without a home how its topology confines it, and what the cluster has of that.
func confined(s *Snapshot) []Fact {
	t := s.Job.Spec.NetworkTopology
	if !s.Waits() || s.Job.Status.Placement != nil || !gang.IsHard(t) || t.HighestTierAllowed == nil {
		return nil
	}
	out := told("spec.networkTopology", "The topology is hard: all pods have to fit into one HyperNode of tier %d at most.", *t.HighestTierAllowed)
	free := map[string]bool{}
	for i := range s.Nodes {
		free[s.Nodes[i].Name] = s.selected(&s.Nodes[i]) && s.standing(&s.Nodes[i]) == freeForIt
	}
	best, most := hyperNode{}, -1
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
		*t.HighestTierAllowed, best.Name, most, len(best.Nodes), counted(int(gang.MinAvailable(s.Job)), "pod"))...)
}
