// Partitions: what restarts as one, and where a partition lives.

package policies

import (
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/incident"
	"github.com/lockstep-dev/lockstep/policies/placement"
	"github.com/lockstep-dev/lockstep/policies/topology"
	"github.com/lockstep-dev/lockstep/test/check"
)

// partitioned is a running job of six workers in three partitions of two, in one rack of six
// nodes and another, within which pairs of nodes are HyperNodes of their own.
func partitioned(steps ...func(*v1alpha1.Rule)) *scene {
	s := aScene(aJob().tasks(task("worker", 6, inPartitions(2))).policy(withRules(rule("r", steps...))))
	var all []topology.HyperNode
	for _, name := range []string{"rack-a", "rack-b", "spine"} {
		h, _ := s.Topology.Find(name)
		h.Tier++
		all = append(all, h)
	}
	for i, name := range []string{"pair-0", "pair-1", "pair-2", "pair-3"} {
		nodes := []string{"n00", "n01", "n02", "n03", "n04", "n05", "n06", "n07"}[2*i : 2*i+2]
		all = append(all, topology.HyperNode{Name: name, Tier: 1, Nodes: nodes})
	}
	s.Topology = topology.New(all)
	return s.started().placed()
}

// homes are the homes of the partitions.
func (s *scene) homes() []string {
	var out []string
	for _, p := range s.status().Placement.Tasks[0].Partitions {
		out = append(out, p.HyperNode)
	}
	return out
}

func TestPartitionHomes(t *testing.T) {
	s := partitioned(step(v1alpha1.RestartPod, 0))
	check.Equal(t, "home", "rack-a", s.status().Placement.HyperNode)
	check.Equal(t, "homes", []string{"pair-0", "pair-1", "pair-2"}, s.homes())
	check.Equal(t, "tier", int32(1), *s.status().Placement.Tasks[0].Partitions[0].Tier)
	// A rank that moves does not move its partition.
	s.replace(0)
	s.decide()
	s.bind(0, "n03")
	s.decide()
	check.Equal(t, "homes", []string{"pair-0", "pair-1", "pair-2"}, s.homes())
	w := incident.ViewOf(&s.Observation, s.status())
	check.Equal(t, "a rank of no partition", int32(-1), w.PartitionOf(gang.Rank{Task: "ghost", Index: 0}))

	unknown := partitioned(step(v1alpha1.RestartPod, 0))
	unknown.Topology = topology.New(nil)
	unknown.status().Placement.Tasks[0].Partitions = nil
	unknown.decide()
	check.Equal(t, "without HyperNodes", []string{"", "", ""}, unknown.homes())
}

// HyperNodes may be renamed, and a rank would wait for one that is no more.
func TestAPartitionsHomeIsRenamed(t *testing.T) {
	s := partitioned(step(v1alpha1.RestartPod, 0))
	delete(s.Nodes, "n02")
	s.Topology = topology.New([]topology.HyperNode{
		{Name: "rack-new", Tier: 2, Nodes: []string{"n00", "n01", "n03", "n04", "n05"}},
		{Name: "pair-0", Tier: 1, Nodes: []string{"n00", "n01"}}, {Name: "pair-new", Tier: 1, Nodes: []string{"n03"}},
	})
	s.decide()
	check.Equal(t, "home", "rack-new", s.status().Placement.HyperNode)
	check.Equal(t, "homes", []string{"pair-0", "pair-new", "pair-2"}, s.homes())
	w := incident.ViewOf(&s.Observation, s.status())
	check.Equal(t, "a rank belongs in", "pair-new", w.Places(s.status()).HomeOf(gang.Rank{Task: "worker", Index: 2}))

	// A HyperNode that is only away for a while is not given up for a higher one, as pair-2 is not.
	s.Topology = topology.New([]topology.HyperNode{{Name: "rack-new", Tier: 2, Nodes: []string{"n00", "n01", "n03", "n04", "n05"}}})
	s.decide()
	check.Equal(t, "homes", []string{"pair-0", "pair-new", "pair-2"}, s.homes())
}

