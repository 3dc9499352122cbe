package controllers

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/controllers/nvsentinel"
	"github.com/lockstep-dev/lockstep/test/check"
	"github.com/lockstep-dev/lockstep/test/fakeapi"
)

// What the cache drops is nothing that a decision reads.
func TestTrimming(t *testing.T) {
	e := running(t)
	e.crash("llm-1-worker-1")
	pod := e.pod("llm-1-worker-1")
	before := podOf(pod)
	trimmed, err := trimPod(nil)(pod.DeepCopy())
	e.Must(err)
	if diff := cmp.Diff(before, podOf(trimmed.(*corev1.Pod))); diff != "" {
		t.Errorf("pod (-whole +trimmed):\n%s", diff)
	}
	if len(trimmed.(*corev1.Pod).Spec.Containers) > 0 {
		t.Error("the containers are kept")
	}
	node := fakeapi.Node("n1")
	node.Spec.Taints = []corev1.Taint{{Key: holdKeyOfJob, Value: "1"}}
	node.Spec.Unschedulable = true
	node.Annotations = map[string]string{"a": "b", nvsentinel.AnnotationCordoned: "True"}
	node.Status.Images = []corev1.ContainerImage{{SizeBytes: 1}}
	small, err := trimNode(node.DeepCopy())
	e.Must(err)
	if diff := cmp.Diff(nodeOf(node, holdKeyOfJob), nodeOf(small.(*corev1.Node), holdKeyOfJob)); diff != "" {
		t.Errorf("node (-whole +trimmed):\n%s", diff)
	}
	if n := small.(*corev1.Node); len(n.Annotations) != 1 || len(n.Status.Images) > 0 {
		t.Error("the images, or other annotations, are kept")
	}
}

// A template may make its pods as large as the API server allows.
func TestWhatATemplateAddsIsNotKept(t *testing.T) {
	long := strings.Repeat("x", 200_000)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Labels:      map[string]string{"example.com/" + long: "x", v1alpha1.LabelJob: "llm"},
			Annotations: map[string]string{"example.com/x": long, batch.TaskIndex: "7", v1alpha1.AnnotationPlacedTime: "now"},
		},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: long}}, InitContainers: []corev1.Container{{Name: long}}, Volumes: []corev1.Volume{{Name: long}},
			EphemeralContainers:       []corev1.EphemeralContainer{{TargetContainerName: long}},
			TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{TopologyKey: long}},
			HostAliases:               []corev1.HostAlias{{IP: long}}, ImagePullSecrets: []corev1.LocalObjectReference{{Name: long}},
			ResourceClaims: []corev1.PodResourceClaim{{Name: long}}, ReadinessGates: []corev1.PodReadinessGate{{ConditionType: corev1.PodConditionType(long)}},
		},
	}
	trimmed, err := trimPod(nil)(pod)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(trimmed)
	if err != nil {
		t.Fatal(err)
	}
	if len(raw) > 1000 {
		t.Errorf("%d bytes are kept", len(raw))
	}
	check.Equal(t, "labels", map[string]string{v1alpha1.LabelJob: "llm"}, pod.Labels)
	check.Equal(t, "annotations", map[string]string{batch.TaskIndex: "7", v1alpha1.AnnotationPlacedTime: "now"}, pod.Annotations)
}

