// Exclusions and relocations: what a job keeps away from, for how long, and when it lifts that.

package policies

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/placement"
	"github.com/lockstep-dev/lockstep/policies/topology"
	"github.com/lockstep-dev/lockstep/test/check"
)

func (s *scene) excluded() []string {
	var out []string
	for _, e := range s.status().ExcludedNodes {
		out = append(out, e.Name)
	}
	return out
}

func (s *scene) left() []string {
	var out []string
	for _, l := range s.status().LeftHyperNodes {
		out = append(out, l.Name)
	}
	return out
}

var relocates = rule("relocates", step(v1alpha1.RelocateJob, 0))

func TestTheHomeThatIsLeft(t *testing.T) {
	confined := func(tier int32) *scene {
		return aScene(aJob().tasks(task("worker", 3)).confined(tier).policy(withRules(relocates))).started().placed()
	}
	tests := map[string]struct {
		story func() *scene
		left  []string
		avoid []string
	}{
		"is avoided": {func() *scene { return running(3, relocates) },
			[]string{"rack-a"}, []string{"host-n00", "host-n01", "host-n02", "host-n03", "host-n04", "host-n05"}},
		"is avoided within the tier": {func() *scene { return confined(1) },
			[]string{"rack-a"}, []string{"host-n00", "host-n01", "host-n02", "host-n03", "host-n04", "host-n05"}},
		"not where there is no other": {func() *scene {
			s := running(3, relocates)
			h, _ := s.Topology.Find("rack-a")
			s.Topology = topology.New([]topology.HyperNode{h})
			return s
		}, nil, nil},
		"not where the others overlap": {func() *scene {
			s := running(3, relocates)
			a, _ := s.Topology.Find("rack-a")
			spine, _ := s.Topology.Find("spine")
			s.Topology = topology.New([]topology.HyperNode{a, spine})
			return s
		}, nil, nil},
		"not where the other is empty": {func() *scene {
			s := running(3, relocates)
			a, _ := s.Topology.Find("rack-a")
			s.Topology = topology.New([]topology.HyperNode{a, {Name: "rack-c", Tier: 1}})
			return s
		}, nil, nil},
		"not where the other is too high": {func() *scene {
			s := confined(1)
			a, _ := s.Topology.Find("rack-a")
			s.Topology = topology.New([]topology.HyperNode{a, {Name: "pod-b", Tier: 2, Nodes: []string{"n06", "n07", "n08"}}})
			return s
		}, nil, nil},
		"also where the other is high, if softly": {func() *scene {
			s := confined(1)
			s.Job.Spec.NetworkTopology.Mode = v1alpha1.TopologySoft
			a, _ := s.Topology.Find("rack-a")
			s.Topology = topology.New([]topology.HyperNode{a, {Name: "pod-b", Tier: 2, Nodes: []string{"n06", "n07", "n08"}}})
			return s
		}, []string{"rack-a"}, []string{"host-n00", "host-n01", "host-n02", "host-n03", "host-n04", "host-n05"}},
		"not where a job had none": {func() *scene {
			s := running(3, relocates)
			s.Topology = topology.New(nil)
			s.status().Placement.HyperNode = ""
			return s
		}, nil, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := tc.story()
			s.crash(1, 1)
			s.decide()
			check.Equal(t, "placed", true, s.status().Placement == nil)
			check.Equal(t, "left", tc.left, s.left())
			for i := range s.Pods {
				s.replace(i)
			}
			s.decide()
			p := s.plan()
			check.Equal(t, "lifted", 3, len(p.Lift))
			check.Equal(t, "avoided", tc.avoid, p.Lift[0].Target.NotIn)
		})
	}
}

