package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/test/check"
	"github.com/lockstep-dev/lockstep/test/fakeapi"
)

const gpu = corev1.ResourceName("nvidia.com/gpu")

// returning is a job of two new pods of 4 GPUs each, without gates, that return to n0 and n1, which the job holds.
func returning(t *testing.T) *env {
	t.Helper()
	job := aJob()
	job.Spec.Tasks[0].Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{gpu: resource.MustParse("4")}
	e := newEnv(t, job)
	e.settle()
	e.volcano(1)
	e.settle()
	for _, node := range []string{"n0", "n1"} {
		e.changeNode(node, func(n *corev1.Node) {
			n.Status.Allocatable = corev1.ResourceList{gpu: resource.MustParse("8"), corev1.ResourcePods: resource.MustParse("110")}
		})
		e.taint(node, corev1.Taint{Key: policies.HoldKey(job), Value: v1alpha1.HoldStanding, Effect: corev1.TaintEffectNoSchedule})
	}
	e.Calls = nil
	return e
}

func (e *env) changeNode(name string, change func(*corev1.Node)) {
	e.T.Helper()
	node := &corev1.Node{}
	e.Must(e.API.Get(e.T.Context(), types.NamespacedName{Name: name}, node))
	change(node)
	status := node.Status
	e.Must(e.API.Update(e.T.Context(), node))
	node.Status = status
	e.Must(e.API.Status().Update(e.T.Context(), node))
}

// foreign puts a pod of another system on a node.
func (e *env) foreign(node string, gpus string, change ...func(*corev1.Pod)) {
	e.T.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "on-" + node}, Spec: corev1.PodSpec{
		NodeName: node, Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{gpu: resource.MustParse(gpus)}}}},
	}}
	for _, f := range change {
		f(pod)
	}
	e.Must(e.API.Create(e.T.Context(), pod))
}

func (e *env) changePod(name string, change func(*corev1.Pod)) {
	e.T.Helper()
	pod := e.pod(name)
	change(pod)
	e.Must(e.API.Update(e.T.Context(), pod))
}

// bindAll has the pods bound to their nodes, and returns where they are then. The named ones are early.
func (e *env) bindAll(least int, early ...string) (map[string]string, error) {
	e.T.Helper()
	a := actor{TrainingJobReconciler: e.r, job: e.job()}
	b := policies.Bindings{Min: least}
	for i := range 2 {
		pod := e.pod(fmt.Sprintf("llm-1-worker-%d", i))
		b.Pods = append(b.Pods, policies.Binding{Pod: pod.Name, UID: string(pod.UID), Node: fmt.Sprintf("n%d", i), Early: slices.Contains(early, pod.Name)})
	}
	err := a.bind(e.T.Context(), b)
	nodes := map[string]string{}
	for _, binding := range b.Pods {
		if pod := e.pod(binding.Pod); pod.Spec.NodeName != "" {
			nodes[pod.Name] = pod.Spec.NodeName
		}
	}
	return nodes, err
}

const first, second = "llm-1-worker-0", "llm-1-worker-1"

