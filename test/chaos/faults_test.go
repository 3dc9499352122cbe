// What can happen to one API call.

package chaos

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

var errDead = errors.New("the operator is dead")

// faults by name, each for one of the ways in which a call can go wrong.
var faults = map[string]fault{
	"refused":     {"refused", 1, refused},
	"answerlost":  {"answerlost", 1, answerLost},
	"overtaken":   {"overtaken", 3, overtaken},
	"crashbefore": {"crashbefore", 1, crashBefore},
	"crashafter":  {"crashafter", 1, crashAfter},
	"delayed":     {"delayed", 1, delayed},
	"edited":      {"edited", 1, edited},
}

// refused turns a call away before it does anything.
func refused(_ *life, k int, c call, _ func() error) error {
	switch resource := (schema.GroupResource{Resource: c.kind}); k % 4 {
	case 0:
		return apierrors.NewInternalError(errors.New("etcdserver: request timed out"))
	case 1:
		return apierrors.NewServerTimeout(resource, c.verb, 0)
	case 2:
		return apierrors.NewConflict(resource, c.name, errors.New("the object has been modified"))
	default:
		return apierrors.NewTooManyRequests("the server has received too many requests", 0)
	}
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
