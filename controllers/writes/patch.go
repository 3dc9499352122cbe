// Patches guarded by JSON patch tests of the fields that they rest on, so that other writes do not conflict, as they would with
// a resourceVersion.

package writes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// field is a field of an object as it was read. Its path is a JSON pointer.
type field struct {
	path  string
	value any
}

// PatchPod patches a pod, unless its gates, affinity or tolerations have changed since it was read. The scheduler's writes of
// conditions do not conflict.
func PatchPod(ctx context.Context, c client.Client, read, pod *corev1.Pod) error {
	return patchGuarded(ctx, c, read, pod, field{"/spec/schedulingGates", read.Spec.SchedulingGates},
		field{"/spec/affinity", read.Spec.Affinity}, field{"/spec/tolerations", read.Spec.Tolerations})
}

// patchNode patches a node, unless its taints have changed since it was read. The kubelet's writes of the status do not
// conflict.
func patchNode(ctx context.Context, c client.Client, read, node *corev1.Node) error {
	return patchGuarded(ctx, c, read, node, field{"/spec/taints", read.Spec.Taints})
}

// patchGuarded brings an object from what was read to what it is now. It returns a conflict where another object has its name by
// now, or one of the fields another value.
func patchGuarded(ctx context.Context, c client.Client, read, changed client.Object, fields ...field) error {
	before, err := json.Marshal(read)
	if err != nil {
		return err
	}
	after, err := json.Marshal(changed)
	if err != nil {
		return err
	}
	changes, err := jsonpatch.CreatePatch(before, after)
	if err != nil {
		return err
	}
	operations := []jsonpatch.Operation{jsonpatch.NewOperation("test", "/metadata/uid", read.GetUID())}
	for _, f := range fields {
		operations = append(operations, jsonpatch.NewOperation("test", f.path, f.value))
	}
	patch, err := json.Marshal(append(operations, changes...))
	if err != nil {
		return err
	}
	err = c.Patch(ctx, changed, client.RawPatch(types.JSONPatchType, patch))
	if doesNotApply(err) {
		return apierrors.NewConflict(schema.GroupResource{}, read.GetName(), errors.New("it has changed since it was read"))
	}
	return err
}

// doesNotApply reports whether the API server could not apply a JSON patch. Its answer is the generic one for status 422
// (jsonPatcher.applyPatchToCurrentObject in kubernetes staging/src/k8s.io/apiserver/pkg/endpoints/handlers/patch.go); other errors
// of that status, such as those of webhooks, have words of their own.
func doesNotApply(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Message == notApplied.ErrStatus.Message
}

var notApplied = apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", "", 0, false)

// Taints changes the taints of a node. A node that is gone has none to change.
func Taints(ctx context.Context, c client.Client, name string, change func([]corev1.Taint) []corev1.Taint) error {
	node := &corev1.Node{}
	if err := c.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		return client.IgnoreNotFound(err)
	}
	before := node.DeepCopy()
	node.Spec.Taints = change(node.Spec.Taints)
	if equality.Semantic.DeepEqual(before.Spec.Taints, node.Spec.Taints) {
		return nil // a look that was a moment old has asked for what is done
	}
	if err := client.IgnoreNotFound(patchNode(ctx, c, before, node)); err != nil {
		return fmt.Errorf("patch the taints of node %s: %w", name, err)
	}
	return nil
}
