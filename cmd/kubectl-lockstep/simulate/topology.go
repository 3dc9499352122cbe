package simulate

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"

	"github.com/lockstep-dev/lockstep/controllers/hypernodes"
	"github.com/lockstep-dev/lockstep/policies/topology"
)

// readTopology reads the HyperNodes and Nodes of the file of --topology. Nodes that have no room for a pod of any of the studies are left
// out: the failures of such nodes were not counted.
func (c *cluster) readTopology(studies []*study, warn func(string)) (*site, error) {
	hyperNodes, nodes, err := c.readNodes()
	if err != nil {
		return nil, fmt.Errorf("--topology %s: %w", nameOf(c.file), err)
	}
	nodes = append(nodes, c.formerNodes(nodes, warn)...)
	for _, w := range unmatched(hyperNodes, nodes) {
		warn(w)
	}
	out := &site{gpus: map[string]int64{}, name: "a node of " + nameOf(c.file)}
	told := slices.ContainsFunc(nodes, func(n corev1.Node) bool { return gpusOfNode(&n) > 0 })
	if told && c.gpusGiven {
		return nil, fmt.Errorf("the Nodes of --topology %s say how many GPUs they have: leave --gpus-per-node out", nameOf(c.file))
	}
	if !told {
		out.name += ", see --gpus-per-node,"
	}
	for i := range nodes {
		out.gpus[nodes[i].Name] = c.gpusPerNode
		if told {
			out.gpus[nodes[i].Name] = gpusOfNode(&nodes[i])
		}
	}
	out.hyperNodes = slices.DeleteFunc(hypernodes.Resolve(hyperNodes, nodes), func(h topology.HyperNode) bool { return len(h.Nodes) == 0 })
	if small := out.leaveOut(studies); len(small) > 0 {
		warn(fmt.Sprintf("--topology %s: nodes with too few GPUs for a pod of any job are left out: %s", nameOf(c.file), some(small)))
	}
	return out, nil
}

// formerNodes are those that the incidents of a replay name, and that are not in the file any more. They were as the others are.
func (c *cluster) formerNodes(nodes []corev1.Node, warn func(string)) []corev1.Node {
	var names []string
	var out []corev1.Node
	for _, name := range c.named {
		if slices.ContainsFunc(nodes, func(n corev1.Node) bool { return n.Name == name }) {
			continue
		}
		former := corev1.Node{Status: nodes[0].Status}
		former.Name, former.Labels = name, map[string]string{corev1.LabelHostname: name}
		names, out = append(names, name), append(out, former)
	}
	if len(names) > 0 {
		warn(fmt.Sprintf("--topology %s: nodes that the incidents name, and that are not in the file, are taken to have been there: %s", nameOf(c.file), some(names)))
	}
	return out
}

// readNodes reads the objects of a topology.
func (c *cluster) readNodes() (hyperNodes []topologyv1alpha1.HyperNode, nodes []corev1.Node, err error) {
	raw, err := readFile(c.in, c.file)
	if err != nil {
		return nil, nil, err
	}
	all, err := objects(raw)
	if err != nil {
		return nil, nil, err
	}
	for _, o := range all {
		switch o.text("kind") {
		case "HyperNode":
			var h topologyv1alpha1.HyperNode
			err = o.as(&h)
			hyperNodes = append(hyperNodes, h)
		case "Node":
			var n corev1.Node
			err = o.as(&n)
			nodes = append(nodes, n)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	if len(hyperNodes) == 0 || len(nodes) == 0 {
		return nil, nil, errors.New("it has to have HyperNodes and Nodes: save what kubectl get hypernodes,nodes -o yaml prints")
	}
	return hyperNodes, nodes, nil
}

// gpusOfNode are the GPUs that a node has for pods.
func gpusOfNode(n *corev1.Node) int64 {
	if gpus, ok := n.Status.Allocatable[gpuResource]; ok {
		return gpus.Value()
	}
	return n.Status.Capacity.Name(gpuResource, "").Value()
}

// leaveOut removes the nodes that take no pod of any study from the HyperNodes, and returns their names.
func (s *site) leaveOut(studies []*study) []string {
	var small []string
	tooSmall := func(node string) bool {
		return !slices.ContainsFunc(studies, func(st *study) bool { return podsFor(s.gpus[node], st.job) > 0 })
	}
	for i := range s.hyperNodes {
		h := &s.hyperNodes[i]
		h.Nodes = slices.DeleteFunc(h.Nodes, func(node string) bool {
			if tooSmall(node) {
				small = append(small, node)
				return true
			}
			return false
		})
	}
	slices.Sort(small)
	return slices.Compact(small)
}

// some names the first few of many.
func some(names []string) string {
	const few = 3
	if len(names) > few {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), len(names)-few)
	}
	return strings.Join(names, ", ")
}

// unmatched says which members of HyperNodes select nothing, as those whose names are misspelt.
func unmatched(hyperNodes []topologyv1alpha1.HyperNode, nodes []corev1.Node) []string {
	exists := map[string]bool{}
	for i := range hyperNodes {
		exists[hyperNodes[i].Name] = true
	}
	var out []string
	for i := range hyperNodes {
		for j, m := range hyperNodes[i].Spec.Members {
			if m.Type == topologyv1alpha1.MemberTypeHyperNode {
				if exact := m.Selector.ExactMatch; exact == nil || !exists[exact.Name] {
					out = append(out, fmt.Sprintf("HyperNode %s: spec.members[%d], %s, is no HyperNode of the file", hyperNodes[i].Name, j, selector(m)))
				}
				continue
			}
			alone := topologyv1alpha1.HyperNode{Spec: topologyv1alpha1.HyperNodeSpec{Members: []topologyv1alpha1.MemberSpec{m}}}
			if len(hypernodes.Resolve([]topologyv1alpha1.HyperNode{alone}, nodes)[0].Nodes) == 0 {
				out = append(out, fmt.Sprintf("HyperNode %s: spec.members[%d], %s, matches no Node of the file", hyperNodes[i].Name, j, selector(m)))
			}
		}
	}
	return out
}

// selector is how a warning calls a member.
func selector(m topologyv1alpha1.MemberSpec) string {
	switch s := m.Selector; {
	case s.ExactMatch != nil:
		return fmt.Sprintf("exactMatch %q", s.ExactMatch.Name)
	case s.RegexMatch != nil:
		return fmt.Sprintf("regexMatch %q", s.RegexMatch.Pattern)
	case s.LabelMatch != nil:
		return fmt.Sprintf("labelMatch %q", strings.TrimSpace(metav1.FormatLabelSelector(s.LabelMatch)))
	}
	return "without a selector"
}
