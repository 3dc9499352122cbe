package writes

import (
	"errors"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Overtaken drops NotFound and Conflict errors: another writer was faster. Callers look again at its watch event, or requeue by
// themselves.
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

// IsConflict reports whether all that went wrong is that others have written meanwhile.
func IsConflict(err error) bool { return Every(err, apierrors.IsConflict) }

// Every reports whether each of the errors that are joined in one is of a kind; an error that joins none is the only one.
func Every(err error, of func(error) bool) bool {
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		return of(err)
	}
	return !slices.ContainsFunc(joined.Unwrap(), func(one error) bool { return !Every(one, of) })
}
