package lab

import (
	"context"
	"runtime"

	"golang.org/x/sync/errgroup"
)

// PlayMany plays a setup several times, with seeds that count up from the first. It stops at the end of the context.
func PlayMany(ctx context.Context, s Setup, plays int, seed uint64) ([]*Result, error) {
	results := make([]*Result, plays)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range plays {
		g.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			one := s
			one.Seed = seed + uint64(i)
			var err error
			results[i], err = Play(one)
			return err
		})
	}
	return results, g.Wait()
}
