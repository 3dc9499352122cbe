package writes

import (
	"context"
	"errors"

	"k8s.io/client-go/util/workqueue"
)

// Each does something to every item, to some of them side by side.
func Each[T any](ctx context.Context, writers int, items []T, do func(T) error) error {
	errs := make([]error, len(items))
	workqueue.ParallelizeUntil(ctx, max(writers, 1), len(items), func(i int) { errs[i] = do(items[i]) })
	return errors.Join(errs...)
}
