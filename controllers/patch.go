// Patches that test what they rest on: what others write to an object meanwhile does not stand in their way, as it would in that
// of a resourceVersion.

package controllers

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"

	"gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"
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

// patchPod brings a pod from what was read to what it is now, unless its gates, affinity or tolerations have changed since.
// Volcano's scheduler writes conditions of pods that wait.
func patchPod(ctx context.Context, c client.Client, read, pod *corev1.Pod) error {
	return patchGuarded(ctx, c, read, pod, field{"/spec/schedulingGates", read.Spec.SchedulingGates},
		field{"/spec/affinity", read.Spec.Affinity}, field{"/spec/tolerations", read.Spec.Tolerations})
}

// patchNode does the same for a node's taints. Kubelets write its status.
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

// isConflict reports whether all that went wrong is that others have written meanwhile.
func isConflict(err error) bool {
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		return apierrors.IsConflict(err)
	}
	for _, one := range joined.Unwrap() {
		if !isConflict(one) {
			return false
		}
	}
	return true
}

// conflicts counts the conflicts of each job in a row.
type conflicts struct {
	mu   sync.Mutex
	jobs map[types.NamespacedName]int
}

// count counts one more conflict, or starts again at 0.
func (c *conflicts) count(job types.NamespacedName, conflict bool) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !conflict {
		delete(c.jobs, job)
		return 0
	}
	if c.jobs == nil {
		c.jobs = map[types.NamespacedName]int{}
	}
	c.jobs[job]++
	return c.jobs[job]
}