// What happens between the decision and the binding, and what a pod may need that only the scheduler gives it.
func TestBindingLooksFirst(t *testing.T) {
	change := func(f func(*corev1.Pod)) func(*env) { return func(e *env) { e.changePod(second, f) } }
	node := func(f func(*corev1.Node)) func(*env) { return func(e *env) { e.changeNode("n1", f) } }
	tests := map[string]struct {
		story func(*env)
		bound bool // the second pod; the first one is always
	}{
		"nothing":                               {func(*env) {}, true},
		"a foreign pod took a part of the room": {func(e *env) { e.foreign("n1", "4") }, true},
		"a foreign pod took the room":           {func(e *env) { e.foreign("n1", "5") }, false},
		"a foreign pod that has ended":          {func(e *env) { e.foreign("n1", "8", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }) }, true},
		"the node has lost its GPUs":            {node(func(n *corev1.Node) { delete(n.Status.Allocatable, gpu) }), false},
		"the node has no room for a pod":        {node(func(n *corev1.Node) { n.Status.Allocatable[corev1.ResourcePods] = resource.MustParse("0") }), false},
		"the node was cordoned":                 {node(func(n *corev1.Node) { n.Spec.Unschedulable = true }), false},
		"the node is not ready":                 {node(func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionFalse }), false},
		"the node was tainted":                  {func(e *env) { e.taint("n1", corev1.Taint{Key: "maintenance", Effect: corev1.TaintEffectNoSchedule}) }, false},
		"another job holds what it had there": {func(e *env) {
			e.taint("n1", corev1.Taint{Key: v1alpha1.HoldTaintPrefix + "other", Value: v1alpha1.HoldStanding, Effect: corev1.TaintEffectNoSchedule})
		}, true},
		"the hold has ended":                   {node(func(n *corev1.Node) { n.Spec.Taints = nil }), false},
		"the node is gone":                     {func(e *env) { e.Must(e.API.Delete(e.T.Context(), fakeapi.Node("n1"))) }, false},
		"the pod's affinity excludes the node": {change(func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"zone": "z"} }), false},
		"the pod has another gate":             {change(func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "quota"}} }), false},
		"the pod has our gate": {change(func(p *corev1.Pod) {
			p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: v1alpha1.PlacementGate}}
		}), false},
		"another scheduler's pod":     {change(func(p *corev1.Pod) { p.Spec.SchedulerName = "other" }), false},
		"a pod with a resource claim": {change(func(p *corev1.Pod) { p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpus"}} }), false},
		"a pod with a share of a device": {change(func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests["volcano.sh/vgpu-number"] = resource.MustParse("1")
		}), false},
		"a pod with a NUMA policy":              {change(func(p *corev1.Pod) { p.Annotations["volcano.sh/numa-topology-policy"] = "single-numa-node" }), false},
		"a pod with an ephemeral volume claim":  {change(withVolume(corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}})), false},
		"a pod whose claim is gone":             {change(withClaim("none")), false},
		"a pod whose claim is not bound":        {withStorage(corev1.ClaimPending, corev1.ReadWriteMany, ""), false},
		"a pod whose claim is bound":            {withStorage(corev1.ClaimBound, corev1.ReadWriteMany, ""), true},
		"a pod whose claim is for one pod":      {withStorage(corev1.ClaimBound, corev1.ReadWriteOncePod, ""), false},
		"a pod whose volume is on its node":     {withStorage(corev1.ClaimBound, corev1.ReadWriteOnce, "host-n1"), true},
		"a pod whose volume is on another node": {withStorage(corev1.ClaimBound, corev1.ReadWriteOnce, "host-n5"), false},
		"a host port that is taken": {func(e *env) {
			port := func(p *corev1.Pod) {
				p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 29500, Protocol: corev1.ProtocolTCP}}
			}
			e.changePod(second, port)
			e.foreign("n1", "1", port)
		}, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			e := returning(t)
			tc.story(e)
			want := map[string]string{first: "n0"}
			if tc.bound {
				want[second] = "n1"
			}
			nodes, err := e.bindAll(0)
			e.Must(err)
			check.Equal(t, "nodes", want, nodes)
		})
	}
}

