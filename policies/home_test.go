package policies

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/incident"
	"github.com/lockstep-dev/lockstep/policies/topology"
	"github.com/lockstep-dev/lockstep/test/check"
)

func TestHome(t *testing.T) {
	gated := func() *scene {
		job := aJob().tasks(task("worker", 4))
		job.Spec.MinAvailable = ptr.To[int32](2)
		return aScene(job).started()
	}
	elastic := func() *scene {
		s := gated()
		s.search(2)
		s.search(3)
		return s
	}
	bind := func(s *scene, nodes ...string) *scene {
		for i, n := range nodes {
			if n != "" {
				s.bind(i, n)
			}
		}
		s.decide()
		return s
	}
	tests := map[string]struct {
		story func() *scene
		home  string
		nodes []string
	}{
		"no home before the gang is whole":               {func() *scene { return bind(starting(3), "n00", "n01") }, "", nil},
		"the lowest of all its nodes":                    {func() *scene { return bind(starting(3), "n00", "n01", "n05") }, "rack-a", []string{"n00", "n01", "n05"}},
		"across racks":                                   {func() *scene { return bind(starting(3), "n00", "n01", "n06") }, "spine", []string{"n00", "n01", "n06"}},
		"minAvailable is enough":                         {func() *scene { return bind(elastic(), "n00", "n01") }, "rack-a", []string{"n00", "n01", "", ""}},
		"pods that have yet to be let go are waited for": {func() *scene { return bind(gated(), "n00", "n01") }, "", nil},
		"and may be placed elsewhere":                    {func() *scene { return bind(bind(gated(), "n00", "n01"), "", "", "n06", "n07") }, "spine", []string{"n00", "n01", "n06", "n07"}},
		"not for longer than a minute": {func() *scene {
			s := bind(gated(), "n00", "n01")
			s.after(Decide(&s.Observation).Next.Sub(s.Now)).decide()
			check.Equal(t, "after", time.Minute, s.Now.Sub(sceneStart))
			return s
		}, "rack-a", []string{"n00", "n01", "", ""}},
		"it grows while ranks are placed first": {func() *scene { return bind(bind(elastic(), "n00", "n01"), "", "", "n06") },
			"spine", []string{"n00", "n01", "n06", ""}},
		"the node of a pod that failed is one of them": {func() *scene {
			s := starting(3)
			s.bind(1, "n06")
			s.Pods[1].Phase = corev1.PodFailed
			return bind(s, "n00", "", "n01")
		}, "spine", []string{"n00", "n06", "n01"}},
		"unless the topology keeps the others apart from it": {func() *scene {
			s := starting(3)
			s.Job.Spec.NetworkTopology = &v1alpha1.NetworkTopology{Mode: v1alpha1.TopologyHard, HighestTierAllowed: ptr.To[int32](1)}
			s.bind(1, "n06")
			s.Pods[1].Phase = corev1.PodFailed
			return bind(s, "n00", "", "n01")
		}, "rack-a", []string{"n00", "", "n01"}},
		"it does not move with a rank that moves": {func() *scene {
			s := running(3)
			s.replace(1)
			return bind(s, "", "n06")
		}, "rack-a", []string{"n00", "n06", "n02"}},
		"a pod on its way out does not count": {func() *scene {
			s := running(3)
			s.Pods[1].Deleting, s.Pods[1].Node = true, "n04"
			s.decide()
			return s
		}, "rack-a", []string{"n00", "n01", "n02"}},
		"a HyperNode that is gone is looked for again": {func() *scene {
			s := running(3)
			s.Topology = topology.New([]topology.HyperNode{{Name: "new", Tier: 1, Nodes: []string{"n00", "n01", "n02"}}, {Name: "spine", Tier: 2, Nodes: []string{"n00", "n01", "n02", "n03"}}})
			s.decide()
			return s
		}, "new", []string{"n00", "n01", "n02"}},
		"without HyperNodes there is none": {func() *scene {
			s := starting(2)
			s.Topology = topology.New(nil)
			return bind(s, "n00", "n01")
		}, "", []string{"n00", "n01"}},
		"it is found once there are HyperNodes": {func() *scene {
			s := starting(2)
			all := s.Topology
			s.Topology = topology.New(nil)
			bind(s, "n00", "n01")
			s.Topology = all
			s.decide()
			return s
		}, "rack-a", []string{"n00", "n01"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p := tc.story().status().Placement
			if tc.nodes == nil {
				check.Equal(t, "placement", nil, p)
				return
			}
			check.Equal(t, "home", tc.home, p.HyperNode)
			check.Equal(t, "tier is given", tc.home != "", p.Tier != nil)
			check.Equal(t, "nodes", tc.nodes, p.Tasks[0].Nodes)
		})
	}
}

func TestUsable(t *testing.T) {
	taint := func(key string, effect corev1.TaintEffect) corev1.Taint {
		return corev1.Taint{Key: key, Value: "v", Effect: effect}
	}
	tests := map[string]struct {
		change func(*scene)
		want   bool
	}{
		"a good node":              {func(*scene) {}, true},
		"one that is gone":         {func(s *scene) { delete(s.Nodes, "n01") }, false},
		"one that does not answer": {func(s *scene) { s.breakNode("n01") }, false},
		"a cordoned one":           {func(s *scene) { s.node("n01", func(n *gang.Node) { n.Unschedulable = true }) }, false},
		"one out of service":       {func(s *scene) { s.node("n01", func(n *gang.Node) { n.OutOfService = true }) }, false},
		"an excluded one":          {func(s *scene) { s.status().ExcludedNodes = []v1alpha1.ExcludedNode{{Name: "n01"}} }, false},
		"one that this job holds":  {func(s *scene) { s.node("n01", func(n *gang.Node) { n.Hold = "standing" }) }, true},
		"one that another job holds": {func(s *scene) {
			s.node("n01", func(n *gang.Node) {
				n.Taints = []corev1.Taint{taint("hold.lockstep.dev/other", corev1.TaintEffectNoSchedule)}
			})
		}, true},
		"one with another taint": {func(s *scene) {
			s.node("n01", func(n *gang.Node) { n.Taints = []corev1.Taint{taint("k", corev1.TaintEffectNoSchedule)} })
		}, false},
		"one that is better avoided": {func(s *scene) {
			s.node("n01", func(n *gang.Node) { n.Taints = []corev1.Taint{taint("k", corev1.TaintEffectPreferNoSchedule)} })
		}, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := running(3)
			tc.change(s)
			w := incident.ViewOf(&s.Observation, s.status())
			check.Equal(t, "usable", tc.want, w.Places(s.status()).Usable("n01", "worker"))
		})
	}
}
