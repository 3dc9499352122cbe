package policies

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/incident"
	"github.com/lockstep-dev/lockstep/policies/placement"
	"github.com/lockstep-dev/lockstep/policies/topology"
	"github.com/lockstep-dev/lockstep/test/check"
)

func TestTargets(t *testing.T) {
	tests := map[string]struct {
		story func() *scene
		want  placement.Target
	}{
		"at the first start, anywhere": {func() *scene { return starting(3) }, placement.Target{}},
		"but not in quarantine": {func() *scene { s := starting(3); s.Quarantined = []string{"host-n01"}; return s },
			placement.Target{NotIn: []string{"host-n01"}}},
		"but not where another job holds a node, which its pods tolerate": {func() *scene {
			s := starting(3)
			s.toleratesAll()
			s.heldByAnother("n01", "n07")
			return s
		}, placement.Target{NotIn: []string{"host-n01", "host-n07"}}},
		"where another job holds a node, whose taint keeps its pods away": {func() *scene {
			s := starting(3)
			s.heldByAnother("n01")
			return s
		}, placement.Target{}},
		"home, less what another job holds, which its pods tolerate": {func() *scene {
			s := running(3)
			s.toleratesAll()
			delete(s.Nodes, "n01")
			s.heldByAnother("n04")
			s.decide()
			return s
		}, placement.Target{In: []string{"host-n00", "host-n02", "host-n03", "host-n05"}}},
		"home, with what a younger job holds that looks for room itself": {func() *scene {
			s := running(3)
			s.toleratesAll()
			delete(s.Nodes, "n01")
			s.heldByAnother("n04")
			s.Younger = []gang.YoungerHold{{Key: otherHold, Since: s.Now.Add(-placement.NoRoomAfter)}}
			s.decide()
			return s
		}, placement.Target{In: []string{"host-n00", "host-n02", "host-n03", "host-n04", "host-n05"}}},
		"home, with what another job holds, whose taint keeps its pods away": {func() *scene {
			s := running(3)
			delete(s.Nodes, "n01")
			s.heldByAnother("n04")
			s.decide()
			return s
		}, placement.Target{In: []string{"host-n00", "host-n02", "host-n03", "host-n04", "host-n05"}}},
		"its own node": {func() *scene { s := running(3); s.crash(1, 1); s.decide(); return s },
			placement.Target{In: []string{"host-n01"}}},
		"home, where its own is gone": {func() *scene { s := running(3); delete(s.Nodes, "n01"); s.decide(); return s },
			placement.Target{In: []string{"host-n00", "host-n02", "host-n03", "host-n04", "host-n05"}}},
		"home, less the nodes that others return to": {func() *scene {
			s := running(3, rule("all", step(v1alpha1.RestartJob, 0)))
			delete(s.Nodes, "n01")
			s.decide()
			return s
		}, placement.Target{In: []string{"host-n03", "host-n04", "host-n05"}}},
		"home, with what is no good just now, less what is excluded": {func() *scene {
			s := running(3)
			delete(s.Nodes, "n01")
			s.breakNode("n03")
			s.node("n04", func(n *gang.Node) { n.Unschedulable = true })
			s.decide()
			s.status().ExcludedNodes = append(s.status().ExcludedNodes, v1alpha1.ExcludedNode{Name: "n05"})
			return s
		}, placement.Target{In: []string{"host-n00", "host-n02", "host-n03", "host-n04"}}},
		"its own after all, where home has none but those that others return to": {func() *scene {
			s := starting(3, rule("all", step(v1alpha1.RestartPod, 0), step(v1alpha1.RestartJob, 60)))
			for i, node := range []string{"n00", "n01", "n01"} {
				s.bind(i, node)
			}
			s.decide()
			s.fill("n00", "n01")
			s.crash(1, 1)
			s.decide()
			s.after(time.Minute).decide()
			return s
		}, placement.Target{In: []string{"host-n02", "host-n03", "host-n04", "host-n05", "host-n01"}}},
		"nowhere, where home has no good node": {func() *scene {
			s := running(3)
			for _, n := range []string{"n00", "n01", "n02", "n03", "n04", "n05"} {
				s.node(n, func(n *gang.Node) { n.Unschedulable = true })
			}
			s.Pods[1].Deleting = true
			s.decide()
			return s
		}, placement.Target{In: []string{}}},
		"home, once its own node was tried": {func() *scene {
			s := running(3, rule("all", step(v1alpha1.RestartPod, 0), step(v1alpha1.RestartPod, 60)))
			s.crash(1, 1)
			s.decide()
			s.replace(1)
			s.after(time.Minute).decide()
			return s
		}, placement.Target{In: []string{"host-n00", "host-n01", "host-n02", "host-n03", "host-n04", "host-n05"}}},
		"its own still, for a rank that only goes with the job": {func() *scene {
			s := running(3, rule("all", step(v1alpha1.RestartPod, 0), step(v1alpha1.RestartJob, 60)))
			s.crash(0, 1)
			s.decide()
			s.after(time.Minute).decide()
			return s
		}, placement.Target{In: []string{"host-n01"}}},
		"anywhere but the home that it left, once relocated": {func() *scene {
			s := running(3, rule("all", step(v1alpha1.RelocateJob, 0)))
			delete(s.Nodes, "n02")
			s.decide()
			s.Nodes["n02"] = gang.Node{Name: "n02", Hostname: "host-n02", Ready: true}
			return s
		}, placement.Target{NotIn: []string{"host-n00", "host-n01", "host-n02", "host-n03", "host-n04", "host-n05"}}},
		"anywhere but the excluded, without a home": {func() *scene {
			s := running(3)
			s.Topology = topology.New(nil)
			s.status().Placement.HyperNode, s.status().Placement.Tier = "", nil
			s.decide()
			s.breakNode("n01")
			s.decide()
			s.after(90 * time.Second).decide()
			return s
		}, placement.Target{NotIn: []string{"host-n01"}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := tc.story()
			w := incident.ViewOf(&s.Observation, s.status())
			check.Equal(t, "target", tc.want, w.Rooms(s.status()).ForRank(gang.Rank{Task: "worker", Index: 1}))
		})
	}
}

// toleratesAll has the pods of the job tolerate every taint.
func (s *scene) toleratesAll() {
	s.Job.Spec.Tasks[0].Template.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
}

func TestNowhereIsNotAnywhere(t *testing.T) {
	check.Equal(t, "any", false, placement.Target{}.None())
	check.Equal(t, "any but one", false, placement.Target{NotIn: []string{"a"}}.None())
	check.Equal(t, "one", false, placement.Target{In: []string{"a"}}.None())
	check.Equal(t, "nowhere", true, placement.Target{In: []string{}}.None())
}