// A pod whose node may have been seen free is bound where the scheduler has no pod of others that it could bind there.
func TestEarlyBindingsWaitForOthersPods(t *testing.T) {
	waits := func(change func(*corev1.Pod)) func(*env) {
		return func(e *env) { e.foreign("", "1", change) }
	}
	both := map[string]string{first: "n0", second: "n1"}
	tests := map[string]struct {
		story func(*env)
		min   int
		early []string
		want  map[string]string
	}{
		"no other pods wait":                      {func(*env) {}, 2, []string{second}, both},
		"one waits":                               {waits(func(*corev1.Pod) {}), 2, []string{second}, map[string]string{first: "n0"}},
		"one waits, and all are early":            {waits(func(*corev1.Pod) {}), 2, []string{first, second}, nil},
		"one waits, and none is early":            {waits(func(*corev1.Pod) {}), 2, nil, both},
		"one waits behind a gate":                 {waits(func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "quota"}} }), 2, []string{second}, both},
		"one has a node":                          {func(e *env) { e.foreign("n1", "1") }, 2, []string{second}, both},
		"one is bound to the node meanwhile":      {func(e *env) { e.foreign("n1", "5") }, 1, []string{second}, map[string]string{first: "n0"}},
		"more wait behind gates than can be read": {manyWait, 2, []string{second}, map[string]string{first: "n0"}},
		"pods of the gang come":                   {func(e *env) { e.gangPods(2*maxUnassigned, true) }, 2, []string{second}, both},
		"one of the gang waits":                   {func(e *env) { e.gangPods(1, false) }, 2, []string{second}, map[string]string{first: "n0"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			e := returning(t)
			tc.story(e)
			nodes, err := e.bindAll(tc.min, tc.early...)
			e.Must(err)
			check.Equal(t, "nodes", tc.want, nodes)
		})
	}
}

// manyWait has the list of pods without a node cut off.
func manyWait(e *env) { e.cutLists(func(int, int64) bool { return true }) }

// cutLists has lists with a limit of the API server continue where they are to be, by their length and the limit.
func (e *env) cutLists(at func(length int, limit int64) bool) {
	e.r.Live = interceptor.NewClient(e.API, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		err := c.List(ctx, list, opts...)
		if o := (&client.ListOptions{}).ApplyOptions(opts); o.Limit > 0 && at(apimeta.LenList(list), o.Limit) {
			list.SetContinue("more")
		}
		return err
	}})
}

// gangPods are further pods of the job, without a node. Lists are cut where they have more than they may.
func (e *env) gangPods(n int, gated bool) {
	job := e.job()
	job.Spec.Tasks[0].Replicas += int32(n)
	e.Must(e.API.Update(e.T.Context(), job))
	for i := range n {
		pod := e.pod(second)
		pod.Name, pod.UID, pod.ResourceVersion = fmt.Sprintf("llm-1-worker-%d", 2+i), types.UID(fmt.Sprint("more-", i)), ""
		if gated {
			pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: v1alpha1.PlacementGate}}
		}
		e.Must(e.API.Create(e.T.Context(), pod))
	}
	e.cutLists(func(length int, limit int64) bool { return int64(length) > limit })
}

// A spare has no volumes, so that its node may have no room for those of the rank that gets it.
func TestVolumesThatCountOnANodeAreLeftToTheSchedulerWhereThereAreSpares(t *testing.T) {
	csi := corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "disks", VolumeHandle: "1"}}
	tests := map[string]struct {
		spares *int32
		source corev1.PersistentVolumeSource
		bound  bool
	}{
		"of a CSI driver, without spares": {nil, csi, true},
		"of a CSI driver, with spares":    {new(int32(1)), csi, false},
		"of a file server, with spares":   {new(int32(1)), corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "files", Path: "/"}}, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			e := returning(t)
			job := e.job()
			job.Spec.Tasks[0].Spares = tc.spares
			e.Must(e.API.Update(t.Context(), job))
			withStorage(corev1.ClaimBound, corev1.ReadWriteMany, "")(e)
			volume := &corev1.PersistentVolume{}
			e.Must(e.API.Get(t.Context(), types.NamespacedName{Name: "pv"}, volume))
			volume.Spec.PersistentVolumeSource = tc.source
			e.Must(e.API.Update(t.Context(), volume))
			nodes, err := e.bindAll(0)
			e.Must(err)
			check.Equal(t, "is bound", tc.bound, nodes[second] == "n1")
		})
	}
}

// A gang of which no pod is bound is bound as a whole.
func TestAGangIsBoundAsAWhole(t *testing.T) {
	e := returning(t)
	e.foreign("n1", "5")
	nodes, err := e.bindAll(2)
	e.Must(err)
	check.Equal(t, "nodes, where one pod does not fit", nil, nodes)

	e = returning(t)
	nodes, err = e.bindAll(2)
	e.Must(err)
	check.Equal(t, "nodes, where both do", map[string]string{first: "n0", second: "n1"}, nodes)
}

