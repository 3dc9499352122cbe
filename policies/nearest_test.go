// Where in its home a rank goes that has lost its node.

package policies

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/incident"
	"github.com/lockstep-dev/lockstep/policies/placement"
	"github.com/lockstep-dev/lockstep/policies/topology"
	"github.com/lockstep-dev/lockstep/test/check"
)

// acrossRacks is a job of four on n00, n01, n06 and n07: its home is the spine.
func acrossRacks(rules ...v1alpha1.Rule) *scene {
	s := starting(4, rules...)
	for i, node := range []string{"n00", "n01", "n06", "n07"} {
		s.bind(i, node)
	}
	s.decide()
	return s
}

// hosts are the hostnames of nodes from one to another, without some.
func hosts(from, to int, without ...int) []string {
	var out []string
	for i := from; i <= to; i++ {
		if len(without) == 0 || without[0] != i {
			out = append(out, fmt.Sprintf("host-n%02d", i))
			continue
		}
		without = without[1:]
	}
	return out
}

func TestNearest(t *testing.T) {
	inUse := func(s *scene, nodes ...string) {
		for _, name := range nodes {
			s.node(name, func(n *gang.Node) { n.InUse = true })
		}
	}
	once := rule("once", on(v1alpha1.AnyEvent), step(v1alpha1.RestartPod, 0))
	tests := map[string]struct {
		rules  []v1alpha1.Rule
		change func(*scene)
		want   []string
	}{
		"its own rack":                {nil, func(*scene) {}, hosts(0, 5, 1)},
		"whatever others use there":   {nil, func(s *scene) { inUse(s, "n02", "n03", "n04") }, hosts(0, 5, 1)},
		"home, where all is used":     {nil, func(s *scene) { inUse(s, "n02", "n03", "n04", "n05") }, hosts(0, 11, 1)},
		"home, where all else is bad": {nil, func(s *scene) { s.fill() }, hosts(0, 11, 1)},
		"home, where another job holds what is left": {nil, func(s *scene) {
			s.fill("n05")
			s.heldByAnother("n05")
		}, hosts(0, 11, 1)},
		"home, where no rule lets it go further": {[]v1alpha1.Rule{once}, func(*scene) {}, hosts(0, 11, 1)},
		"home, where that does not restart it":   {[]v1alpha1.Rule{rule("no-room", on(v1alpha1.PodPending), step(v1alpha1.RelocateJob, 900)), once}, func(*scene) {}, hosts(0, 11, 1)},
		"home, where that does nothing":          {[]v1alpha1.Rule{rule("no-room", on(v1alpha1.PodPending), step(v1alpha1.Ignore, 0)), once}, func(*scene) {}, hosts(0, 11, 1)},
		"its own rack, where that does something after nothing": {[]v1alpha1.Rule{
			rule("no-room", on(v1alpha1.PodPending), step(v1alpha1.Ignore, 0), step(v1alpha1.RestartPod, 60)), once,
		}, func(*scene) {}, hosts(0, 5, 1)},
		"home, in a dry run": {nil, func(s *scene) { s.Job.Annotations = map[string]string{v1alpha1.DryRun: "true"} }, hosts(0, 11, 1)},
		"home, where two ranks have lost their nodes and one node is left": {nil, func(s *scene) {
			s.lose("n00")
			s.fill("n05")
			s.decide()
		}, hosts(0, 11, 0, 1)},
		"its own rack, where there is one for each": {nil, func(s *scene) {
			s.lose("n00")
			s.fill("n04", "n05")
			s.decide()
		}, hosts(0, 5, 0, 1)},
		"its own rack, where the other was lost elsewhere": {nil, func(s *scene) {
			s.lose("n06")
			s.fill("n05")
			s.decide()
		}, hosts(0, 5, 1)},
		"its own rack, though its node is not in it any more": {nil, func(s *scene) { // as that of a Node object that was deleted
			before := s.Topology
			var all []topology.HyperNode
			for _, h := range before.All() {
				h.Nodes = slices.DeleteFunc(slices.Clone(h.Nodes), func(n string) bool { return n == "n01" })
				all = append(all, h)
			}
			s.Topology = topology.New(all)
			s.Topology.Remember(before)
		}, hosts(0, 5, 1)},
		"home, though it lived elsewhere": {nil, func(s *scene) { // its node was not there when home was found
			all := append(s.Topology.All(), topology.HyperNode{Name: "pair", Tier: 0, Nodes: []string{"n01", "n02"}})
			s.Topology = topology.New(all)
			s.status().Placement.HyperNode, s.status().Placement.Tier = "rack-b", new(int32(1))
		}, hosts(6, 11)},
		"home, once it has waited": {nil, func(s *scene) {
			s.letGo(1)
			s.after(placement.NoRoomAfter).decide()
			s.replace(1)
			s.decide()
		}, hosts(0, 11, 1)},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := acrossRacks(tc.rules...)
			s.lose("n01")
			s.decide()
			s.replace(1)
			tc.change(s)
			w := incident.ViewOf(&s.Observation, s.status())
			check.Equal(t, "goes to", tc.want, w.Rooms(s.status()).ForRank(gang.Rank{Task: "worker", Index: 1}).In)
		})
	}
}

// The empty node may be taken before the rank has it.
func TestARankGoesFurtherWhenItsRackFillsUp(t *testing.T) {
	s := acrossRacks()
	s.breakNode("n01")
	s.decide()
	s.after(2 * time.Minute).decide()
	s.replace(1)
	s.fill("n05")
	s.decide()
	s.letGo(1)
	check.Equal(t, "goes to", hosts(0, 5, 1), s.Pods[1].Pins)
	s.decide()
	check.Equal(t, "life", int32(1), s.lives()[1])
	s.node("n05", func(n *gang.Node) { n.InUse = true })
	s.decide()
	check.Equal(t, "life", int32(2), s.lives()[1])
	s.replace(1)
	s.decide()
	s.letGo(1)
	check.Equal(t, "goes to", hosts(0, 11, 1), s.Pods[1].Pins)
	s.node("n05", func(n *gang.Node) { n.InUse = false })
	s.decide()
	check.Equal(t, "life, with the node empty again", int32(2), s.lives()[1])
}
