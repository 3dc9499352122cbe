// What can happen to one API call.

package chaos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

var errDead = errors.New("the operator is dead")

// faults by name, each for one of the ways in which a call can go wrong.
var faults = map[string]fault{
	refused:       refuse(func(k int) metav1.StatusReason { return reasons[k%len(reasons)] }),
	"answerlost":  {name: "answerlost", times: 1, strike: answerLost},
	"overtaken":   {name: "overtaken", times: 3, strike: overtaken},
	"crashbefore": {name: "crashbefore", times: 1, strike: crashBefore},
	"crashafter":  {name: "crashafter", times: 1, strike: crashAfter},
	"delayed":     {name: "delayed", times: 1, strike: delayed},
	"edited":      {name: "edited", times: 1, strike: edited},
}

// refused is the name of the fault that turns a call away before it does anything.
const refused = "refused"

// refusals are the answers of the API server that turn a call away, by their reasons.
var refusals = map[metav1.StatusReason]func(resource schema.GroupResource, c call) error{
	metav1.StatusReasonInternalError: func(schema.GroupResource, call) error {
		return apierrors.NewInternalError(errors.New("etcdserver: request timed out"))
	},
	metav1.StatusReasonServerTimeout: func(resource schema.GroupResource, c call) error {
		return apierrors.NewServerTimeout(resource, c.verb, 0)
	},
	metav1.StatusReasonConflict: func(resource schema.GroupResource, c call) error {
		return apierrors.NewConflict(resource, c.name, errors.New("the object has been modified"))
	},
	metav1.StatusReasonTooManyRequests: func(schema.GroupResource, call) error {
		return apierrors.NewTooManyRequests("the server has received too many requests", 0)
	},
}

// reasons are those of refusals.
var reasons = slices.Sorted(maps.Keys(refusals))

// refuse turns the k-th call away for a reason.
func refuse(reason func(k int) metav1.StatusReason) fault {
	return fault{name: refused, times: 1, reason: reason, strike: func(_ *life, k int, c call, _ func() error) error {
		return refusals[reason(k)](schema.GroupResource{Resource: c.kind}, c)
	}}
}

// each is a fault in each of its kinds, where the contract's table is asked for: refused for each reason.
func (f fault) each() []fault {
	if f.name != refused || *contractTable == "" {
		return []fault{f}
	}
	var out []fault
	for _, reason := range reasons {
		out = append(out, refuse(func(int) metav1.StatusReason { return reason }))
	}
	return out
}

// answerLost carries a call out, and the connection breaks before the answer.
func answerLost(_ *life, _ int, c call, do func() error) error {
	_ = do()
	return fmt.Errorf("%s: %w", c, syscall.ECONNRESET)
}

// overtaken lets another writer change the same object first.
func overtaken(_ *life, k int, c call, do func() error) error {
	if c.obj == nil || c.verb == "create" || !c.write() {
		return do()
	}
	other := c.obj.DeepCopyObject().(client.Object)
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"chaos/touched":"%d"}}}`, k)
	err := testCluster.Client().Patch(context.Background(), other, client.RawPatch(types.MergePatchType, patch))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("overtake %s: %w", c, err)
	}
	return do()
}

// delayed carries a call out late: much else has happened by then.
func delayed(_ *life, _ int, _ call, do func() error) error {
	time.Sleep(2 * time.Second)
	return do()
}

// edited has the user change the spec of the job first, in what makes no difference here.
func edited(l *life, k int, c call, do func() error) error {
	jobs := &v1alpha1.TrainingJobList{}
	if err := testCluster.Client().List(context.Background(), jobs, client.InNamespace(l.lane)); err != nil {
		return fmt.Errorf("edit the job before %s: %w", c, err)
	}
	for i := range jobs.Items {
		patch := fmt.Appendf(nil, `{"spec":{"restartPolicy":{"excludeNodeSeconds":%d}}}`, 3600+k)
		err := testCluster.Client().Patch(context.Background(), &jobs.Items[i], client.RawPatch(types.MergePatchType, patch))
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("edit the job before %s: %w", c, err)
		}
	}
	return do()
}

// crashBefore ends the process when it was about to make a call.
func crashBefore(l *life, _ int, _ call, _ func() error) error {
	l.crash()
	return errDead
}

// crashAfter ends the process when a call has been carried out, before it learns of it.
func crashAfter(l *life, _ int, _ call, do func() error) error {
	_ = do()
	l.crash()
	return errDead
}
