package lab

import (
	"fmt"

	"github.com/lockstep-dev/lockstep/policies/topology"
)

// Racks are HyperNodes of tier 1 with so many nodes each, the last one with what is left, under one of tier 2.
func Racks(nodes, perRack int) []topology.HyperNode {
	spine := topology.HyperNode{Name: "spine", Tier: 2}
	var all []topology.HyperNode
	for i := range nodes {
		if i%perRack == 0 {
			all = append(all, topology.HyperNode{Name: fmt.Sprintf("rack-%d", i/perRack), Tier: 1})
		}
		name := fmt.Sprintf("node-%d", i)
		rack := &all[len(all)-1]
		rack.Nodes = append(rack.Nodes, name)
		spine.Nodes = append(spine.Nodes, name)
	}
	return append(all, spine)
}
