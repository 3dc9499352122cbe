// Hard topologies that are violated.

package policies

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/topology"
	"github.com/lockstep-dev/lockstep/test/check"
)

const remedy = ". Lockstep moves nothing for that: a step RelocateJob, or a new TrainingJob, is placed from scratch"

// apart is a job that is confined to a tier, with its ranks on these nodes.
func apart(job jobWrapper, nodes ...string) *scene {
	s := aScene(job).started()
	for i, node := range nodes {
		s.bind(i, node)
	}
	s.decide()
	return s
}

func TestAViolatedTopologyIsSaid(t *testing.T) {
	workers := func() jobWrapper { return aJob().tasks(task("worker", 3)) }
	partitioned := func(mode v1alpha1.TopologyMode) jobWrapper {
		return aJob().tasks(task("worker", 4, func(t *v1alpha1.Task) {
			t.Partition = &v1alpha1.Partition{Size: 2, NetworkTopology: &v1alpha1.NetworkTopology{Mode: mode, HighestTierAllowed: new(int32(1))}}
		}))
	}
	soft := workers().confined(1)
	soft.Spec.NetworkTopology.Mode = v1alpha1.TopologySoft
	tests := map[string]struct {
		scene *scene
		want  string
	}{
		"in one rack":                {apart(workers().confined(1), "n00", "n01", "n02"), ""},
		"in two racks":               {apart(workers().confined(1), "n00", "n06", "n01"), "networkTopology requires the job in one HyperNode of tier 1 at most, and its ranks are in rack-a (n00, n01), rack-b (n06)" + remedy},
		"in two racks, as allowed":   {apart(workers().confined(2), "n00", "n06", "n01"), ""},
		"in two racks, soft":         {apart(soft, "n00", "n06", "n01"), ""},
		"in two racks, unconfined":   {apart(workers(), "n00", "n06", "n01"), ""},
		"partitions in a rack each":  {apart(partitioned(v1alpha1.TopologyHard), "n00", "n01", "n06", "n07"), ""},
		"a partition in two racks":   {apart(partitioned(v1alpha1.TopologyHard), "n00", "n01", "n02", "n07"), "networkTopology requires partition 1 of task worker in one HyperNode of tier 1 at most, and its ranks are in rack-a (n02), rack-b (n07)" + remedy},
		"the same, soft":             {apart(partitioned(v1alpha1.TopologySoft), "n00", "n01", "n02", "n07"), ""},
		"while only some are placed": {apart(workers().confined(1), "n00", "n06"), "networkTopology requires the job in one HyperNode of tier 1 at most, and its ranks are in rack-a (n00), rack-b (n06)" + remedy},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := tc.scene
			got := ""
			if c := meta.FindStatusCondition(s.status().Conditions, v1alpha1.ConditionTopologyViolated); c != nil {
				got = c.Message
			}
			check.Equal(t, "condition", tc.want, got)
			if s.status().State == v1alpha1.StateRunning {
				check.Equal(t, "message", tc.want, s.status().Message)
			}
			check.Equal(t, "incidents", 0, len(s.status().Incidents))
			check.Equal(t, "deleted", nil, s.deleted())
		})
	}
}

func TestAViolationOfManyNodesIsShort(t *testing.T) {
	s := apart(aJob().tasks(task("worker", 7)).confined(1), "n00", "n01", "n02", "n03", "n04", "n05", "n06")
	check.Equal(t, "message", "networkTopology requires the job in one HyperNode of tier 1 at most, and its ranks are in rack-a (n00, n01, n02, n03 and 2 more), rack-b (n06)"+remedy,
		s.status().Message)
}

func TestAViolationGoesAway(t *testing.T) {
	violated := func(s *scene) bool { return gang.IsTrue(s.status(), v1alpha1.ConditionTopologyViolated) }
	for name, story := range map[string]func(*scene){
		"the pod is being deleted": func(s *scene) { s.Pods[1].Deleting = true },
		"the pod has failed":       func(s *scene) { s.crash(1, 1) },
		"the node is gone":         func(s *scene) { delete(s.Nodes, "n06") },
		"the node is gone, and nothing is done for that": func(s *scene) {
			s.Job.Spec.RestartPolicy = &v1alpha1.RestartPolicy{Rules: []v1alpha1.Rule{rule("r", step(v1alpha1.Ignore, 0))}}
			delete(s.Nodes, "n06")
		},
		"the racks are known otherwise": func(s *scene) {
			s.Topology = topology.New([]topology.HyperNode{{Name: "r", Tier: 1, Nodes: []string{"n00", "n01", "n06"}}})
		},
		"the job is suspended": func(s *scene) { s.Job.Spec.Suspend = true },
	} {
		t.Run(name, func(t *testing.T) {
			s := apart(aJob().tasks(task("worker", 3)).confined(1), "n00", "n06", "n01")
			check.Equal(t, "violated", true, violated(s))
			story(s)
			s.decide()
			check.Equal(t, "violated", false, violated(s))
			check.Equal(t, "reason", v1alpha1.ReasonWithinTier, conditionReason(s, v1alpha1.ConditionTopologyViolated))
		})
	}
	s := apart(aJob().tasks(task("worker", 3)).confined(1), "n00", "n06", "n01")
	s.Topology = topology.New([]topology.HyperNode{{Name: "rack-a", Tier: 1, Nodes: []string{"n00", "n01"}}})
	s.decide()
	check.Equal(t, "violated by a node in no HyperNode", true, violated(s))
}

// Without HyperNodes Volcano places a gang with a hard topology anywhere.
func TestAHardTopologyNeedsHyperNodes(t *testing.T) {
	tests := map[string]struct {
		job   jobWrapper
		nodes []string
		told  bool
	}{
		"hard":               {aJob().tasks(task("worker", 2)).confined(1), []string{"n00", "n01"}, true},
		"hard, on one node":  {aJob().tasks(task("worker", 2)).confined(1), []string{"n00", "n00"}, false},
		"without a topology": {aJob().tasks(task("worker", 2)), []string{"n00", "n01"}, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := aScene(tc.job).started()
			s.Topology = topology.New(nil)
			for i, node := range tc.nodes {
				s.bind(i, node)
			}
			s.decide()
			check.Equal(t, "violated", tc.told, gang.IsTrue(s.status(), v1alpha1.ConditionTopologyViolated))
			if tc.told {
				check.Equal(t, "reason", v1alpha1.ReasonNoHyperNodes, conditionReason(s, v1alpha1.ConditionTopologyViolated))
				check.Equal(t, "message", "the cluster has no HyperNodes, so that Volcano places the job as if it had no networkTopology: create HyperNodes for the nodes", s.status().Message)
			}
		})
	}
}
