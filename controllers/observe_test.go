package controllers

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/placement"
	"github.com/lockstep-dev/lockstep/test/check"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestPodOf(t *testing.T) {
	base := func() *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name: "llm-2-worker-7", UID: "u",
				Labels: map[string]string{"lockstep.dev/job": "llm", "lockstep.dev/task": "worker", "lockstep.dev/attempt": "2"},
				Annotations: map[string]string{
					"volcano.sh/task-index": "7", "lockstep.dev/incarnation": "3", "lockstep.dev/placed-time": "2026-01-02T03:04:05.5Z",
				},
			},
			Spec:   corev1.PodSpec{NodeName: "n1"},
			Status: corev1.PodStatus{Phase: corev1.PodRunning},
		}
	}
	bad := func(name string, code int32, after int) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: code, Reason: "Error", Message: "boom", FinishedAt: metav1.NewTime(t0.Add(time.Duration(after) * time.Second)),
		}}}
	}
	again := func(ready bool) corev1.ContainerStatus {
		s := bad("train", 137, 0)
		s.LastTerminationState, s.State, s.Ready = s.State, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, ready
		return s
	}
	// A pod whose container started, and whose Ready condition became false then.
	started := func(container, unready time.Time) corev1.PodStatus {
		return corev1.PodStatus{
			Phase:      corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(unready)}},
			ContainerStatuses: []corev1.ContainerStatus{{
				Name: "train", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(container)}},
			}},
		}
	}
	failed := func(name string, code int32, after int) gang.ContainerFailure {
		return gang.ContainerFailure{Name: name, ExitCode: code, Reason: "Error", Message: "boom", Time: t0.Add(time.Duration(after) * time.Second)}
	}
	tests := map[string]struct {
		change func(*corev1.Pod)
		want   func(*gang.Pod)
	}{
		"as it is": {func(*corev1.Pod) {}, func(*gang.Pod) {}},
		"ready": {
			func(p *corev1.Pod) {
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
			},
			func(p *gang.Pod) { p.Ready, p.WasReady = true, true },
		},
		"not ready any more": {
			func(p *corev1.Pod) { p.Status = started(t0, t0.Add(time.Minute)) },
			func(p *gang.Pod) { p.WasReady, p.StartedTime = true, t0 },
		},
		"not ready yet": {
			func(p *corev1.Pod) { p.Status = started(t0, t0) },
			func(p *gang.Pod) { p.StartedTime = t0 },
		},
		"not started yet": {
			func(p *corev1.Pod) {
				p.Status = started(t0, t0.Add(time.Minute))
				p.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}
			},
			func(*gang.Pod) {},
		},
		"crashed before it was ever ready": {
			func(p *corev1.Pod) {
				p.Status = started(t0, t0)
				p.Status.ContainerStatuses[0].RestartCount = 1
			},
			func(p *gang.Pod) { p.WasReady, p.StartedTime = true, t0 },
		},
		"a spare": {
			func(p *corev1.Pod) { p.Labels["volcano.sh/task-spec"] = "worker-spare" },
			func(p *gang.Pod) { p.Spare = true },
		},
		"a rank that has the labels of a spare": {
			func(p *corev1.Pod) { p.Labels["lockstep.dev/spare"] = "true" },
			func(p *gang.Pod) { p.SpareLabel = true },
		},
		"let go within two nodes": {
			func(p *corev1.Pod) { confine(&p.Spec, placement.Target{In: []string{"h1", "h2"}}) },
			func(p *gang.Pod) { p.Pins = []string{"h1", "h2"} },
		},
		"let go within one of those that it asks for": {
			func(p *corev1.Pod) {
				confine(&p.Spec, placement.Target{In: []string{"h1", "h2"}})
				confine(&p.Spec, placement.Target{In: []string{"h1"}})
			},
			func(p *gang.Pod) { p.Pins = []string{"h1"} },
		},
		"let go anywhere but on one": {
			func(p *corev1.Pod) { confine(&p.Spec, placement.Target{NotIn: []string{"h1"}}) },
			func(*gang.Pod) {},
		},
		"with tolerations": {
			func(p *corev1.Pod) {
				p.Spec.Tolerations = []corev1.Toleration{{Key: "gpu"}, {Key: "hold.lockstep.dev/llm-0123abcd"}}
			},
			func(p *gang.Pod) { p.Tolerates = []string{"hold.lockstep.dev/llm-0123abcd"} },
		},
		"without room": {
			func(p *corev1.Pod) {
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable"}}
			},
			func(p *gang.Pod) { p.Unschedulable = true },
		},
		"for which no node was tried": {
			func(p *corev1.Pod) {
				p.Status.Conditions = []corev1.PodCondition{{
					Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable",
					Message: "pod group is not ready, 1 Pending, 2 Running, 3 minAvailable; Pending: 1 Unschedulable",
				}}
			},
			func(p *gang.Pod) { p.Unschedulable, p.Untried = true, true },
		},
		"of a gang for which nodes were tried": {
			func(p *corev1.Pod) {
				p.Status.Conditions = []corev1.PodCondition{{
					Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable",
					Message: "pod group is not ready, 2 Pending, 1 Running, 3 minAvailable; Pending: 2 Unschedulable. Origin reason is llm-1-worker-0: 0/3 nodes are unavailable: 3 Insufficient nvidia.com/gpu.",
				}}
			},
			func(p *gang.Pod) { p.Unschedulable = true },
		},
		"not looked at yet": {
			func(p *corev1.Pod) {
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "SchedulingGated"}}
			},
			func(*gang.Pod) {},
		},
		"not ready": {
			func(p *corev1.Pod) {
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
			},
			func(*gang.Pod) {},
		},
		"gated": {
			func(p *corev1.Pod) {
				p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "lockstep.dev/placement"}}
			},
			func(p *gang.Pod) { p.Gated = true },
		},
		"behind another gate": {
			func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/other"}} },
			func(*gang.Pod) {},
		},
		"going": {
			func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: t0} },
			func(p *gang.Pod) { p.Deleting, p.GraceEnds = true, t0 },
		},
		"never lifted": {
			func(p *corev1.Pod) {
				delete(p.Annotations, "lockstep.dev/incarnation")
				delete(p.Annotations, "lockstep.dev/placed-time")
			},
			func(p *gang.Pod) { p.Incarnation, p.PlacedTime = 0, time.Time{} },
		},
		"disrupted": {
			func(p *corev1.Pod) {
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI"}}
			},
			func(p *gang.Pod) { p.Disrupted = "EvictionByEvictionAPI" },
		},
		"not disrupted after all": {
			func(p *corev1.Pod) {
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionFalse, Reason: "EvictionByEvictionAPI"}}
			},
			func(*gang.Pod) {},
		},
		"evicted": {
			func(p *corev1.Pod) {
				p.Status.Phase, p.Status.Reason, p.Status.Message = corev1.PodFailed, "Evicted", "low on memory"
			},
			func(p *gang.Pod) {
				p.Phase, p.Refused, p.Failure.Reason, p.Failure.Message = corev1.PodFailed, true, "Evicted", "low on memory"
			},
		},
		"the first to fail comes first": {
			func(p *corev1.Pod) {
				p.Status.ContainerStatuses = []corev1.ContainerStatus{bad("train", 1, 5), bad("sidecar", 2, 3), bad("fine", 0, 1)}
			},
			func(p *gang.Pod) {
				p.Failure.Containers = []gang.ContainerFailure{failed("sidecar", 2, 3), failed("train", 1, 5)}
				p.LastExit = &p.Failure.Containers[1]
			},
		},
		"an init container": {
			func(p *corev1.Pod) { p.Status.InitContainerStatuses = []corev1.ContainerStatus{bad("fetch", 4, 0)} },
			func(p *gang.Pod) {
				p.Failure.Containers = []gang.ContainerFailure{failed("fetch", 4, 0)}
				p.LastExit = &p.Failure.Containers[0]
			},
		},
		"restarted by its kubelet, and not ready": {
			func(p *corev1.Pod) { p.Status.ContainerStatuses = []corev1.ContainerStatus{again(false)} },
			func(p *gang.Pod) {
				p.Failure.Containers = []gang.ContainerFailure{failed("train", 137, 0)}
				p.LastExit = &p.Failure.Containers[0]
			},
		},
		"restarted by its kubelet, and ready again": {
			func(p *corev1.Pod) { p.Status.ContainerStatuses = []corev1.ContainerStatus{again(true)} },
			func(p *gang.Pod) { p.LastExit = new(failed("train", 137, 0)) },
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			pod := base()
			tc.change(pod)
			want := gang.Pod{
				Name: "llm-2-worker-7", UID: "u", Task: "worker", Index: 7, Attempt: 2, Node: "n1", Phase: corev1.PodRunning,
				Incarnation: 3, PlacedTime: t0.Add(500 * time.Millisecond),
			}
			tc.want(&want)
			want.Conditions = pod.Status.Conditions
			if diff := cmp.Diff(want, podOf(pod)); diff != "" {
				t.Errorf("pod (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNodeOf(t *testing.T) {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{corev1.LabelHostname: "host-1"}},
		Spec: corev1.NodeSpec{Unschedulable: true, Taints: []corev1.Taint{
			{Key: "hold.lockstep.dev/mine", Value: "100", Effect: corev1.TaintEffectNoSchedule},
			{Key: "hold.lockstep.dev/other", Value: "200", Effect: corev1.TaintEffectNoSchedule},
			{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute},
			{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule, TimeAdded: new(metav1.NewTime(t0))},
		}},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{gpu: resource.MustParse("8")}, Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeDiskPressure, Status: corev1.ConditionTrue},
			{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastTransitionTime: metav1.NewTime(t0)},
		}},
	}
	want := gang.Node{
		Name: "n1", Hostname: "host-1", Unschedulable: true, CordonedSince: t0, Hold: "100", OutOfService: true, SilentSince: t0,
		Allocatable: corev1.ResourceList{gpu: resource.MustParse("8")},
		Taints:      []corev1.Taint{{Key: "hold.lockstep.dev/other", Value: "200", Effect: corev1.TaintEffectNoSchedule}, node.Spec.Taints[3]},
	}
	if diff := cmp.Diff(want, nodeOf(node, "hold.lockstep.dev/mine")); diff != "" {
		t.Errorf("node (-want +got):\n%s", diff)
	}
	node.Status.Conditions[1].Status = corev1.ConditionFalse
	if n := nodeOf(node, ""); n.Ready || !n.SilentSince.IsZero() {
		t.Error("a node that says itself that it is not ready is not silent: its kubelet still confirms what ends there")
	}
	node.Status.Conditions[1].Status = corev1.ConditionTrue
	if !nodeOf(node, "").Ready {
		t.Error("not ready")
	}
	node.Spec.Unschedulable = false
	check.Equal(t, "cordoned, once it is not", false, nodeOf(node, "").Unschedulable)
	node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: "ToBeDeletedByClusterAutoscaler", Effect: corev1.TaintEffectNoSchedule})
	removed := nodeOf(node, "")
	check.Equal(t, "cordoned, where an autoscaler removes it", true, removed.Unschedulable)
	check.Equal(t, "asks again", 10*time.Second, removed.EvictionRetry)
	check.Equal(t, "its last taint", node.Spec.Taints[4], removed.Taints[len(removed.Taints)-1])
}