// Of what a pod requests the cache keeps what decides about holds, as its kubelet has allocated it.
func TestWhatAPodRequestsIsKept(t *testing.T) {
	list := func(cpu, gpus string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), gpu: resource.MustParse(gpus)}
	}
	more := list("4", "8")
	more[corev1.ResourceMemory] = resource.MustParse("1Gi")
	resized := corev1.ContainerStatus{Name: "train", AllocatedResources: list("2", "8"), Resources: &corev1.ResourceRequirements{Requests: list("3", "8")}}
	for name, tc := range map[string]struct {
		requests corev1.ResourceList
		statuses []corev1.ContainerStatus
		deciding []corev1.ResourceName
		want     corev1.ResourceList
	}{
		"cpu alone":           {more, nil, nil, corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}},
		"GPUs, too":           {more, nil, []corev1.ResourceName{gpu}, list("4", "8")},
		"nothing":             {nil, nil, []corev1.ResourceName{gpu}, corev1.ResourceList{}},
		"one that is resized": {list("1m", "8"), []corev1.ContainerStatus{resized}, []corev1.ResourceName{gpu}, list("3", "8")},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{}
			pod.Spec.Containers = []corev1.Container{{Name: "train", Resources: corev1.ResourceRequirements{Requests: tc.requests}}}
			pod.Status.ContainerStatuses = tc.statuses
			for _, what := range []string{"trimmed", "trimmed twice"} {
				_, err := trimPod(tc.deciding)(pod)
				if err != nil {
					t.Fatal(err)
				}
				got := effectiveRequests(pod)
				check.Equal(t, what, true, equality.Semantic.DeepEqual(tc.want, got))
			}
		})
	}
}

// Only a pod that Volcano has made for the job requests something for it.
func TestRequestsOfPods(t *testing.T) {
	volcano := func(apiVersion, kind, name string, controls bool) []metav1.OwnerReference {
		return []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: name, Controller: &controls}}
	}
	for name, tc := range map[string]struct {
		owners []metav1.OwnerReference
		counts bool
	}{
		"Volcano's":              {volcano("batch.volcano.sh/v1alpha1", "Job", "llm-1", true), true},
		"of nobody":              {nil, false},
		"of another job":         {volcano("batch.volcano.sh/v1alpha1", "Job", "other-1", true), false},
		"of another attempt":     {volcano("batch.volcano.sh/v1alpha1", "Job", "llm-2", true), false},
		"of a Job of Kubernetes": {volcano("batch/v1", "Job", "llm-1", true), false},
		"of another kind":        {volcano("batch.volcano.sh/v1alpha1", "JobFlow", "llm-1", true), false},
		"owned, not controlled":  {volcano("batch.volcano.sh/v1alpha1", "Job", "llm-1", false), false},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha1.LabelAttempt: "1"}, OwnerReferences: tc.owners}}
			pod.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{gpu: resource.MustParse("8")}}}}
			requests := requestsOfPod(pod, aJob())
			check.Equal(t, "is known", true, requests != nil)
			_, counts := requests[gpu]
			check.Equal(t, "counts", tc.counts, counts)
		})
	}
}

// What the cache drops of a pod stays on the pod when its gate is lifted.
func TestATrimmedPodIsPatchedAsAWhole(t *testing.T) {
	e := newEnv(t, aJob())
	e.settle()
	e.volcano(1)
	pod := e.pod("llm-1-worker-0")
	pod.Labels["example.com/a"], pod.Annotations["example.com/b"] = "a", "b"
	e.Must(e.API.Update(t.Context(), pod))
	e.restart(interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
		if err := c.Get(ctx, key, obj, opts...); err != nil {
			return err
		}
		_, err := trimPod(nil)(obj)
		return err
	}})
	e.settle()
	pod = e.pod("llm-1-worker-0")
	check.Equal(t, "gated", false, gated(pod))
	check.Equal(t, "label and annotation", "ab", pod.Labels["example.com/a"]+pod.Annotations["example.com/b"])
	check.Equal(t, "containers", 1, len(pod.Spec.Containers))
}

