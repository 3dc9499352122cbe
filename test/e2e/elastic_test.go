// Tasks that change their size, and tasks in partitions.

package e2e

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

func elastic(least, most int32) func(*v1alpha1.TrainingJob) {
	return func(j *v1alpha1.TrainingJob) {
		j.Spec.Tasks[0].MinReplicas, j.Spec.Tasks[0].MaxReplicas = &least, &most
	}
}

func TestReplicasChangeLive(t *testing.T) {
	s := newScenario(t, "elastic", 2, 6)
	s.run(s.trainingJob(3, elastic(2, 5)))
	before := s.pods()
	home := s.rackOf(s.pod(0).Spec.NodeName)

	s.scaleTo(5)
	s.untouched(before)
	s.atHome(home)
	s.scaleTo(2)
	if n := len(s.pods()); n != 2 {
		t.Errorf("%d pods, want 2", n)
	}

	victim := s.pod(1)
	before = s.pods()
	s.must(testCluster.DeleteNode(s.ctx, victim.Spec.NodeName), "delete a node")
	s.recovered(1)
	s.untouched(before, victim.Name)
	s.atHome(home)
}

func (s *scenario) scaleTo(n int32) {
	s.t.Helper()
	s.change("change the replicas", func(j *v1alpha1.TrainingJob) { j.Spec.Tasks[0].Replicas = n })
	s.await(fmt.Sprintf("%d ranks run", n), func() bool {
		return s.job.Status.State == v1alpha1.StateRunning && s.job.Status.Ready == fmt.Sprintf("%d/%d", n, n) && len(s.pods()) == int(n)
	})
}

// The rank whose node is lost takes the node of the last rank, which Volcano takes away.
func TestShrinkTaskGoesOnWithFewer(t *testing.T) {
	s := newScenario(t, "shrink", 1, 4)
	s.run(s.trainingJob(4, elastic(3, 4), rules(anything(step(v1alpha1.RestartPod, 0), step(v1alpha1.ShrinkTask, 3)))))
	before, victim, last := s.pods(), s.pod(1), s.pod(3)

	s.must(testCluster.DeleteNode(s.ctx, victim.Spec.NodeName), "delete a node of a full rack")
	s.recovered(1)

	delete(before, last.Name)
	s.untouched(before, victim.Name)
	if got := s.pod(1).Spec.NodeName; got != last.Spec.NodeName {
		t.Errorf("rank 1 went to node %s, and rank 3 left %s", got, last.Spec.NodeName)
	}
	if st := s.job.Status; st.Ready != "3/3" || st.Tasks[0].Shrunk != 1 {
		t.Errorf("ready %s, shrunk by %d", st.Ready, st.Tasks[0].Shrunk)
	}
}

// partitions are two groups of three workers, each in a rack.
func partitions(j *v1alpha1.TrainingJob) {
	j.Spec.Tasks[0].Partition = &v1alpha1.Partition{
		Size: 3, NetworkTopology: &v1alpha1.NetworkTopology{Mode: v1alpha1.TopologyHard, HighestTierAllowed: ptr.To[int32](1)},
	}
}

func ranks(job string, indices ...int) []string {
	var out []string
	for _, i := range indices {
		out = append(out, fmt.Sprintf("%s-1-worker-%d", job, i))
	}
	return out
}

func TestRestartPartitionRestartsThatPartitionAlone(t *testing.T) {
	s := newScenario(t, "partition", 3, 4, 3)
	s.run(s.trainingJob(6, tier(2), partitions, rules(anything(step(v1alpha1.RestartPartition, 0)))))
	before, nodes := s.pods(), s.nodesOfRanks()
	s.inOneRack(nodes[:3])
	s.inOneRack(nodes[3:])

	s.must(testCluster.FailPod(s.ctx, keyOf(s.pod(1)), 1), "fail a worker of the first partition")
	s.recovered(1)

	s.untouched(before, ranks("partition", 0, 1, 2)...)
	s.sameNodes(nodes)
}

func TestPartitionWithoutRoomMovesAsAWhole(t *testing.T) {
	s := newScenario(t, "partmove", 3, 3, 3)
	s.run(s.trainingJob(6, tier(2), partitions, rules(anything(step(v1alpha1.RestartPod, 0), step(v1alpha1.RestartPartition, 4)))))
	before, nodes := s.pods(), s.nodesOfRanks()
	lost := s.pod(1).Spec.NodeName

	s.must(testCluster.DeleteNode(s.ctx, lost), "delete a node of a full rack")
	s.recovered(1)

	s.untouched(before, ranks("partmove", 0, 1, 2)...)
	after := s.nodesOfRanks()
	s.inOneRack(after[:3])
	if s.rackOf(after[0]) == s.rackOf(nodes[0]) {
		t.Error("the partition is still in the rack that has no room for it")
	}
	if !slices.Equal(nodes[3:], after[3:]) {
		t.Errorf("the other partition went from %v to %v", nodes[3:], after[3:])
	}
}

func (s *scenario) inOneRack(nodes []string) {
	s.t.Helper()
	for _, n := range nodes {
		if s.rackOf(n) != s.rackOf(nodes[0]) {
			s.t.Errorf("nodes %v are not in one rack", nodes)
		}
	}
}