func TestAHomeIsLeftForATime(t *testing.T) {
	for name, tc := range map[string]struct {
		exclude int32
		want    time.Duration
	}{
		"ten minutes at least": {0, 10 * time.Minute},
		"as long as nodes are": {7200, 2 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			s := running(3)
			s.Job.Spec.RestartPolicy = policy(withRules(relocates), excluding(tc.exclude))
			s.crash(1, 1)
			s.decide()
			check.Equal(t, "until", s.Now.Add(tc.want).Truncate(time.Second).String(), s.status().LeftHyperNodes[0].Until.String())
			for i := range s.Pods {
				s.replace(i)
			}
			s.decide()
			for i, n := range []string{"n06", "n07", "n08"} {
				s.bind(i, n)
			}
			d := s.decide()
			check.Equal(t, "home", "rack-b", s.status().Placement.HyperNode)
			check.Equal(t, "next", s.status().LeftHyperNodes[0].Until.String(), d.Next.String())
			s.Now = s.status().LeftHyperNodes[0].Until.Time
			s.decide()
			check.Equal(t, "left, when its time is over", nil, s.left())
		})
	}
}

// The homes that were left add up; where none is left to go to, nothing is added.
func TestHomesAreLeftOneAfterTheOther(t *testing.T) {
	s := running(3, relocates)
	move := func(nodes ...string) {
		s.crash(1, 1)
		s.after(time.Minute).decide()
		for i := range s.Pods {
			s.replace(i)
		}
		s.decide()
		for i, n := range nodes {
			s.bind(i, n)
		}
		s.decide()
	}
	move("n06", "n07", "n08")
	check.Equal(t, "left", []string{"rack-a"}, s.left())
	move("n00", "n01", "n02") // there is no third one, and so no home is added
	check.Equal(t, "left", []string{"rack-a"}, s.left())
	move("n06", "n07", "n08")
	check.Equal(t, "left, and no home twice", []string{"rack-a"}, s.left())
}

