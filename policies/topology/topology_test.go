package topology

import (
	"slices"
	"testing"

	"github.com/lockstep-dev/lockstep/test/check"
)

func TestLowest(t *testing.T) {
	hn := func(name string, tier int32, nodes ...string) HyperNode {
		return HyperNode{Name: name, Tier: tier, Nodes: nodes}
	}
	deep := []HyperNode{
		hn("all", 4, "d", "c", "b", "a"), hn("left", 3, "b", "a"), hn("right", 3, "d", "c"),
		hn("a2", 2, "a"), hn("a1", 1, "a"), hn("b1", 1, "b"),
	}
	tests := map[string]struct {
		tree  []HyperNode
		nodes []string
		want  string
	}{
		"one node":                         {deep, []string{"a"}, "a1"},
		"two nodes":                        {deep, []string{"a", "b"}, "left"},
		"two nodes of two sides":           {deep, []string{"a", "d"}, "all"},
		"the same node twice":              {deep, []string{"b", "b"}, "b1"},
		"a node of no HyperNode":           {deep, []string{"a", "x"}, ""},
		"no nodes":                         {deep, nil, ""},
		"no tree":                          {nil, []string{"a"}, ""},
		"branches of different depths":     {deep, []string{"c"}, "right"},
		"of one tier the smaller":          {[]HyperNode{hn("big", 1, "a", "b"), hn("small", 1, "a")}, []string{"a"}, "small"},
		"of one tier and size, by name":    {[]HyperNode{hn("y", 1, "a"), hn("x", 1, "a")}, []string{"a"}, "x"},
		"the tier counts and not the size": {[]HyperNode{hn("small", 2, "a"), hn("big", 1, "a", "b")}, []string{"a"}, "big"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, ok := New(tc.tree).Lowest(tc.nodes)
			check.Equal(t, "home", tc.want, got.Name)
			check.Equal(t, "found", tc.want != "", ok)
		})
	}
	if _, ok := (*Topology)(nil).Lowest([]string{"a"}); ok {
		t.Error("no topology has a HyperNode")
	}
	if _, ok := (*Topology)(nil).Find("a"); ok {
		t.Error("no topology has a HyperNode")
	}
}

// A process that has just started has seen no deleted node, and finds it in the HyperNodes that name it.
func TestDeletedNodesAreFoundByName(t *testing.T) {
	names := func(names ...string) func(string) bool {
		return func(node string) bool { return slices.Contains(names, node) }
	}
	tree := New([]HyperNode{
		{Name: "all", Tier: 2, Nodes: []string{"m"}, Names: names("n", "m")}, {Name: "b", Tier: 1, Names: names("x")},
		{Name: "a", Tier: 1, Nodes: []string{"m"}, Names: names("n", "m")}, {Name: "labels", Tier: 1},
	})
	check.Equal(t, "deleted", []string{"a", "all"}, around(tree, "n"))
	check.Equal(t, "named nowhere", nil, around(tree, "y"))
	check.Equal(t, "of a rank that never had one", nil, around(tree, ""))
}

func around(in *Topology, node string) []string {
	var out []string
	for _, h := range in.Around(node) {
		out = append(out, h.Name)
	}
	return out
}

func TestDeletedNodesAreRemembered(t *testing.T) {
	first := New([]HyperNode{{Name: "a", Tier: 1, Nodes: []string{"n", "m"}}, {Name: "b", Tier: 1}, {Name: "all", Tier: 2, Nodes: []string{"n", "m"}}})
	second := New([]HyperNode{{Name: "a", Tier: 1, Nodes: []string{"m"}}, {Name: "b", Tier: 1}, {Name: "all", Tier: 2, Nodes: []string{"m"}}})
	second.Remember(first)
	check.Equal(t, "gone", []string{"a", "all"}, around(second, "n"))
	third := New([]HyperNode{{Name: "a", Tier: 1, Nodes: []string{"m"}}, {Name: "b", Tier: 1}})
	third.Remember(second)
	check.Equal(t, "gone for longer, and all of it", []string{"a"}, around(third, "n"))
	fourth := New([]HyperNode{{Name: "a", Tier: 1}, {Name: "b", Tier: 1, Nodes: []string{"n"}}})
	fourth.Remember(third)
	check.Equal(t, "back elsewhere", []string{"b"}, around(fourth, "n"))
	fourth.Remember(nil)
	check.Equal(t, "unknown", nil, around(fourth, "x"))
	check.Equal(t, "of no topology", nil, around(nil, "n"))
}
