// Drains: kubectl empties a node of a gang, whose ranks move first.

package real

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// movesFromCordons gives each rank one GPU, so that two share a node, and moves them from nodes that are cordoned.
func movesFromCordons(t *Training) {
	for i := range t.Job.Spec.Tasks {
		t.Job.Spec.Tasks[i].Template.Spec.Containers[0].Resources.Limits[gpuResource] = resource.MustParse("1")
	}
	t.Job.Spec.RestartPolicy.Rules = []v1alpha1.Rule{{
		Name:  "maintenance",
		Match: v1alpha1.Match{Events: []v1alpha1.EventType{v1alpha1.NodeCordoned}},
		Steps: []v1alpha1.Step{{Action: v1alpha1.MigratePod}},
	}}
}

// drainable is a gang of three, of which two ranks share a node: while it is placed, the other nodes take no pods.
func drainable(t *testing.T, name string, change ...func(*Training)) *scenario {
	t.Helper()
	kept := append(ground.Nodes.RackNodes(1), ground.Nodes.RackNodes(0)[2:]...)
	uncordon := func() {
		if err := ground.Uncordon(context.WithoutCancel(t.Context()), kept...); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(uncordon)
	if err := ground.Cordon(t.Context(), kept...); err != nil {
		t.Fatal(err)
	}
	s := torchrun(t, name, 100_000, append([]func(*Training){(*Training).Supervise, (*Training).WithoutAgents, movesFromCordons}, change...)...)
	uncordon()
	return s
}

// drains has kubectl drain a node, and waits until the gang trains again.
func (s *scenario) drains(node string) {
	s.t.Helper()
	s.must(s.Refresh(s.ctx))
	epoch := s.Job.Status.Epoch
	s.t.Cleanup(func() { s.must(ground.Uncordon(s.ctx, node)) })
	out, err := ground.Kubectl(s.ctx, "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=300s")
	s.t.Logf("kubectl drain: %s", out)
	s.must(err)
	s.must(s.AwaitJob(s.ctx, "the gang trains again", func(job *v1alpha1.TrainingJob) bool {
		return job.Status.Epoch > epoch && job.Status.Incidents[0].Outcome == v1alpha1.OutcomeRecovered
	}))
	if n := len(s.Job.Status.Incidents); n != 1 || s.Job.Status.Incidents[0].Trigger != v1alpha1.NodeCordoned || s.Job.Status.Epoch != epoch+1 {
		s.errorf("%d incidents, the first by %s, and epoch %d after %d", n, s.Job.Status.Incidents[0].Trigger, s.Job.Status.Epoch, epoch)
	}
}

// TestADrainWaitsForItsRanksToMove drains a node with two ranks. Their spares take them over, all go on from the last step that was made, and the drain ends by itself.
func TestADrainWaitsForItsRanksToMove(t *testing.T) {
	s := drainable(t, "drained", withSurvivors, func(t *Training) { t.TakeOver(2) })
	before := s.pods()
	waiting, err := s.AwaitSpares(s.ctx, masterTask, workerTask)
	s.must(err)
	node, moved := s.nodeWithTwo(before)
	t.Logf("node %s has ranks %v", node, moved)
	s.must(s.awaitPrinted("event=checkpoint rank=0 step=60"))
	s.drains(node)
	s.survivorsStay(before, moved...)
	var spares []string
	for _, pods := range waiting {
		for _, pod := range pods {
			spares = append(spares, string(pod.UID))
		}
	}
	after := s.pods()
	for _, rank := range moved {
		if !slices.Contains(spares, string(after[rank].UID)) {
			s.errorf("rank %d is pod %s, which was not its spare", rank, after[rank].Name)
		}
	}
	s.resumedAlike("a drain", moved[0], cluster.SharedPath, 1)
	s.losesNoStep()
	s.showsWhenCordoned(node)
}

// TestADrainEvictsRanksThatHaveNoSpares drains a node with two ranks. It evicts their pods, and none of those that Volcano makes next, which have their names.
func TestADrainEvictsRanksThatHaveNoSpares(t *testing.T) {
	s := drainable(t, "evicted")
	before := s.pods()
	node, moved := s.nodeWithTwo(before)
	s.drains(node)
	s.survivorsStay(before, moved...)
	for _, rank := range moved {
		if now := s.pods()[rank]; now.Spec.NodeName == node {
			s.errorf("rank %d is on node %s, which was drained", rank, node)
		}
	}
}

// nodeWithTwo is a node on which two ranks are.
func (s *scenario) nodeWithTwo(pods map[int]corev1.Pod) (node string, ranks []int) {
	s.t.Helper()
	on := map[string][]int{}
	for rank, pod := range pods {
		on[pod.Spec.NodeName] = append(on[pod.Spec.NodeName], rank)
	}
	for node, ranks := range on {
		if len(ranks) == 2 {
			return node, ranks
		}
	}
	s.t.Fatalf("no node has two ranks: %v", on)
	return "", nil
}

// losesNoStep checks that the ranks have resumed from the last step that any of them has printed.
func (s *scenario) losesNoStep() {
	s.t.Helper()
	for rank, pod := range s.pods() {
		if r := s.resumption(pod); r.last > r.step {
			s.errorf("rank %d had printed step %d, and resumed from %d", rank, r.last, r.step)
		}
	}
}

// showsWhenCordoned checks that the control plane says since when a node is cordoned.
func (s *scenario) showsWhenCordoned(name string) {
	s.t.Helper()
	s.must(await(s.ctx, "the taint of the cordon has a time", func(ctx context.Context) (bool, error) {
		node := &corev1.Node{}
		err := ground.Client().Get(ctx, client.ObjectKey{Name: name}, node)
		return slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
			return taint.Key == corev1.TaintNodeUnschedulable && taint.TimeAdded != nil
		}), err
	}))
}