func TestNodeChanges(t *testing.T) {
	tests := map[string]struct {
		change func(*corev1.Node)
		want   bool
		moved  bool // the topology is read again
	}{
		"a heartbeat":    {func(n *corev1.Node) { n.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(t0) }, false, false},
		"not ready":      {func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }, true, false},
		"cordoned":       {func(n *corev1.Node) { n.Spec.Unschedulable = true }, true, false},
		"held":           {func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: holdKeyOfJob, Value: "1"}} }, true, false},
		"out of service": {func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService}} }, true, false},
		"deleted":        {func(n *corev1.Node) { n.DeletionTimestamp = new(metav1.NewTime(t0)) }, true, false},
		"another rack":   {func(n *corev1.Node) { n.Labels = map[string]string{"rack": "b"} }, true, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			before, err := e.r.topology.Get(t.Context(), e.API)
			e.Must(err)
			after := fakeapi.Node("n1")
			tc.change(after)
			got := e.r.topology.Following(nodeMatters).Update(event.UpdateEvent{ObjectOld: fakeapi.Node("n1"), ObjectNew: after})
			check.Equal(t, "lets it through", tc.want, got)
			again, err := e.r.topology.Get(t.Context(), e.API)
			e.Must(err)
			check.Equal(t, "topology is read again", tc.moved, again != before)
		})
	}
}

func TestWhichJobsANodeConcerns(t *testing.T) {
	e := running(t)
	request := []reconcile.Request{{NamespacedName: key}}
	check.Equal(t, "its own node", request, e.r.jobsOn(t.Context(), fakeapi.Node("n1")))
	check.Equal(t, "another node", nil, e.r.jobsOn(t.Context(), fakeapi.Node("n5")))
	check.Equal(t, "a HyperNode", request, e.r.jobsAt(t.Context(), fakeapi.Node("x")))
	job := e.job()
	job.Status.ExcludedNodes = []v1alpha1.ExcludedNode{{Name: "n6", Until: metav1.NewTime(t0.Add(time.Hour)), Cause: v1alpha1.NodeCordoned}}
	e.Must(e.API.Status().Update(t.Context(), job))
	check.Equal(t, "one that it keeps away from", request, e.r.jobsOn(t.Context(), fakeapi.Node("n6")))
	e.crash("llm-1-worker-1")
	e.settle()
	check.Equal(t, "another node, while it looks for room", request, e.r.jobsOn(t.Context(), fakeapi.Node("n5")))
	check.Equal(t, "a HealthPolicy", request, e.r.jobsThatMove(t.Context(), nil))
	check.Equal(t, "its queue", request, e.r.jobsOfQueue(t.Context(), aQueue("research")))
	check.Equal(t, "another queue", nil, e.r.jobsOfQueue(t.Context(), aQueue("other")))
	check.Equal(t, "a pod", request, jobOf(t.Context(), e.pod("llm-1-worker-0")))
	check.Equal(t, "somebody's pod", nil, jobOf(t.Context(), &corev1.Pod{}))
}

// Everybody fails: the Volcano Job ends, and the next attempt is let in at once.
func TestANewAttemptKeepsItsPlaceInTheQueue(t *testing.T) {
	e := running(t)
	e.crash("llm-1-worker-0")
	e.crash("llm-1-worker-1")
	v := &batch.Job{}
	e.Must(e.API.Get(t.Context(), types.NamespacedName{Namespace: key.Namespace, Name: "llm-1"}, v))
	v.Status.State.Phase = batch.Failed
	e.Must(e.API.Update(t.Context(), v))
	e.settle()
	check.Equal(t, "attempt", int32(2), e.job().Status.Attempt)
	check.Equal(t, "the old one is gone", true, client.IgnoreNotFound(e.API.Get(t.Context(), client.ObjectKeyFromObject(v), v)) == nil)

	e.volcano(2)
	pg := &scheduling.PodGroup{}
	e.Must(e.API.Get(t.Context(), types.NamespacedName{Namespace: key.Namespace, Name: "llm-2-"}, pg))
	pg.Status.Phase = scheduling.PodGroupPending
	e.Must(e.API.Update(t.Context(), pg))
	e.settle()
	e.Must(e.API.Get(t.Context(), client.ObjectKeyFromObject(pg), pg))
	check.Equal(t, "phase", scheduling.PodGroupInqueue, pg.Status.Phase)
	check.Equal(t, "resumes", "true", e.pod("llm-2-worker-0").Annotations["lockstep.dev/resume"])
}
