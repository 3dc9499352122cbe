// When work that can wait is done: conditions, counts and the taint of degraded nodes wait until no verdicts are being written,
// since the API server has only so much to give, and jobs wait for verdicts.

package fleet

import (
	"sync"
	"time"
)

// maxQuiet is how long people are told nothing at most, however many verdicts are written.
const maxQuiet = 30 * time.Second

// storm is a row of verdicts, none of them written long after the one before.
type storm struct {
	mu          sync.Mutex
	began, last time.Time
}

// note says that a verdict is written.
func (s *storm) note(now time.Time, calm time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.last) > calm {
		s.began = now
	}
	s.last = now
}

// left is how long there is still to wait for calm.
func (s *storm) left(now time.Time, calm time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(0, min(calm-now.Sub(s.last), maxQuiet-now.Sub(s.began)))
}