func TestTheStateOfAQueue(t *testing.T) {
	for state, want := range map[scheduling.QueueState]bool{
		"": false, scheduling.QueueStateOpen: false, scheduling.QueueStateClosing: true, scheduling.QueueStateClosed: true,
	} {
		e := newEnv(t, aJob())
		queue := &scheduling.Queue{}
		e.Must(e.API.Get(t.Context(), client.ObjectKey{Name: "research"}, queue))
		queue.Status.State = state
		e.Must(e.API.Update(t.Context(), queue))
		o, err := e.r.observe(t.Context(), e.job())
		e.Must(err)
		check.Equal(t, "closed in state "+string(state), want, o.QueueClosed)
		check.Equal(t, "missing", false, o.QueueMissing)
	}
}

// Volcano's webhook is not called for a job whose queue does not exist. A queue that Volcano opens wakes its jobs.
func TestAJobWithoutQueue(t *testing.T) {
	e := newEnv(t, aJob())
	e.Must(e.API.Delete(t.Context(), aQueue("research")))
	result, err := e.reconcile()
	e.Must(err)
	check.Equal(t, "looks again after", time.Duration(0), result.RequeueAfter)
	check.Equal(t, "state", v1alpha1.StateRefused, e.job().Status.State)
	check.Equal(t, "calls", []string{"update the status of *v1alpha1.TrainingJob llm"}, e.Calls)

	e.Must(e.API.Create(t.Context(), aQueue("research")))
	e.settle()
	check.Equal(t, "state, once there is the queue", v1alpha1.StateQueued, e.job().Status.State)
	opened := aQueue("research")
	opened.Status.State = scheduling.QueueStateOpen
	check.Equal(t, "its opening matters", true, stateMatters(aQueue("research"), opened))
	check.Equal(t, "anything else matters", false, stateMatters(opened, opened))
}

func TestPodsOfAnEarlierJobOfTheSameNameAreNotSeen(t *testing.T) {
	e := newEnv(t, aJob())
	e.settle()
	e.volcano(1)
	other := e.pod("llm-1-worker-1")
	other.Labels["lockstep.dev/job-uid"] = "99999999-0000-4000-8000-000000000000"
	e.Must(e.API.Update(t.Context(), other))
	e.settle()
	check.Equal(t, "gates of its own pod", 0, len(e.pod("llm-1-worker-0").Spec.SchedulingGates))
	check.Equal(t, "gates of the other", 1, len(e.pod("llm-1-worker-1").Spec.SchedulingGates))
}
