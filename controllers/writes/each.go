package writes

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
)

// Each does something to every item, to some of them side by side.
func Each[T any](ctx context.Context, writers int, items []T, do func(T) error) error {
	errs := make([]error, len(items))
	workqueue.ParallelizeUntil(ctx, max(writers, 1), len(items), func(i int) { errs[i] = do(items[i]) })
	return errors.Join(errs...)
}

// Overtaken drops the errors that say that somebody else was faster: what they did
// is an event, and brings the job back.
func Overtaken(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

const (
	// MinRequeue keeps a time that has just come from being asked for again at once.
	MinRequeue = 10 * time.Millisecond
	// ConflictPause is how long to wait for the cache to show what a write has run into.
	ConflictPause = 100 * time.Millisecond
)
