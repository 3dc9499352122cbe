// The cluster under real work: a job runs in one rack, bad jobs are refused, pods and nodes fail.

package cluster

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	batchv1alpha1 "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"
)

// pool gives a test nodes of its own in the shared cluster.
func pool(t *testing.T, topology Topology) Topology {
	t.Helper()
	if err := shared.AddTopology(t.Context(), topology); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := shared.RemoveTopology(context.Background(), topology.Name); err != nil {
			t.Error(err)
		}
	})
	return topology
}

// create makes a job and deletes it at the end.
func create(t *testing.T, job *batchv1alpha1.Job) {
	t.Helper()
	if err := shared.Client().Create(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := shared.Client().Delete(context.Background(), job); err != nil {
			t.Error(err)
		}
	})
}

// eventuallyPods waits until a job's pods are as wanted, and returns them.
func eventuallyPods(t *testing.T, job string, wanted func([]corev1.Pod) bool) []corev1.Pod {
	t.Helper()
	pods := &corev1.PodList{}
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		err := shared.Client().List(ctx, pods, client.MatchingLabels{batchv1alpha1.JobNameKey: job})
		return err == nil && wanted(pods.Items), err
	})
	if err != nil {
		for _, p := range pods.Items {
			t.Logf("%s on %q: %s %v", p.Name, p.Spec.NodeName, p.Status.Phase, p.Status.Conditions)
		}
		t.Fatalf("the pods of job %s: %v", job, err)
	}
	return pods.Items
}

func running(n int) func([]corev1.Pod) bool {
	return func(pods []corev1.Pod) bool {
		count := 0
		for _, pod := range pods {
			if pod.Status.Phase == corev1.PodRunning {
				count++
			}
		}
		return count == n
	}
}

// gang is a running job of four pods with hard topology in tier 1.
func gang(t *testing.T, topology Topology, policy corev1.RestartPolicy) []corev1.Pod {
	t.Helper()
	job := VolcanoJob(topology.Name, topology.Name, 4, topology.GPUsPerNode)
	tier := 1
	job.Spec.NetworkTopology = &batchv1alpha1.NetworkTopologySpec{Mode: batchv1alpha1.HardNetworkTopologyMode, HighestTierAllowed: &tier}
	job.Spec.Tasks[0].Template.Spec.RestartPolicy = policy
	create(t, job)
	return eventuallyPods(t, job.Name, running(4))
}

func key(pod corev1.Pod) client.ObjectKey { return client.ObjectKeyFromObject(&pod) }

func TestAGangRunsInOneRack(t *testing.T) {
	for _, members := range []MemberKind{ExactMembers, RegexMembers, LabelMembers} {
		t.Run(string(members), func(t *testing.T) {
			t.Parallel()
			topology := pool(t, Topology{Name: "gang-" + string(members), Racks: 2, NodesPerRack: 4, GPUsPerNode: 8, Tiers: []int{2}, Members: members})
			racks := sets.New[string]()
			for _, pod := range gang(t, topology, corev1.RestartPolicyNever) {
				rack, _, _ := strings.Cut(pod.Spec.NodeName, "-n")
				racks.Insert(rack)
			}
			if racks.Len() != 1 {
				t.Errorf("the gang runs in racks %v", sets.List(racks))
			}
		})
	}
}

func TestVolcanoRefusesToChangeATemplate(t *testing.T) {
	t.Parallel()
	job := VolcanoJob("immutable", "no-such-pool", 1, 1)
	create(t, job)
	before := job.DeepCopy()
	job.Spec.Tasks[0].Template.Spec.Containers[0].Image = "other"
	err := shared.Client().Patch(t.Context(), job, client.MergeFrom(before))
	if err == nil || !strings.Contains(err.Error(), "job updates may not change fields") {
		t.Errorf("changing the template: %v", err)
	}
}

func TestAFailedPodShowsItsExitCode(t *testing.T) {
	t.Parallel()
	topology := pool(t, Topology{Name: "fail", Racks: 1, NodesPerRack: 4, GPUsPerNode: 8})
	victim := key(gang(t, topology, corev1.RestartPolicyNever)[1])
	if err := shared.FailPod(t.Context(), victim, 17); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{}
	if err := shared.Client().Get(t.Context(), victim, pod); err != nil {
		t.Fatal(err)
	}
	if end := pod.Status.ContainerStatuses[0].State.Terminated; pod.Status.Phase != corev1.PodFailed || end == nil || end.ExitCode != 17 {
		t.Errorf("phase %s, state %+v", pod.Status.Phase, pod.Status.ContainerStatuses[0].State)
	}
	// A deleted pod comes back under its name, since the job lives on.
	if err := shared.Client().Delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	eventuallyPods(t, topology.Name, running(4))
}

