package check

import (
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
	topology "volcano.sh/apis/pkg/apis/topology/v1alpha1"

	"github.com/lockstep-dev/lockstep/test/check"
)

// The sample of HyperNodes is a tree of two tiers that has every node of its racks, and no field that Volcano does not know.
func TestTheSampleOfHyperNodes(t *testing.T) {
	raw, err := os.ReadFile("../../../config/samples/hypernodes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c := good(t)
	c.HyperNodes.Items, c.Nodes.Items = nil, nil
	tiers := map[int]int{}
	for doc := range strings.SplitSeq(string(raw), "\n---\n") {
		h := topology.HyperNode{}
		if err := yaml.UnmarshalStrict([]byte(doc), &h); err != nil {
			t.Fatal(err)
		}
		c.HyperNodes.Items = append(c.HyperNodes.Items, h)
		tiers[h.Spec.Tier]++
	}
	for _, name := range []string{"gpu-71", "gpu-72", "gpu-73", "gpu-81", "gpu-82"} {
		c.Nodes.Items = append(c.Nodes.Items, corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Capacity: good(t).Nodes.Items[0].Status.Capacity},
		})
	}
	check.Equal(t, "HyperNodes of each tier", map[int]int{1: 2, 2: 1}, tiers)
	var r Result
	hyperNodes(c, &r)
	check.Equal(t, "found", Result{Saw: "3 HyperNodes, 5 GPU nodes"}, r)
}