// An exclusion never makes a job unplaceable for ever: the oldest that would help is
// lifted, once no step is left that could change anything.
func TestRelent(t *testing.T) {
	once := rule("once", step(v1alpha1.RestartPod, 0))
	later := rule("later", step(v1alpha1.RestartPod, 0), step(v1alpha1.RestartPod, 300))
	// Three ranks whose home has only the nodes n00 to n03; n01 and n03 are excluded, and the
	// second rank waits behind its gate.
	stuck := func(r v1alpha1.Rule) *scene {
		s := running(3, r)
		s.fill("n00", "n01", "n02", "n03")
		s.node("n00", func(n *gang.Node) { n.Unschedulable = true })
		s.node("n02", func(n *gang.Node) { n.Unschedulable = true })
		s.breakNode("n01")
		s.decide()
		s.replace(1)
		s.node("n01", func(n *gang.Node) { n.Ready, n.SilentSince = true, time.Time{} })
		s.status().ExcludedNodes = append([]v1alpha1.ExcludedNode{{Name: "n03", Until: s.status().ExcludedNodes[0].Until}}, s.status().ExcludedNodes...)
		s.decide()
		return s
	}
	// With two more excluded nodes, pods of these ranks look for one.
	look := func(s *scene, ranks ...int) *scene {
		for _, node := range []string{"n04", "n05"} {
			s.node(node, func(n *gang.Node) { n.Unschedulable = false })
			s.status().ExcludedNodes = append(s.status().ExcludedNodes, v1alpha1.ExcludedNode{Name: node, Until: s.status().ExcludedNodes[0].Until})
		}
		for _, i := range ranks {
			s.replace(i)
		}
		s.decide()
		for _, i := range ranks {
			s.search(i)
		}
		return s
	}
	tests := map[string]struct {
		story    func() *scene
		after    time.Duration
		excluded []string
		lives    []int32
	}{
		"not at once":               {func() *scene { return stuck(once) }, 30*time.Second - 1, []string{"n03", "n01"}, []int32{0, 1, 0}},
		"the oldest":                {func() *scene { return stuck(once) }, 30 * time.Second, []string{"n01"}, []int32{0, 1, 0}},
		"not while a step is left":  {func() *scene { return stuck(later) }, 299 * time.Second, []string{"n03", "n01"}, []int32{0, 1, 0}},
		"once it was taken":         {func() *scene { return stuck(later) }, 300 * time.Second, []string{"n01"}, []int32{0, 1, 0}},
		"not one that is not ready": {func() *scene { s := stuck(once); s.breakNode("n03"); return s }, 30 * time.Second, []string{"n03"}, []int32{0, 1, 0}},
		"not one that is cordoned": {func() *scene {
			s := stuck(once)
			s.node("n03", func(n *gang.Node) { n.Unschedulable = true })
			return s
		}, 30 * time.Second, []string{"n03"}, []int32{0, 1, 0}},
		"not one that is out of service": {func() *scene { s := stuck(once); s.node("n03", func(n *gang.Node) { n.OutOfService = true }); return s }, 30 * time.Second, []string{"n03"}, []int32{0, 1, 0}},
		"not one that is gone":           {func() *scene { s := stuck(once); s.lose("n03"); return s }, 30 * time.Second, []string{"n03"}, []int32{0, 1, 0}},
		"not one of another home":        {func() *scene { s := stuck(once); s.status().ExcludedNodes[0].Name = "n07"; s.lose("n03"); return s }, 30 * time.Second, []string{"n07"}, []int32{0, 1, 0}},
		"none where none would help":     {func() *scene { s := stuck(once); s.lose("n01", "n03"); return s }, 30 * time.Second, []string{"n03", "n01"}, []int32{0, 1, 0}},
		"none in a dry run":              {func() *scene { s := stuck(once); s.dryRun(true); return s }, time.Hour - time.Minute, []string{"n03", "n01"}, []int32{0, 1, 0}},
		"of a pod that looks: with a new life": {func() *scene {
			s := stuck(once)
			s.node("n04", func(n *gang.Node) { n.Unschedulable = false })
			s.search(1)
			return s
		}, 30 * time.Second, []string{"n01"}, []int32{0, 2, 0}},
		"half of them for pods that look": {func() *scene { return look(stuck(once), 0, 1, 2) }, 30 * time.Second, []string{"n04", "n05"}, []int32{2, 2, 2}},
		"one for each pod at most":        {func() *scene { return look(stuck(once), 1) }, 30 * time.Second, []string{"n01", "n04", "n05"}, []int32{0, 2, 0}},
		"none of a pod for which no node is tried": {func() *scene {
			s := stuck(once)
			s.node("n04", func(n *gang.Node) { n.Unschedulable = false })
			s.search(1)
			s.Pods[1].Untried = true
			return s
		}, 30 * time.Second, []string{"n03", "n01"}, []int32{0, 1, 0}},
		"not one that gives no rank a place, while another does": {func() *scene {
			s := stuck(once)
			s.node("n03", func(n *gang.Node) {
				n.Hold, n.Taints = "", []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}
			})
			return s
		}, 30 * time.Second, []string{"n03"}, []int32{0, 1, 0}},
		"not one to which another rank returns": {func() *scene {
			s := stuck(once)
			s.node("n00", func(n *gang.Node) { n.Unschedulable = false })
			s.node("n03", func(n *gang.Node) { n.Unschedulable = true })
			s.status().ExcludedNodes[0].Name = "n00"
			s.replace(0)
			s.search(0)
			return s
		}, 30 * time.Second, []string{"n00"}, []int32{1, 1, 0}},
		"as many as let each rank go somewhere": {func() *scene {
			s := stuck(once)
			until := s.status().ExcludedNodes[0].Until
			s = running(3, once)
			s.fill("n01", "n02")
			s.breakNode("n01")
			s.breakNode("n02")
			s.decide()
			for i, node := range []string{"n01", "n02"} {
				s.replace(1 + i)
				s.node(node, func(n *gang.Node) { n.Ready, n.SilentSince = true, time.Time{} })
			}
			s.status().ExcludedNodes = []v1alpha1.ExcludedNode{{Name: "n01", Until: until}, {Name: "n02", Until: until}}
			s.decide()
			return s
		}, 30 * time.Second, nil, []int32{0, 1, 1}},
		"one with each look": {func() *scene {
			s := stuck(once)
			s.after(30 * time.Second).decide()
			s.node("n03", func(n *gang.Node) { n.Unschedulable = true })
			return s
		}, time.Second, nil, []int32{0, 1, 0}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := tc.story()
			s.after(tc.after).decide()
			check.Equal(t, "excluded", tc.excluded, s.excluded())
			check.Equal(t, "lives", tc.lives, s.lives())
		})
	}
}

