package controllers

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/controllers/writes"
	"github.com/lockstep-dev/lockstep/test/check"
)

// failTaints is a new process of the manager, whose patches of one node fail with what answer returns.
func (e *env) failTaints(node string, answer func() error) {
	e.restart(interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
		if _, isNode := obj.(*corev1.Node); isNode && obj.GetName() == node {
			if err := answer(); err != nil {
				return err
			}
		}
		return c.Patch(ctx, obj, patch, opts...)
	}})
}

func denied(node string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, node, errors.New("taints of system nodes are managed"))
}

// exists reports whether the cluster still has the pod that a test has crashed.
func (e *env) exists(uid types.UID) bool {
	e.T.Helper()
	pods := &corev1.PodList{}
	e.Must(e.API.List(e.T.Context(), pods))
	for i := range pods.Items {
		if pods.Items[i].UID == uid {
			return true
		}
	}
	return false
}

// While a hold may still be put, only the pods of its node wait for it.
func TestOneFailedHoldKeepsNoOtherRankWaiting(t *testing.T) {
	nodes := schema.GroupResource{Resource: "nodes"}
	for name, failure := range map[string]error{
		"a conflict":           apierrors.NewConflict(nodes, "n1", errors.New("changed")),
		"a webhook that fails": apierrors.NewInternalError(errors.New("failed calling webhook")),
		"a timeout":            context.DeadlineExceeded,
	} {
		t.Run(name, func(t *testing.T) {
			e := running(t)
			uids := []types.UID{e.pod(first).UID, e.pod(second).UID}
			e.crash(first)
			e.crash(second)
			answer := failure
			e.failTaints("n1", func() error { return answer })
			result, err := e.reconcile()
			check.Equal(t, "is tried again", true, err != nil || result.RequeueAfter == writes.ConflictPause)
			check.Equal(t, "pods", []bool{false, true}, []bool{e.exists(uids[0]), e.exists(uids[1])})

			answer = nil
			e.settle()
			check.Equal(t, "held", 2, len(e.taints()))
			check.Equal(t, "pods once the hold is put", []bool{false, false}, []bool{e.exists(uids[0]), e.exists(uids[1])})
			check.Equal(t, "events", nil, withReason(e.Told(), "HoldRefused"))
		})
	}
}

// A hold that keeps failing is given up after a while, and tried again less often.
func TestAHoldThatKeepsFailingIsGivenUp(t *testing.T) {
	e := running(t)
	uid := e.pod(second).UID
	e.crash(second)
	e.failTaints("n1", func() error { return apierrors.NewInternalError(errors.New("failed calling webhook")) })
	for _, at := range []time.Duration{0, holdPatience - time.Second} {
		e.Clock.SetTime(t0.Add(at))
		if _, err := e.reconcile(); err == nil {
			t.Error("the failure is not tried again")
		}
		check.Equal(t, "the pod waits", true, e.exists(uid))
	}
	e.Clock.SetTime(t0.Add(holdPatience))
	_, err := e.reconcile()
	e.Must(err)
	check.Equal(t, "the pod waits", false, e.exists(uid))
	has(t, e.Told(), "Warning HoldRefused node n1 cannot be held")
}

// A hold that is refused holds nothing up, and the user is told once.
func TestARefusedHoldHoldsNothingUp(t *testing.T) {
	e := running(t)
	uids := []types.UID{e.pod(first).UID, e.pod(second).UID}
	e.crash(first)
	e.crash(second)
	patches := 0
	e.failTaints("n1", func() error { patches++; return denied("n1") })
	result, err := e.reconcile()
	e.Must(err)
	check.Equal(t, "looks again in time to try again", true, result.RequeueAfter > 0 && result.RequeueAfter <= holdRetry)
	check.Equal(t, "pods", []bool{false, false}, []bool{e.exists(uids[0]), e.exists(uids[1])})
	check.Equal(t, "held", []string{"n0"}, heldNodes(e))
	told := withReason(e.Told(), "HoldRefused")
	check.Equal(t, "events", 1, len(told))
	has(t, told, "Warning HoldRefused node n1 cannot be held: ")
	has(t, told, "taints of system nodes are managed")

	e.volcano(1)
	e.settle()
	for _, name := range []string{first, second} {
		check.Equal(t, "the gate of "+name+" is closed", false, gated(e.pod(name)))
	}
	check.Equal(t, "patches", 1, patches)
	e.Clock.SetTime(t0.Add(holdRetry))
	_, err = e.reconcile()
	e.Must(err)
	check.Equal(t, "patches a minute later", 2, patches)
	check.Equal(t, "events", nil, withReason(e.Told(), "HoldRefused"))
}

func TestARefusedStandingHoldKeepsNoGateClosed(t *testing.T) {
	job := aJob()
	job.Spec.Hold = &v1alpha1.Hold{Policy: v1alpha1.HoldAlways}
	e := newEnv(t, job)
	e.changeNode("n1", func(n *corev1.Node) {
		n.Status.Allocatable = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("110")}
	})
	refuse := true
	e.failTaints("n1", func() error {
		if refuse {
			return denied("n1")
		}
		return nil
	})
	e.settle()
	e.volcano(1)
	e.settle()
	e.run(first, "n0")
	e.run(second, "n1")
	e.settle()
	check.Equal(t, "held", []string{"n0"}, heldNodes(e))
	e.crash(first)
	e.settle()
	e.volcano(1)
	e.settle()
	check.Equal(t, "the gate is closed", false, gated(e.pod(first)))

	refuse = false
	e.Clock.SetTime(t0.Add(holdRetry))
	e.settle()
	check.Equal(t, "held, once it is allowed", []string{"n0", "n1"}, heldNodes(e))
}

// The nodes of an earlier attempt's pods are held before its Volcano Job is deleted.
func TestAVolcanoJobIsNotDeletedWhereAHoldIsMissing(t *testing.T) {
	e := running(t)
	e.crash(first)
	e.crash(second)
	v := &batch.Job{}
	e.Must(e.API.Get(t.Context(), types.NamespacedName{Namespace: key.Namespace, Name: "llm-1"}, v))
	v.Status.State.Phase = batch.Failed
	e.Must(e.API.Update(t.Context(), v))
	failure := apierrors.NewInternalError(errors.New("failed calling webhook"))
	answer := error(failure)
	e.failTaints("n1", func() error { return answer })
	_, err := e.reconcile()
	check.Equal(t, "is tried again", true, err != nil)
	check.Equal(t, "attempt", 2, e.job().Status.Attempt)
	check.Equal(t, "the earlier Volcano Job is deleted", false, apierrors.IsNotFound(e.API.Get(t.Context(), client.ObjectKeyFromObject(v), v)))

	answer = nil
	e.settle()
	check.Equal(t, "the earlier Volcano Job is deleted", true, apierrors.IsNotFound(e.API.Get(t.Context(), client.ObjectKeyFromObject(v), v)))
}

func heldNodes(e *env) []string {
	var out []string
	for _, node := range []string{"n0", "n1", "n2", "n3", "n4", "n5"} {
		if len(e.taints()[node]) > 0 {
			out = append(out, node)
		}
	}
	return out
}

// withReason are the events of a reason.
func withReason(told []string, reason string) []string {
	return slices.DeleteFunc(told, func(event string) bool { return strings.Fields(event)[1] != reason })
}
