// The shapes of topologies, and the picture of racks.

package cluster

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"
)

// describe turns HyperNodes into name → member names, and tells each one's tier.
func describe(tiers [][]*topologyv1alpha1.HyperNode) map[string][]string {
	all := map[string][]string{}
	for _, tier := range tiers {
		for _, h := range tier {
			for _, m := range h.Spec.Members {
				switch s := m.Selector; {
				case s.ExactMatch != nil:
					all[h.Name] = append(all[h.Name], s.ExactMatch.Name)
				case s.RegexMatch != nil:
					all[h.Name] = append(all[h.Name], "~"+s.RegexMatch.Pattern)
				case s.LabelMatch != nil:
					all[h.Name] = append(all[h.Name], metav1.FormatLabelSelector(s.LabelMatch))
				}
			}
		}
	}
	return all
}

func TestHyperNodesOfATopology(t *testing.T) {
	tests := map[string]struct {
		topology Topology
		want     map[string][]string
	}{
		"racks only": {
			Topology{Name: "a", Racks: 2, NodesPerRack: 2},
			map[string][]string{"a-r0": {"a-r0-n0", "a-r0-n1"}, "a-r1": {"a-r1-n0", "a-r1-n1"}},
		},
		"three tiers, the last of one with fewer": {
			Topology{Name: "a", Racks: 3, NodesPerRack: 1, Tiers: []int{2, 2}},
			map[string][]string{
				"a-r0": {"a-r0-n0"}, "a-r1": {"a-r1-n0"}, "a-r2": {"a-r2-n0"},
				"a-t2-0": {"a-r0", "a-r1"}, "a-t2-1": {"a-r2"},
				"a-t3-0": {"a-t2-0", "a-t2-1"},
			},
		},
		"by pattern": {
			Topology{Name: "a.b", Racks: 1, NodesPerRack: 2, Members: RegexMembers},
			map[string][]string{"a.b-r0": {`~^a\.b-r0-n[0-9]+$`}},
		},
		"by label": {
			Topology{Name: "a", Racks: 1, NodesPerRack: 2, Members: LabelMembers, Tiers: []int{1}},
			map[string][]string{"a-r0": {RackLabel + "=a-r0"}, "a-t2-0": {"a-r0"}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			tiers := test.topology.hyperNodes()
			if diff := cmp.Diff(test.want, describe(tiers)); diff != "" {
				t.Error(diff)
			}
			for i, tier := range tiers {
				for _, h := range tier {
					if h.Spec.Tier != i+1 {
						t.Errorf("%s has tier %d, want %d", h.Name, h.Spec.Tier, i+1)
					}
				}
			}
		})
	}
}

func TestNodesOfATopology(t *testing.T) {
	topology := GB300NVL72("nvl", 2)
	topology.HostnameSuffix = ".example"
	nodes, err := topology.nodes()
	if err != nil {
		t.Fatal(err)
	}
	if len(nodes) != 36 {
		t.Fatalf("%d nodes", len(nodes))
	}
	last := nodes[35]
	quantity := last.Status.Allocatable[gpu]
	got := []any{last.Name, last.Labels[RackLabel], last.Labels[PoolLabel], last.Labels[corev1.LabelHostname], quantity.Value()}
	if diff := cmp.Diff([]any{"nvl-r1-n17", "nvl-r1", "nvl", "nvl-r1-n17.example", int64(4)}, got); diff != "" {
		t.Error(diff)
	}
}

func TestImpossibleTopologiesAreRefused(t *testing.T) {
	for name, topology := range map[string]Topology{
		"no name":      {Racks: 1, NodesPerRack: 1},
		"no racks":     {Name: "a", NodesPerRack: 1},
		"empty racks":  {Name: "a", Racks: 1},
		"empty groups": {Name: "a", Racks: 1, NodesPerRack: 1, Tiers: []int{0}},
		"odd members":  {Name: "a", Racks: 1, NodesPerRack: 1, Members: "fuzzy"},
	} {
		if topology.validate() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestThePictureCountsLikeAPerson(t *testing.T) {
	node := func(rack, name string) corev1.Node {
		return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{PoolLabel: "a", RackLabel: rack}}}
	}
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x"}, Spec: podSpec(4)}
	pod.Spec.NodeName = "a-r10-n0"
	racks := picture([]corev1.Node{node("a-r10", "a-r10-n0"), node("a-r2", "a-r2-n10"), node("a-r2", "a-r2-n9"), {}}, []corev1.Pod{pod})
	var got []string
	for _, rack := range racks {
		for _, n := range rack.Nodes {
			got = append(got, n.Name)
		}
	}
	if diff := cmp.Diff([]string{"a-r2-n9", "a-r2-n10", "a-r10-n0"}, got); diff != "" {
		t.Error(diff)
	}
	if used := racks[1].Nodes[0].GPUsUsed(); used != 4 {
		t.Errorf("%d GPUs used", used)
	}
}
