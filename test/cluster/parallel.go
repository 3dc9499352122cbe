// Doing one thing to many objects at once: a thousand nodes one by one would take half a minute.

package cluster

import (
	"context"
	"errors"
	"sync"
)

// workers is how many requests are under way at a time.
const workers = 32

// each calls do for every item, several at a time, and joins what went wrong.
func each[T any](ctx context.Context, items []T, do func(context.Context, T) error) error {
	var (
		group  sync.WaitGroup
		mu     sync.Mutex
		errs   []error
		tokens = make(chan struct{}, workers)
	)
	for _, item := range items {
		tokens <- struct{}{}
		group.Go(func() {
			defer func() { <-tokens }()
			if err := do(ctx, item); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// together runs steps at once; the first that fails cancels the others, and its error comes first.
func together(ctx context.Context, steps ...func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	err := each(ctx, steps, func(ctx context.Context, step func(context.Context) error) error {
		err := step(ctx)
		if err != nil {
			cancel(err)
		}
		return err
	})
	if err != nil {
		return context.Cause(ctx)
	}
	return nil
}
