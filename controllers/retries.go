// Retries: what is tried again soon and is no error of the manager.

package controllers

import (
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/lockstep-dev/lockstep/controllers/writes"
)

// refusedError is an error that is the job's: the API server refuses its Volcano Job or its status. The job's status or an event tells
// why.
type refusedError struct{ error }

func (e refusedError) Unwrap() error { return e.error }

// isRefused reports whether all that went wrong is that the API server refuses something of the job's.
func isRefused(err error) bool {
	return err != nil && writes.Every(err, func(one error) bool { return errors.As(one, &refusedError{}) })
}

const (
	// minRetry and maxRetry bound the time after which what was refused is tried again: a queue that is missing, say, may be created
	// a moment later, or never. A queue that is created, or opened again, wakes its jobs. Each try is a call of Volcano's webhook, and a user may create any number
	// of jobs that are refused.
	minRetry = time.Second
	maxRetry = 15 * time.Second
)

// retryAfter is how long to wait after so many refusals in a row.
func retryAfter(refusals int) time.Duration {
	delay := minRetry
	for range refusals - 1 {
		if delay >= maxRetry {
			break
		}
		delay *= 2
	}
	return min(delay, maxRetry)
}

// inARow counts how often something has happened to each job in a row.
type inARow struct {
	mu   sync.Mutex
	jobs map[types.NamespacedName]int
}

// count counts one more, or starts again at 0.
func (c *inARow) count(job types.NamespacedName, again bool) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !again {
		delete(c.jobs, job)
		return 0
	}
	if c.jobs == nil {
		c.jobs = map[types.NamespacedName]int{}
	}
	c.jobs[job]++
	return c.jobs[job]
}

// lastTimes remembers when something was last done for each job.
type lastTimes struct {
	mu   sync.Mutex
	jobs map[types.NamespacedName]time.Time
}

// isDue reports whether the last time is long enough ago, and remembers this one if so.
func (l *lastTimes) isDue(job types.NamespacedName, now time.Time, every time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if last, known := l.jobs[job]; known && now.Sub(last) < every {
		return false
	}
	if l.jobs == nil {
		l.jobs = map[types.NamespacedName]time.Time{}
	}
	l.jobs[job] = now
	return true
}

func (l *lastTimes) forget(job types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.jobs, job)
}