// A replacement goes to its partition's home, and not to another place in the job's.
func TestARankGoesBackToItsPartition(t *testing.T) {
	s := partitioned(step(v1alpha1.RestartPod, 0))
	s.lose("n02")
	s.decide()
	s.replace(2)
	s.Nodes["n02"] = gang.Node{Name: "n02", Hostname: "host-n02", Ready: true}
	s.decide()
	p := s.plan()
	check.Equal(t, "goes to", placement.Target{In: []string{"host-n03"}}, p.Lift[0].Target)
	check.Equal(t, "is told", "pair-1", p.Lift[0].Annotations[v1alpha1.AnnotationHyperNode])
}

func TestRestartPartition(t *testing.T) {
	tests := map[string]struct {
		broken func(*scene)
		lives  []int32
		held   []string
		homes  []string
	}{
		"one rank": {func(s *scene) { s.crash(2, 1) },
			[]int32{0, 0, 1, 1, 0, 0}, []string{"n02", "n03"}, []string{"pair-0", "pair-1", "pair-2"}},
		"two of one partition": {func(s *scene) { s.crash(2, 1); s.crash(3, 1) },
			[]int32{0, 0, 1, 1, 0, 0}, []string{"n02", "n03"}, []string{"pair-0", "pair-1", "pair-2"}},
		"of two partitions": {func(s *scene) { s.crash(1, 1); s.crash(4, 1) },
			[]int32{1, 1, 0, 0, 1, 1}, []string{"n00", "n01", "n04", "n05"}, []string{"pair-0", "pair-1", "pair-2"}},
		"one whose pod is gone: it has its new life": {func(s *scene) { s.replace(2) },
			[]int32{0, 0, 1, 1, 0, 0}, []string{"n02", "n03"}, []string{"pair-0", "pair-1", "pair-2"}},
		"a node that is gone, in place as long as nothing else was tried": {func(s *scene) { s.lose("n02") },
			[]int32{0, 0, 1, 1, 0, 0}, []string{"n03"}, []string{"pair-0", "pair-1", "pair-2"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := partitioned(step(v1alpha1.RestartPartition, 0))
			tc.broken(s)
			s.decide()
			check.Equal(t, "lives", tc.lives, s.lives())
			check.Equal(t, "held", tc.held, s.held())
			check.Equal(t, "homes", tc.homes, s.homes())
			check.Equal(t, "restarts", int32(1), s.status().Restarts.Partition)
			check.Equal(t, "changes, decided again", nil, s.changes())
		})
	}
}

// One whose rank a step has restarted and that has found no room is placed from scratch, as a
// whole, within the job's home.
func TestAPartitionWithoutRoomIsPlacedAfresh(t *testing.T) {
	s := partitioned(step(v1alpha1.RestartPod, 0), step(v1alpha1.RestartPartition, 60), step(v1alpha1.RestartPartition, 120))
	s.lose("n02")
	s.crash(5, 1)
	s.decide()
	s.replace(2)
	s.back(5, "n05")
	check.Equal(t, "changes", sorted([]string{
		"incidents[1].steps[1]: action RestartPartition, index 1, time 1m0s",
		"holds[n04]: until 11m0s", "holds[n05]: until 11m0s",
		"placement.tasks[worker].nodes[2]: ",
		"placement.tasks[worker].nodes[3]: ",
		"placement.tasks[worker].partitions[1]: ",
		"ready: 2/6",
		"restarts.partition: 1",
		"restarts.total: 2",
		"tasks[worker].ranks[3]: incarnation 1, reason Step",
		"tasks[worker].ranks[4]: incarnation 1, reason Step",
		"tasks[worker].ranks[5]: incarnation 2, reason Step",
		"tasks[worker].ready: 2",
	}), s.after(60*time.Second).changes())
	check.Equal(t, "homes", []string{"pair-0", "", "pair-2"}, s.homes())

	for _, i := range []int{3, 4, 5} {
		s.replace(i)
	}
	s.decide()
	p := s.plan()
	check.Equal(t, "lifted", 4, len(p.Lift))
	check.Equal(t, "placed from scratch, within home, and not where others return to", placement.Target{In: []string{"host-n00", "host-n01", "host-n03", "host-n05"}}, p.Lift[0].Target)
	check.Equal(t, "told of the job's home", "rack-a", p.Lift[0].Annotations[v1alpha1.AnnotationHyperNode])
	// Within the covering incident the ranks that fell give their pins up, the others do not.
	check.Equal(t, "in place", placement.Target{In: []string{"host-n04"}}, p.Lift[2].Target)

	s.bind(2, "n00")
	s.decide()
	check.Equal(t, "half a partition has no home", []string{"pair-0", "", "pair-2"}, s.homes())
	check.Equal(t, "outcome", v1alpha1.Outcome(""), s.incident(t).Outcome)
	s.bind(3, "n01")
	s.decide()
	check.Equal(t, "homes", []string{"pair-0", "pair-0", "pair-2"}, s.homes())
	s.bind(4, "n04")
	s.bind(5, "n05")
	s.decide()
	check.Equal(t, "outcome", v1alpha1.OutcomeRecovered, s.incident(t).Outcome)
	check.Equal(t, "home", "rack-a", s.status().Placement.HyperNode)
}

