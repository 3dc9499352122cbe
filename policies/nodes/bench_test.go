package nodes

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/topology"
)

// BenchmarkDecide looks at 15,000 nodes in racks of 16, of which 150 are ill, or all.
func BenchmarkDecide(b *testing.B) {
	for name, every := range map[string]int{"some": 100, "all": 1} {
		b.Run(name, func(b *testing.B) { benchmarkFleet(b, every) })
	}
}

func benchmarkFleet(b *testing.B, every int) {
	f := Fleet{Now: began, Policy: &v1alpha1.HealthPolicy{}, Nodes: 15000}
	var racks []topology.HyperNode
	for i := range f.Nodes {
		if i%16 == 0 {
			racks = append(racks, topology.HyperNode{Name: fmt.Sprint("rack-", i/16), Tier: 1})
		}
		name := fmt.Sprintf("n%05d", i)
		racks[i/16].Nodes = append(racks[i/16].Nodes, name)
		h := &v1alpha1.NodeHealth{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1alpha1.NodeHealthStatus{
			Sources: []v1alpha1.HealthSource{{Name: "dcgm", State: v1alpha1.HealthHealthy}},
		}}
		if i%every == 0 {
			h.Status.Reports = []v1alpha1.HealthReport{{Source: "dcgm", Entity: "node", Signal: "XID79", State: v1alpha1.HealthStateFailed}}
		}
		f.Healths = append(f.Healths, h)
	}
	f.Topology = topology.New(racks)
	for range b.N {
		Decide(&f)
	}
}
