// Retries: what is tried again soon and is no error of the manager.

package controllers

import (
	"errors"
	"time"

	"github.com/lockstep-dev/lockstep/controllers/writes"
)

// refusedError is an error that is the job's: the API server refuses its Volcano Job, its status or its PodDisruptionBudget. The job's
// status or an event tells why.
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

// inARow counts one more of what has happened again, or starts again at 0.
func inARow(count *int, again bool) int {
	if !again {
		*count = 0
		return 0
	}
	*count++
	return *count
}