// A pod of the gang that the scheduler has bound meanwhile counts: the others are bound beside it.
func TestAPodThatIsBoundCountsForItsGang(t *testing.T) {
	e := returning(t)
	e.foreign("n1", "5")
	e.changePod(second, func(p *corev1.Pod) { p.Spec.NodeName = "n1" })
	nodes, err := e.bindAll(2)
	e.Must(err)
	check.Equal(t, "nodes", map[string]string{first: "n0", second: "n1"}, nodes)
}

// The cache shows for a while that a pod has no node which this process has bound.
func TestAPodIsBoundOnce(t *testing.T) {
	e := returning(t)
	behind := true
	e.restart(interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		err := c.List(ctx, list, opts...)
		if pods, ok := list.(*corev1.PodList); ok && behind {
			for i := range pods.Items {
				pods.Items[i].Spec.NodeName = ""
				pods.Items[i].Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: v1alpha1.PlacementGate}}
			}
		}
		return err
	}})
	_, err := e.bindAll(2)
	e.Must(err)
	o, err := e.r.observe(t.Context(), e.job())
	e.Must(err)
	for i, p := range o.Pods {
		check.Equal(t, p.Name+" is on", fmt.Sprintf("n%d", i), p.Node)
		check.Equal(t, p.Name+" is gated", false, p.Gated)
		check.Equal(t, p.Name+" was bound", t0, p.BoundTime)
	}
	behind = false
	_, err = e.r.observe(t.Context(), e.job())
	e.Must(err)
	check.Equal(t, "remembered, once the cache shows it", 0, len(e.r.memories.of(key).bound.byUID))
}

// Two pods that return to one node need room for both.
func TestPodsThatReturnToOneNodeFitTogether(t *testing.T) {
	e := returning(t)
	e.foreign("n0", "2")
	a := actor{TrainingJobReconciler: e.r, job: e.job()}
	var b policies.Bindings
	for _, name := range []string{first, second} {
		b.Pods = append(b.Pods, policies.Binding{Pod: name, UID: string(e.pod(name).UID), Node: "n0"})
	}
	e.Must(a.bind(t.Context(), b))
	check.Equal(t, "nodes", []string{"n0", ""}, []string{e.pod(first).Spec.NodeName, e.pod(second).Spec.NodeName})
}

// A pod is tried once: what the API server refuses is left to the scheduler, and what it could not answer is not.
func TestAPodIsTriedOnce(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	tests := map[string]struct {
		answer error
		tried  bool
	}{
		"Volcano has bound it first":          {apierrors.NewConflict(pods, second, errors.New("already assigned")), true},
		"it is gone":                          {apierrors.NewNotFound(pods, second), true},
		"the manager may not":                 {apierrors.NewForbidden(pods, second, errors.New("no right")), true},
		"the API server does not answer now":  {apierrors.NewServiceUnavailable("later"), false},
		"the answer is lost":                  {context.DeadlineExceeded, false},
		"the API server has too much to do":   {apierrors.NewTooManyRequests("later", 1), false},
		"an admission webhook is not reached": {apierrors.NewInternalError(errors.New("no webhook")), false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			e := returning(t)
			e.restart(interceptor.Funcs{SubResourceCreate: func(ctx context.Context, c client.Client, sub string, obj, of client.Object, opts ...client.SubResourceCreateOption) error {
				if obj.GetName() == second {
					return tc.answer
				}
				return c.SubResource(sub).Create(ctx, obj, of, opts...)
			}})
			nodes, err := e.bindAll(0)
			check.Equal(t, "nodes", map[string]string{first: "n0"}, nodes)
			check.Equal(t, "is an error, so that it is tried again", !tc.tried, err != nil)
			o, err := e.r.observe(t.Context(), e.job())
			e.Must(err)
			for _, p := range o.Pods {
				check.Equal(t, p.Name+" was tried", tc.tried && p.Name == second, p.BindingTried)
			}
		})
	}
}