func TestAContainerRestartsInPlace(t *testing.T) {
	t.Parallel()
	topology := pool(t, Topology{Name: "in-place", Racks: 1, NodesPerRack: 4, GPUsPerNode: 8})
	victim := key(gang(t, topology, corev1.RestartPolicyOnFailure)[0])
	if err := shared.RestartContainers(t.Context(), victim, Termination{ExitCode: 1}); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{}
	if err := shared.Client().Get(t.Context(), victim, pod); err != nil {
		t.Fatal(err)
	}
	if view := podView(pod); view.Ready || view.Restarts != 1 || view.Phase != corev1.PodRunning {
		t.Errorf("after the crash: %+v", view)
	}
	if err := shared.ContainersReady(t.Context(), victim); err != nil {
		t.Fatal(err)
	}
	if err := shared.Client().Get(t.Context(), victim, pod); err != nil {
		t.Fatal(err)
	}
	if view := podView(pod); !view.Ready || view.Restarts != 1 {
		t.Errorf("after the restart: %+v", view)
	}
}

func TestASilentNodeIsNotReadyAndKeepsItsPods(t *testing.T) {
	t.Parallel()
	topology := pool(t, Topology{Name: "silent", Racks: 1, NodesPerRack: 5, GPUsPerNode: 8})
	victim := gang(t, topology, corev1.RestartPolicyNever)[2]
	node := victim.Spec.NodeName
	if err := shared.StopHeartbeat(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	if err := shared.Client().Delete(t.Context(), &victim); err != nil {
		t.Fatal(err)
	}
	if err := shared.AwaitNodes(t.Context(), corev1.ConditionUnknown, node); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{}
	if err := shared.Client().Get(t.Context(), key(victim), pod); err != nil || pod.UID != victim.UID || pod.DeletionTimestamp == nil {
		t.Errorf("the pod on the silent node should still be terminating: %v, %v", pod.DeletionTimestamp, err)
	}
	if err := shared.StartHeartbeat(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	pods := eventuallyPods(t, topology.Name, func(pods []corev1.Pod) bool {
		for _, pod := range pods {
			if pod.UID == victim.UID {
				return false
			}
		}
		return running(4)(pods)
	})
	for i := range pods {
		if !podView(&pods[i]).Ready {
			t.Errorf("pod %s is not ready", pods[i].Name)
		}
	}
}

// Not parallel: while it runs, nobody else needs the scheduler.
func TestAComponentStopsAndStarts(t *testing.T) {
	topology := pool(t, Topology{Name: "stopped", Racks: 1, NodesPerRack: 1, GPUsPerNode: 8})
	scheduler := shared.Component(VolcanoScheduler)
	if err := scheduler.Kill(); err != nil {
		t.Fatal(err)
	}
	// A pod, and no Job: Volcano's controller can forget a Job that is let in while its watch of
	// PodGroups is broken.
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: topology.Name, Labels: topology.NodeSelector()}, Spec: podSpec(8)}
	pod.Spec.SchedulerName, pod.Spec.NodeSelector = "volcano", topology.NodeSelector()
	if err := shared.Client().Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	// The API server is killed: asked to stop it would serve the others' watches for 10 s more.
	if err := shared.Component(APIServer).Kill(); err != nil {
		t.Fatal(err)
	}
	if err := shared.Component(APIServer).Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := shared.Component(VolcanoWebhookManager).Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	allRun(t, topology, 0)
	if err := scheduler.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	allRun(t, topology, 1)
	if err := shared.Err(); err != nil {
		t.Error(err)
	}
}

func TestOtherWorkFillsARack(t *testing.T) {
	t.Parallel()
	topology := pool(t, Topology{Name: "full", Racks: 2, NodesPerRack: 3, GPUsPerNode: 4})
	if err := shared.FillRack(t.Context(), topology.Rack(1), 1); err != nil {
		t.Fatal(err)
	}
	used := func() map[string]int {
		racks, err := shared.Map(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		used := map[string]int{}
		for _, rack := range racks {
			for _, node := range rack.Nodes {
				if rack.Pool == topology.Name {
					used[rack.Name] += node.GPUsUsed()
				}
			}
		}
		return used
	}
	if diff := cmp.Diff(map[string]int{"full-r0": 0, "full-r1": 8}, used()); diff != "" {
		t.Error(diff)
	}
	if err := shared.Vacate(t.Context(), topology.NodeNames()...); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]int{"full-r0": 0, "full-r1": 0}, used()); diff != "" {
		t.Error(diff)
	}
}

// Volcano's scheduler dies of a HyperNode that lists one which is gone.
func TestATopologyGoesFromTheTopDown(t *testing.T) {
	t.Parallel()
	topology := Topology{Name: "down", Racks: 4, NodesPerRack: 1, Tiers: []int{2, 2}}
	if err := shared.AddTopology(t.Context(), topology); err != nil {
		t.Fatal(err)
	}
	watcher, err := shared.Client().Watch(t.Context(), &topologyv1alpha1.HyperNodeList{}, client.MatchingLabels{PoolLabel: topology.Name})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	if err := shared.RemoveTopology(t.Context(), topology.Name); err != nil {
		t.Fatal(err)
	}
	var tiers []int
	for event := range watcher.ResultChan() {
		if event.Type != watch.Deleted {
			continue
		}
		if tiers = append(tiers, event.Object.(*topologyv1alpha1.HyperNode).Spec.Tier); len(tiers) == 7 {
			break
		}
	}
	if want := []int{3, 2, 2, 1, 1, 1, 1}; !slices.Equal(tiers, want) {
		t.Errorf("tiers went in the order %v, want %v", tiers, want)
	}
}
