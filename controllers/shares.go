// Shares: how much of something one job, one namespace and all together may use at once.

package controllers

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
	"k8s.io/apimachinery/pkg/types"
)

// shares are semaphores by name, each of which exists while somebody uses it or waits for it.
type shares struct {
	mu sync.Mutex
	of map[types.NamespacedName]*share
}

type share struct {
	*semaphore.Weighted
	users int
}

// acquire takes n of a share of that size, and waits for that until the context ends. The function that it returns gives them back.
func (s *shares) acquire(ctx context.Context, of types.NamespacedName, size, n int64) (release func(), err error) {
	used := s.use(of, size)
	if err := used.Acquire(ctx, n); err != nil {
		s.leave(of)
		return nil, err
	}
	return func() {
		used.Release(n)
		s.leave(of)
	}, nil
}

func (s *shares) use(of types.NamespacedName, size int64) *share {
	s.mu.Lock()
	defer s.mu.Unlock()
	used := s.of[of]
	if used == nil {
		if s.of == nil {
			s.of = map[types.NamespacedName]*share{}
		}
		used = &share{Weighted: semaphore.NewWeighted(size)}
		s.of[of] = used
	}
	used.users++
	return used
}

func (s *shares) leave(of types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	used := s.of[of]
	if used.users--; used.users == 0 {
		delete(s.of, of)
	}
}
