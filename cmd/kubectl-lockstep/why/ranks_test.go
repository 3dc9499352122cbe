package why

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/check"
)

func TestRanksOnNodesThatAreNotWell(t *testing.T) {
	check.Equal(t, "while it runs", []string{
		"worker-0 is on node n0, which is cordoned. [Node n0]",
		"worker-1, worker-2 are on node n1, which is not ready, in quarantine, degraded. [Node n1]",
		"worker-3 was on node n3, which does not exist any more. [Node n3]",
	}, added(running(), func(s *Snapshot) {
		s.Job.Status.Placement.Tasks[0].Nodes[2] = "n1"
		s.Nodes[0].Spec.Unschedulable = true
		s.Nodes[0].Spec.Taints = []corev1.Taint{{Key: v1alpha1.TaintDegraded, Value: v1alpha1.DegradedFailedLately}}
		s.Nodes[1].Spec.Taints = []corev1.Taint{{Key: v1alpha1.TaintQuarantine}, {Key: v1alpha1.TaintDegraded}, {Key: v1alpha1.HoldTaintPrefix + "other-1234"}}
		s.Nodes[1].Status.Conditions[0].Status = corev1.ConditionUnknown
		s.Nodes = s.Nodes[:3]
	}, Job))
	left := running()
	left.Nodes[0].Spec.Unschedulable, left.Pods[0].Spec.NodeName = true, ""
	check.Equal(t, "while a rank looks for another node", []string{"worker-0 was on node n0, which is cordoned. [Node n0]"}, sentences(onBadNodes(left)))
	spare := running()
	spare.Job.Spec.Tasks[0].Spares, spare.Nodes = new(int32(1)), append(spare.Nodes, readyNode("n4"))
	spare.Pods, spare.Nodes[4].Spec.Unschedulable = append(spare.Pods, podOn(4, "n4")), true
	spare.Pods[4].Name = "llm-1-worker-spare-0"
	check.Equal(t, "a spare", []string{"worker-spare-0 is on node n4, which is cordoned. [Node n4]"}, sentences(onBadNodes(spare)))
	many := running()
	many.Job.Spec.Tasks[0].Replicas = 7
	many.Job.Status.Placement.Tasks[0].Nodes = []string{"a", "b", "c", "d", "e", "f", "g"}
	if got := sentences(Job(many)); !slices.Contains(got, "Nodes of its ranks that are not well beside these: 3. `kubectl lockstep map llm` has all. [Nodes]") {
		t.Errorf("answered %q", got)
	}
	blind := running()
	blind.Nodes, blind.Unread = nil, []Unread{{What: "nodes"}}
	check.Equal(t, "unread", nil, onBadNodes(blind))
}

func TestSparesWithoutANode(t *testing.T) {
	wanting := func(ready int32) *Snapshot {
		s := running()
		s.Job.Spec.Tasks[0].Spares = new(int32(3))
		s.Job.Status.Tasks = append(s.Job.Status.Tasks, v1alpha1.TaskStatus{Name: "worker-spare", Replicas: 3, Ready: ready})
		return s
	}
	check.Equal(t, "all are there", nil, spares(wanting(3)))
	s := wanting(1)
	for i, node := range []string{"n9", "", ""} {
		s.Pods = append(s.Pods, podOn(i, node))
		spare := &s.Pods[len(s.Pods)-1]
		spare.ObjectMeta = metav1.ObjectMeta{Name: "llm-1-worker-spare-" + string(rune('0'+i)), Labels: map[string]string{v1alpha1.LabelSpare: "true"}}
	}
	s.Pods[5].Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: v1alpha1.PlacementGate}}
	s.Pods = s.Pods[:6]
	check.Equal(t, "two are not", []string{
		"Of the 3 spares of task worker, 1 holds a node. While one is missing, a rank that loses its node may have to wait for another. [status.tasks]",
		"worker-spare-1 waits behind its gate: a spare gets a node while no incident is open, every rank has one, and home has a free one. [Pod llm-1-worker-spare-1]",
		"There is no pod of worker-spare-2 yet. [Pods]",
	}, sentences(spares(s)))
	unschedulable(&s.Pods[5], "0/4 nodes are available")
	s.Pods[5].Spec.SchedulingGates = nil
	check.Equal(t, "one finds none", `worker-spare-1 has no node: the scheduler says "0/4 nodes are available". [Pod llm-1-worker-spare-1]`, sentences(spares(s))[1])
	s.Job.Spec.Suspend = true
	check.Equal(t, "suspended", nil, spares(s))
}

func TestASpareOfAnotherTask(t *testing.T) {
	wanting := func(task string) *Snapshot {
		s := running()
		s.Pods[0] = podOn(0, "")
		s.Pods[0].Labels[v1alpha1.LabelTask] = task
		spare := podOn(9, "n4")
		spare.Labels[v1alpha1.LabelSpare], spare.Labels[v1alpha1.LabelTask] = "true", "worker"
		s.Pods = append(s.Pods, spare)
		return s
	}
	check.Equal(t, "of another task", []string{"The spare on node n4 is for task worker only. [Pod llm-1-worker-9]"}, sentences(sparesOfOthers(wanting("master"))))
	check.Equal(t, "of its own task", nil, sentences(sparesOfOthers(wanting("worker"))))
}
