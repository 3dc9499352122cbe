package lab

import (
	"testing"

	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/test/check"
)

// A pod that returns to its node is bound there while that has room, and is the scheduler's where another job is there.
func TestAPodReturnsWhileItsNodeHasRoom(t *testing.T) {
	costs := DefaultCosts()
	w := newWorld(&Setup{Job: job(3), HyperNodes: racks(1, 3), Costs: &costs, For: 1})
	var bindings []policies.Binding
	for i, node := range []string{"n-0-0", "n-0-1", "n-0-0"} {
		p := w.newPod(1, "worker", int32(i), false)
		p.Gated, w.pods = false, append(w.pods, p)
		bindings = append(bindings, policies.Binding{Pod: p.Name, UID: p.UID, Node: node})
	}
	w.nodes["n-0-1"].taken = 1
	w.bindReturning(append(bindings, policies.Binding{Pod: "gone", UID: "gone", Node: "n-0-2"}))
	var nodes []string
	var tried []bool
	for _, p := range w.pods {
		nodes, tried = append(nodes, p.Node), append(tried, p.BindingTried)
	}
	check.Equal(t, "nodes", []string{"n-0-0", "", ""}, nodes)
	check.Equal(t, "left to the scheduler", []bool{false, true, true}, tried)
}
