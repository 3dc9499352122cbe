package why

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/capacity"
	"github.com/lockstep-dev/lockstep/test/check"
)

// taking are the jobs of these names in queue default, each with a pod of 8 GPUs on each of its nodes.
func taking(nodesOf map[string][]string) *capacity.Usage {
	var groups []scheduling.PodGroup
	for name := range nodesOf {
		groups = append(groups, scheduling.PodGroup{
			ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, Labels: map[string]string{v1alpha1.LabelJob: name}},
			Spec:       scheduling.PodGroupSpec{Queue: "default"},
		})
	}
	u := capacity.NewUsage(groups)
	for name, nodes := range nodesOf {
		for _, node := range nodes {
			u.Add(&corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "a", Annotations: map[string]string{scheduling.KubeGroupNameAnnotationKey: name}},
				Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{
					{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{gpu: resource.MustParse("8")}}},
				}},
			})
		}
	}
	return u
}

func TestWhoUsesTheQueueOfAJobThatWaits(t *testing.T) {
	s := queued()
	s.Usage = taking(map[string][]string{"mamba": {"x0", "x1"}, "bert": {"x2"}, "t5": {"x3"}, "vit": {"x4"}, "clip": {"x5"}, "dino": {"x6"}})
	const users = "Others that use nvidia.com/gpu of queue default: TrainingJob a/mamba (16), TrainingJob a/bert (8), TrainingJob a/clip (8), TrainingJob a/dino (8) and 2 more. [PodGroups, Pods]"
	check.Equal(t, "where the limits leave room", true, slices.Contains(sentences(Job(s)), users))

	s.Queue.Spec.Capability = corev1.ResourceList{gpu: resource.MustParse("64")}
	s.Queue.Status.Allocated = corev1.ResourceList{gpu: resource.MustParse("56")}
	got := sentences(Job(s))
	i := slices.Index(got, "All pods of the job ask for 32 of nvidia.com/gpu. Queue default may not use more than 64 (spec.capability), and 56 are allocated. [spec.tasks, Queue default]")
	if i < 0 || got[i+1] != users {
		t.Errorf("answered %q", got)
	}
}

// What cannot get better is told before what may.
func TestAGangThatNeverFits(t *testing.T) {
	s := queued()
	s.Job.Spec.Tasks[0].Replicas = 9
	check.Equal(t, "answer", "No HyperNode of tier 1 at most is large enough for the gang, even if it were empty. The largest is rack-a: it has room for 4 of the 9 pods of task worker that have to run together. [HyperNodes]",
		sentences(Job(s))[1])
	s.NoQueue, s.Queue = true, nil
	check.Equal(t, "answer", "Queue default does not exist: `kubectl get queues` lists those that do. [Queues]", sentences(Job(s))[1])
}

// The counts add up to the nodes that the job may use: each is counted once.
func TestTheNodesOfAJobThatWaits(t *testing.T) {
	s := queued()
	s.Usage = taking(map[string][]string{"mamba": {"n0", "n5", "n6"}})
	for i := 4; i < 10; i++ {
		s.Nodes = append(s.Nodes, readyNode(fmt.Sprintf("n%d", i)))
	}
	s.Nodes[0].Spec.Unschedulable = true
	s.Nodes[4].Spec.Taints = []corev1.Taint{{Key: "team", Value: "vision", Effect: corev1.TaintEffectNoSchedule}}
	s.Nodes[7].Status.Allocatable[gpu] = resource.MustParse("4")
	s.Job.Status.ExcludedNodes = []v1alpha1.ExcludedNode{{Name: "n8"}}
	s.Pods = []corev1.Pod{podOn(0, "n9"), podOn(1, "")}
	got := sentences(Job(s))
	for _, want := range []string{
		"Of 10 nodes, 3 are free for its pods (n1, n2, n3), 2 are in use by others (n5, n6), 1 is avoided by the job after a failure (n8), 1 is cordoned (n0), 1 is in use by the job itself (n9), 1 is tainted with team=vision:NoSchedule (n4), 1 is too small for its pods (n7). [Nodes, Pods]",
		"Of the HyperNodes up to tier 1, rack-a has the most free nodes: 3 of 4. The gang is 4 pods. [HyperNodes]",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
}

// Of a job with a home, nodes outside of it are no help, whether they are free or not. Nor are those that it does not select.
func TestTheNodesOfARankThatWaits(t *testing.T) {
	s := running()
	s.Usage = taking(nil)
	s.Pods[3] = podOn(3, "")
	s.Nodes = append(s.Nodes, readyNode("n4"), readyNode("n5"))
	want := []string{"Of 6 nodes, 3 are in use by the job itself (n0, n1, n2), 2 are outside of home (n4, n5), 1 is free for its pods (n3). [Nodes, Pods]"}
	check.Equal(t, "answer", want, sentences(kept(s)))
	s.Job.Spec.Tasks[0].Template.Spec.NodeSelector = map[string]string{"gpu": "h200"}
	check.Equal(t, "none selected", nil, sentences(kept(s)))
	s.Nodes[5].Labels = map[string]string{"gpu": "h200"}
	want = []string{"Of 1 node that the job may use by its nodeSelector, 1 is outside of home (n5). [Nodes, Pods]"}
	check.Equal(t, "one selected", want, sentences(kept(s)))
}

// What a condition says, too, is told once.
func TestAMessageIsToldOnce(t *testing.T) {
	s := queued()
	s.Job.Status.Message = "waits for room in queue default"
	check.Equal(t, "the same", nil, sentences(message(s)))
	s.Job.Status.Message = "Volcano refuses the job"
	check.Equal(t, "another", []string{"The manager says: Volcano refuses the job. [status.message]"}, sentences(message(s)))
}
