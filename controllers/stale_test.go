package controllers

import (
	"context"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/policies/placement"
	"github.com/lockstep-dev/lockstep/test/check"
)

// The cache shows a gated pod as it was before somebody else wrote to it.
func TestALiftFromAStaleCache(t *testing.T) {
	foreign := corev1.PodSchedulingGate{Name: "example.com/other"}
	ours := corev1.PodSchedulingGate{Name: v1alpha1.PlacementGate}
	tests := map[string]struct {
		meanwhile func(*corev1.Pod)
		target    string // the host that the pod has to be confined to; empty for none
		gates     []corev1.PodSchedulingGate
	}{
		"nothing": {func(*corev1.Pod) {}, "host-n5", nil},
		"a condition of the scheduler": {func(p *corev1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse})
		}, "host-n5", nil},
		"an annotation":     {func(p *corev1.Pod) { p.Annotations["example.com/note"] = "x" }, "host-n5", nil},
		"the gate is open":  {func(p *corev1.Pod) { p.Spec.SchedulingGates = nil }, "", nil},
		"another gate":      {func(p *corev1.Pod) { p.Spec.SchedulingGates = append(p.Spec.SchedulingGates, foreign) }, "", []corev1.PodSchedulingGate{ours, foreign}},
		"more tolerations":  {func(p *corev1.Pod) { tolerate(&p.Spec, []string{"x"}) }, "", []corev1.PodSchedulingGate{ours}},
		"a target":          {func(p *corev1.Pod) { confine(&p.Spec, placement.Target{In: []string{"host-n4"}}) }, "host-n4", []corev1.PodSchedulingGate{ours}},
		"another pod by it": {func(p *corev1.Pod) { p.UID = "another" }, "", []corev1.PodSchedulingGate{ours}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t, aJob())
			e.settle()
			e.volcano(1)
			stale := e.pod("llm-1-worker-0")
			live := stale.DeepCopy()
			tc.meanwhile(live)
			e.Must(e.API.Update(t.Context(), live))
			e.restart(interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
					if pod, ok := obj.(*corev1.Pod); ok {
						stale.DeepCopyInto(pod)
						return nil
					}
					return c.Get(ctx, key, obj, opts...)
				},
				Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
					if c.Patch(ctx, obj, patch, opts...) != nil {
						return apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", "", 0, false)
					}
					return nil
				},
			})
			a := actor{TrainingJobReconciler: e.r, job: e.job()}
			err := a.lift(t.Context(), policies.Lift{Pod: stale.Name, UID: string(stale.UID), Target: placement.Target{In: []string{"host-n5"}}})
			check.Equal(t, "conflicts", tc.target != "host-n5", apierrors.IsConflict(err))
			pod := e.pod(stale.Name)
			check.Equal(t, "gates", tc.gates, pod.Spec.SchedulingGates)
			check.Equal(t, "hosts", tc.target, hostOf(pod))
		})
	}
}

// The cache shows for a while that a gate is closed which this process has opened.
func TestAGateIsOpenedOnce(t *testing.T) {
	e := newEnv(t, aJob())
	e.settle()
	e.volcano(1)
	stale := e.pod("llm-1-worker-0")
	e.restart(interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
		if pod, ok := obj.(*corev1.Pod); ok {
			stale.DeepCopyInto(pod)
			return nil
		}
		return c.Get(ctx, key, obj, opts...)
	}})
	e.Calls = nil
	a := actor{TrainingJobReconciler: e.r, job: e.job()}
	for range 2 {
		e.Must(a.lift(t.Context(), policies.Lift{Pod: stale.Name, UID: string(stale.UID)}))
	}
	check.Equal(t, "writes", 1, len(e.Calls))
	e.r.memories.of(key).opened.keep(nil)
	check.Equal(t, "known, once it is gone", false, e.r.memories.of(key).opened.of(string(stale.UID)))
}

// The cache shows for a while that a pod is there which this process has deleted.
func TestAPodIsDeletedOnce(t *testing.T) {
	e := running(t)
	deletions := 0
	e.restart(interceptor.Funcs{Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
		deletions++
		return nil
	}})
	e.crash("llm-1-worker-1")
	for range 3 {
		if _, err := e.reconcile(); err != nil {
			t.Fatal(err)
		}
	}
	check.Equal(t, "deletions", 1, deletions)
	e.r.memories.of(key).deleted.keep(nil)
	if _, err := e.reconcile(); err != nil {
		t.Fatal(err)
	}
	check.Equal(t, "deletions by a process that has not deleted it", 2, deletions)
}

// hostOf is the first host that a pod is confined to.
func hostOf(pod *corev1.Pod) string {
	if pod.Spec.Affinity == nil {
		return ""
	}
	return pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchExpressions[0].Values[0]
}
