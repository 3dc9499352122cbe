package controllers

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/test/check"
)

func TestObservesTheYoungerJobsThatLookForRoom(t *testing.T) {
	other := aJob()
	other.Name, other.UID = "moe", "4567abcd-0000-4000-8000-000000000000"
	hold := corev1.Taint{Key: policies.HoldKey(other), Value: v1alpha1.HoldStanding, Effect: corev1.TaintEffectNoSchedule}
	tests := map[string]struct {
		change func(e *env, other *v1alpha1.TrainingJob, pod *corev1.Pod)
		want   []gang.YoungerHold
	}{
		"one": {func(*env, *v1alpha1.TrainingJob, *corev1.Pod) {}, []gang.YoungerHold{{Key: hold.Key, Since: t0.Add(-time.Minute)}}},
		"not one that is older": {func(_ *env, other *v1alpha1.TrainingJob, _ *corev1.Pod) {
			other.CreationTimestamp = metav1.NewTime(t0.Add(-2 * time.Hour))
		}, nil},
		"nor one whose pods all have nodes": {func(_ *env, _ *v1alpha1.TrainingJob, pod *corev1.Pod) { pod.Spec.NodeName = "n4" }, nil},
		"nor while no pod of the job itself looks for one": {func(e *env, _ *v1alpha1.TrainingJob, _ *corev1.Pod) {
			e.run("llm-1-worker-0", "n0")
			e.run("llm-1-worker-1", "n1")
		}, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			job := aJob()
			job.CreationTimestamp = metav1.NewTime(t0.Add(-time.Hour))
			e := newEnv(t, job)
			e.settle()
			e.volcano(1)
			e.settle()
			e.run("llm-1-worker-0", "n0")
			second := other.DeepCopy()
			second.CreationTimestamp = metav1.NewTime(t0)
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: key.Namespace, Name: "moe-1-worker-0", UID: types.UID("moe-pod"),
					Labels:      map[string]string{v1alpha1.LabelJob: other.Name, v1alpha1.LabelUID: string(other.UID)},
					Annotations: map[string]string{v1alpha1.AnnotationPlacedTime: t0.Add(-time.Minute).Format(time.RFC3339Nano)},
				},
				Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{
					Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
				}}},
			}
			tc.change(e, second, pod)
			e.Must(e.API.Create(t.Context(), second))
			e.Must(e.API.Create(t.Context(), pod))
			e.taint("n0", hold)
			o, err := e.r.observe(t.Context(), e.job())
			e.Must(err)
			check.Equal(t, "younger", tc.want, o.Younger)
		})
	}
}

func TestObservesWhichNodesTrainingJobsUse(t *testing.T) {
	e := running(t)
	pod := func(name, node string, phase corev1.PodPhase) {
		e.Must(e.API.Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: name, Labels: map[string]string{v1alpha1.LabelJob: "moe"}},
			Spec:       corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: phase},
		}))
	}
	pod("moe-1-worker-0", "n2", corev1.PodRunning)
	pod("moe-1-worker-1", "n3", corev1.PodSucceeded)
	for _, n := range []string{"n2", "n3"} {
		e.taint(n, corev1.Taint{Key: policies.HoldKey(e.job()), Value: v1alpha1.HoldStanding}) // so that they are looked at
	}
	inUse := func() map[string]bool {
		o, err := e.r.observe(t.Context(), e.job())
		e.Must(err)
		out := map[string]bool{}
		for name, n := range o.Nodes {
			out[name] = n.InUse
		}
		return out
	}
	check.Equal(t, "with nothing to place", map[string]bool{"n0": false, "n1": false, "n2": false, "n3": false}, inUse())
	e.crash("llm-1-worker-1")
	e.Must(e.API.Delete(t.Context(), e.pod("llm-1-worker-1")))
	e.volcano(1)
	used := inUse()
	check.Equal(t, "used", true, used["n2"])
	check.Equal(t, "not any more", false, used["n3"])
	check.Equal(t, "by a rank, which is known", false, used["n0"])
}

// What other jobs of the queue hold counts where that is limited.
func TestObservesWhatTheQueueHolds(t *testing.T) {
	holder := func(name, queue string, holds int) *v1alpha1.TrainingJob {
		job := aJob()
		job.Name, job.UID, job.Spec.Queue = name, types.UID(name), queue
		job.Status.Holds = make([]v1alpha1.NodeHold, holds)
		return job
	}
	job, over := holder(key.Name, "research", 7), holder("over", "research", 5)
	over.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionCompleted, Status: metav1.ConditionTrue}}
	e := newEnv(t, job, over, holder("one", "research", 2), holder("two", "research", 1), holder("elsewhere", "other", 4))
	for limit, want := range map[int]int{0: 0, 1: 3} {
		e.r.HoldLimits.MaxPerQueue = limit
		o, err := e.r.observe(t.Context(), e.job())
		e.Must(err)
		check.Equal(t, "held", want, o.HeldInQueue)
	}
}

// A pod that tolerates every taint enters no node that another job holds, neither at the first start nor at home.
func TestHoldsKeepWhatToleratesEverythingAway(t *testing.T) {
	job := aJob()
	job.Spec.Tasks[0].Template.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	hold := corev1.Taint{Key: v1alpha1.HoldTaintPrefix + "other-4567", Value: v1alpha1.HoldStanding, Effect: corev1.TaintEffectNoSchedule}
	e := newEnv(t, job)
	e.taint("n2", hold)
	e.settle()
	e.volcano(1)
	e.settle()
	at := func() corev1.NodeSelectorRequirement {
		return e.pod("llm-1-worker-1").Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchExpressions[0]
	}
	check.Equal(t, "at the first start", corev1.NodeSelectorRequirement{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpNotIn, Values: []string{"host-n2"}}, at())

	e.run("llm-1-worker-0", "n0")
	e.run("llm-1-worker-1", "n1")
	e.settle()
	e.Must(e.API.Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}))
	e.r.topology.Invalidate()
	e.settle()
	e.Must(client.IgnoreNotFound(e.API.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "llm-1-worker-1"}})))
	e.volcano(1)
	e.settle()
	check.Equal(t, "at home", []string{"host-n0"}, at().Values)
}

func TestRequestsOf(t *testing.T) {
	job := aJob()
	job.Spec.Tasks[0].Template.Spec.Containers = append(job.Spec.Tasks[0].Template.Spec.Containers, corev1.Container{
		Name: "limited", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{gpu: resource.MustParse("8"), corev1.ResourceCPU: resource.MustParse("2")}},
	})
	requests := requestsOf(job)["worker"]
	for name, want := range map[corev1.ResourceName]int64{corev1.ResourceCPU: 6, gpu: 8} {
		quantity := requests[name]
		check.Equal(t, string(name), want, quantity.Value())
	}
	check.Equal(t, "job", true, job.Spec.Tasks[0].Template.Spec.Containers[1].Resources.Requests == nil)
}
