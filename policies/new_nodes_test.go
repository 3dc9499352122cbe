// Home changes while ranks wait there.

package policies

import (
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/topology"
	"github.com/lockstep-dev/lockstep/test/check"
)

// roomless is a job of three that has lost a node, and the rank of that finds no room in home. The node n05 is ill.
func roomless() *scene {
	s := running(3, rule("all", step(v1alpha1.RestartPod, 0)))
	s.node("n05", func(n *gang.Node) { n.Ill = true })
	s.lose("n01")
	s.decide()
	s.replace(1)
	s.decide()
	s.letGo(1)
	s.decide()
	return s
}

// join adds a node to the first rack.
func (s *scene) join(name string) {
	s.Nodes[name] = gang.Node{Name: name, Hostname: "host-" + name, Ready: true}
	a, _ := s.Topology.Find("rack-a")
	b, _ := s.Topology.Find("rack-b")
	a.Nodes = append(append([]string(nil), a.Nodes...), name)
	spine := topology.HyperNode{Name: "spine", Tier: 2, Nodes: append(append([]string(nil), a.Nodes...), b.Nodes...)}
	s.Topology = topology.New([]topology.HyperNode{a, b, spine})
}

func TestARankThatWaitsUsesANewNode(t *testing.T) {
	tests := map[string]struct {
		change func(*scene)
		lives  int32
	}{
		"none":                         {func(*scene) {}, 1},
		"one that joins":               {func(s *scene) { s.join("n12") }, 2},
		"one that is ill not any more": {func(s *scene) { s.node("n05", func(n *gang.Node) { n.Ill = false }) }, 2},
		"not one that is no good":      {func(s *scene) { s.join("n12"); s.breakNode("n12") }, 1},
		"not one of another rack": {func(s *scene) {
			s.Nodes["n12"] = gang.Node{Name: "n12", Hostname: "host-n12", Ready: true}
			s.Topology = topology.New([]topology.HyperNode{
				{Name: "rack-a", Tier: 1, Nodes: []string{"n00", "n02", "n03", "n04", "n05"}}, {Name: "rack-b", Tier: 1, Nodes: []string{"n12"}},
			})
		}, 1},
		"not one that was there, and is well again": {func(s *scene) { s.breakNode("n04"); s.decide(); s.node("n04", func(n *gang.Node) { n.Ready = true }) }, 1},
		"not once it is placed":                     {func(s *scene) { s.bind(1, "n03"); s.join("n12") }, 1},
		"not before the scheduler has looked":       {func(s *scene) { s.Pods[1].Unschedulable = false; s.join("n12") }, 1},
		"not in a dry run": {func(s *scene) {
			s.Job.Annotations = map[string]string{v1alpha1.DryRun: "true"}
			s.join("n12")
		}, 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := roomless()
			tc.change(s)
			restarts := s.status().Restarts.Total
			s.decide()
			check.Equal(t, "life", tc.lives, s.lives()[1])
			check.Equal(t, "restarts", restarts, s.status().Restarts.Total)
			check.Equal(t, "changes, decided again", nil, s.changes())
		})
	}
}

// The next pod may go to the new node, so that it is not restarted again for it.
func TestANewNodeRestartsARankOnce(t *testing.T) {
	s := roomless()
	s.join("n12")
	s.decide()
	check.Equal(t, "deleted", []string{"4"}, s.deleted())
	s.replace(1)
	s.decide()
	s.letGo(1)
	check.Equal(t, "goes to", []string{"host-n00", "host-n02", "host-n03", "host-n04", "host-n12"}, s.Pods[1].Pins)
	s.after(30 * time.Minute).decide()
	check.Equal(t, "lives", []int32{0, 2, 0}, s.lives())
}

// A rank that waits for its own node waits for that, and one that gave it up may have been let go while another rank was
// on its way to a node, and lives there by now.
func TestWhichNodesAreNew(t *testing.T) {
	s := running(3, rule("all", step(v1alpha1.RestartPod, 0)))
	s.crash(1, 1)
	s.decide()
	s.replace(1)
	s.decide()
	s.letGo(1)
	s.join("n12")
	s.decide()
	check.Equal(t, "its own", []int32{0, 1, 0}, s.lives())

	s = roomless()
	s.status().ExcludedNodes = nil
	s.Nodes["n01"] = gang.Node{Name: "n01", Hostname: "host-n01", Ready: true}
	s.decide()
	check.Equal(t, "its own, which is back", []int32{0, 2, 0}, s.lives())
	s.replace(1)
	s.decide()
	s.letGo(1)
	s.decide()
	check.Equal(t, "once", []int32{0, 2, 0}, s.lives())

	s = roomless()
	s.Pods[1].Pins = []string{"host-n00", "host-n03", "host-n04"}
	s.decide()
	check.Equal(t, "of a rank", []int32{0, 1, 0}, s.lives())
}

// What a former home gets later is of that home, too.
func TestARankDoesNotReturnToAHomeThatWasLeft(t *testing.T) {
	s := running(3, rule("all", step(v1alpha1.RestartPod, 0)))
	s.status().LeftHyperNodes = []v1alpha1.LeftHyperNode{{Name: "left"}}
	s.status().LeftHyperNodes[0].Until.Time = s.Now.Add(time.Hour)
	a, _ := s.Topology.Find("rack-a")
	s.Topology = topology.New([]topology.HyperNode{a, {Name: "left", Tier: 1, Nodes: []string{"n01"}}})
	s.crash(1, 1)
	s.decide()
	s.replace(1)
	check.Equal(t, "goes to", []string{"host-n00", "host-n02", "host-n03", "host-n04", "host-n05"}, s.plan().Lift[0].Target.In)
}