// A home that was left is given a second chance before any node is.
func TestRelentOfAHomeThatWasLeft(t *testing.T) {
	s := running(3, rule("r", step(v1alpha1.RelocateJob, 0)))
	s.breakNode("n01")
	s.decide()
	check.Equal(t, "left", []string{"rack-a"}, s.left())
	check.Equal(t, "excluded", []string{"n01"}, s.excluded())
	for i := range s.Pods {
		s.replace(i)
	}
	s.decide()
	for i := range s.Pods {
		s.search(i)
	}
	s.node("n01", func(n *gang.Node) { n.Ready = true }) // it would do as well
	s.after(30*time.Second - 1).decide()
	check.Equal(t, "left", []string{"rack-a"}, s.left())
	s.after(1).decide()
	check.Equal(t, "left", nil, s.left())
	check.Equal(t, "excluded", []string{"n01"}, s.excluded())
	check.Equal(t, "lives", []int32{2, 2, 2}, s.lives())
	for i := range s.Pods {
		s.replace(i)
	}
	s.decide()
	check.Equal(t, "goes anywhere but to the node", placement.Target{NotIn: []string{"host-n01"}}, s.plan().Lift[0].Target)
	for i := range s.Pods {
		s.search(i)
	}
	s.after(30 * time.Second).decide()
	check.Equal(t, "excluded, in the end", nil, s.excluded())
}

// It may have room for all ranks that look, however many nodes are excluded.
func TestAHomeThatWasLeftIsLiftedAlone(t *testing.T) {
	s := running(3, rule("r", step(v1alpha1.RelocateJob, 0)))
	s.breakNode("n01")
	s.decide()
	for i := range s.Pods {
		s.replace(i)
	}
	s.decide()
	for i := range s.Pods {
		s.search(i)
	}
	s.node("n01", func(n *gang.Node) { n.Ready = true })
	for _, node := range []string{"n02", "n03", "n04"} {
		s.status().ExcludedNodes = append(s.status().ExcludedNodes, v1alpha1.ExcludedNode{Name: node, Until: s.status().ExcludedNodes[0].Until})
	}
	s.after(30 * time.Second).decide()
	check.Equal(t, "left", nil, s.left())
	check.Equal(t, "excluded", []string{"n01", "n02", "n03", "n04"}, s.excluded())
}

// A node is excluded once, and by the hostname that it has.
func TestWhatAnExclusionSays(t *testing.T) {
	s := running(4, rule("r", step(v1alpha1.RestartPod, 0)))
	for i := range 2 {
		s.bind(i, "n01")
	}
	s.decide()
	s.breakNode("n01")
	s.decide()
	check.Equal(t, "excluded", []string{"n01"}, s.excluded())
	s.status().Placement.HyperNode = ""
	check.Equal(t, "avoided", []string{"host-n01"}, s.forSpare().NotIn)
	s.node("n01", func(n *gang.Node) { n.Hostname = "renamed" })
	check.Equal(t, "avoided, renamed", []string{"renamed"}, s.forSpare().NotIn)
	s.lose("n01")
	check.Equal(t, "avoided, gone", []string{"host-n01"}, s.forSpare().NotIn)
	s.status().ExcludedNodes[0].Hostname = ""
	check.Equal(t, "avoided, never seen", nil, s.forSpare().NotIn)
}