// An incident is not over while a rank of a partition that is placed from scratch has no node.
func TestAPartitionIsNotBackBeforeAllOfIt(t *testing.T) {
	s := partitioned(step(v1alpha1.RestartPod, 0), step(v1alpha1.RestartPartition, 60))
	s.lose("n02")
	s.decide()
	s.replace(2)
	s.after(60 * time.Second).decide()
	s.replace(3)
	s.bind(2, "n00")
	s.decide()
	s.decide()
	check.Equal(t, "outcome", v1alpha1.Outcome(""), s.incident(t).Outcome)
	check.Equal(t, "state", v1alpha1.StateRecovering, s.status().State)
}

// With a relocation every partition has a new home.
func TestARelocationForgetsPartitions(t *testing.T) {
	s := partitioned(step(v1alpha1.RelocateJob, 0))
	s.crash(2, 1)
	s.decide()
	for i := range s.Pods {
		s.replace(i)
	}
	s.decide()
	for i, n := range []string{"n06", "n07", "n08", "n09", "n10", "n11"} {
		s.bind(i, n)
	}
	s.decide()
	check.Equal(t, "home", "rack-b", s.status().Placement.HyperNode)
	check.Equal(t, "homes", []string{"pair-3", "rack-b", "rack-b"}, s.homes())
}

// A spare is taken by a rank of the partition in whose home it is, whoever else lost a node.
func TestASpareStaysInItsPartition(t *testing.T) {
	j := aJob().tasks(task("worker", 4, inPartitions(2), withSpares(1))).policy(withRules(rule("r", step(v1alpha1.RestartPod, 0))))
	s := aScene(j)
	rack, _ := s.Topology.Find("rack-a")
	rack.Tier = 2
	s.Topology = topology.New([]topology.HyperNode{
		rack, {Name: "left", Tier: 1, Nodes: []string{"n00", "n01", "n02"}}, {Name: "right", Tier: 1, Nodes: []string{"n03", "n04", "n05"}},
	})
	s.started()
	for i, n := range []string{"n00", "n01", "n03", "n04", "n05"} {
		s.bind(i, n)
	}
	s.decide()
	check.Equal(t, "homes", []string{"left", "right"}, s.homes())
	s.lose("n00", "n03")
	s.decide()
	check.Equal(t, "nodes", []string{"n00", "n01", "n05", "n04"}, s.nodes())
}

func TestPartitionsOfATaskWithoutAny(t *testing.T) {
	s := running(3, rule("r", step(v1alpha1.RestartPartition, 0)))
	s.crash(1, 1)
	s.decide()
	check.Equal(t, "the whole task is one", []int32{1, 1, 1}, s.lives())
}
