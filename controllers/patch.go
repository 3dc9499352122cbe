// Patches of pods: what others write to a pod meanwhile does not stand in their way.

package controllers

import (
	"context"
	"encoding/json"
	"fmt"

	"gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// patchPod brings a pod from what was read to what it is now. The API server refuses the patch where what it rests on has
// changed: the pod's UID, gates, affinity and tolerations. A resourceVersion would guard every field, and lose to the
// conditions that Volcano's scheduler writes to pods that wait. It reports whether the pod was patched.
func (a *actor) patchPod(ctx context.Context, read, pod *corev1.Pod) (bool, error) {
	patch, err := guardedPatch(read, pod)
	if err != nil {
		return false, err
	}
	if err = a.Patch(ctx, pod, client.RawPatch(types.JSONPatchType, patch)); apierrors.IsInvalid(err) {
		return false, a.refused(ctx, read, err)
	}
	return err == nil, overtaken(err)
}

// refused returns why a patch was refused; nil where the cache had yet to show the pod as it is. That is an event, and brings
// the job back.
func (a *actor) refused(ctx context.Context, read *corev1.Pod, refusal error) error {
	live := &corev1.Pod{}
	if err := a.Live.Get(ctx, client.ObjectKeyFromObject(read), live); err != nil {
		return client.IgnoreNotFound(err)
	}
	if live.ResourceVersion != read.ResourceVersion {
		return nil
	}
	return refusal
}

func guardedPatch(read, pod *corev1.Pod) ([]byte, error) {
	before, err := json.Marshal(read)
	if err != nil {
		return nil, err
	}
	after, err := json.Marshal(pod)
	if err != nil {
		return nil, err
	}
	changes, err := jsonpatch.CreatePatch(before, after)
	if err != nil {
		return nil, fmt.Errorf("compare pod %s with what was read: %w", pod.Name, err)
	}
	return json.Marshal(append([]jsonpatch.Operation{
		jsonpatch.NewOperation("test", "/metadata/uid", read.UID),
		jsonpatch.NewOperation("test", "/spec/schedulingGates", read.Spec.SchedulingGates),
		jsonpatch.NewOperation("test", "/spec/affinity", read.Spec.Affinity),
		jsonpatch.NewOperation("test", "/spec/tolerations", read.Spec.Tolerations),
	}, changes...))
}