// A manager that ended after it had lifted the gates, and before it bound the pods, binds them when it is back; the
// hold is told from the taint.
func TestAnotherProcessBindsWhatWasLifted(t *testing.T) {
	e := running(t)
	job := e.job()
	job.Spec.Hold = &v1alpha1.Hold{Policy: v1alpha1.HoldAlways}
	e.Must(e.API.Update(t.Context(), job))
	for _, node := range []string{"n0", "n1"} {
		e.changeNode(node, func(n *corev1.Node) {
			n.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourcePods: resource.MustParse("110")}
		})
	}
	e.settle()
	e.Must(e.API.Delete(t.Context(), e.pod(second)))
	e.settle()
	e.volcano(1)
	e.r.DirectBinding = nil
	e.settle()
	check.Equal(t, "the gate is closed", false, gated(e.pod(second)))
	check.Equal(t, "node before", "", e.pod(second).Spec.NodeName)

	e.restart(interceptor.Funcs{})
	e.r.DirectBinding = &DirectBinding{Version: "v1.14.1"}
	e.Clock.SetTime(t0.Add(10 * time.Second)) // the fake API server gives pods no time of creation
	e.settle()
	check.Equal(t, "node", "n1", e.pod(second).Spec.NodeName)
}

// A leader that was deposed between its last look and the binding does no harm: what its successor has bound stays where
// it is, and a pod that its successor has replaced is not bound to the place of the one before.
func TestADeposedLeaderBindsNothingTwice(t *testing.T) {
	tests := map[string]struct {
		successor func(e *env, successor *actor, b policies.Bindings)
		node      string
	}{
		"its successor has bound the pod": {func(e *env, successor *actor, b policies.Bindings) {
			e.Must(successor.bind(e.T.Context(), b))
		}, "n1"},
		"its successor has replaced the pod": {func(e *env, _ *actor, _ policies.Bindings) {
			pod := e.pod(second)
			e.Must(e.API.Delete(e.T.Context(), pod))
			pod.UID, pod.ResourceVersion = "another", ""
			e.Must(e.API.Create(e.T.Context(), pod))
		}, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			e := returning(t)
			b := policies.Bindings{Pods: []policies.Binding{{Pod: second, UID: string(e.pod(second).UID), Node: "n1"}}}
			successor := &actor{TrainingJobReconciler: e.r, job: e.job()}
			e.restart(interceptor.Funcs{SubResourceCreate: func(ctx context.Context, c client.Client, sub string, obj, of client.Object, opts ...client.SubResourceCreateOption) error {
				tc.successor(e, successor, b)
				return c.SubResource(sub).Create(ctx, obj, of, opts...)
			}})
			deposed := &actor{TrainingJobReconciler: e.r, job: e.job()}
			e.Must(deposed.bind(t.Context(), b))
			check.Equal(t, "node", tc.node, e.pod(second).Spec.NodeName)
			has(t, e.Calls, "create the binding of *v1.Pod "+second)
		})
	}
}

func withVolume(source corev1.VolumeSource) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: source}} }
}

func withClaim(name string) func(*corev1.Pod) {
	return withVolume(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}})
}

// withStorage gives the second pod a claim, of a volume that is only on one host where that is given.
func withStorage(phase corev1.PersistentVolumeClaimPhase, mode corev1.PersistentVolumeAccessMode, host string) func(*env) {
	return func(e *env) {
		claim := &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "data"},
			Spec:       corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{mode}, VolumeName: "pv"},
			Status:     corev1.PersistentVolumeClaimStatus{Phase: phase},
		}
		volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}
		if host != "" {
			volume.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{host}}},
			}}}}
		}
		e.Must(e.API.Create(e.T.Context(), claim))
		e.Must(e.API.Create(e.T.Context(), volume))
		e.changePod(second, withClaim("data"))
	}
}
