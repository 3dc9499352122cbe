package controllers

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/test/check"
)

// What else went wrong beside a refusal is told as an error.
func TestWhatIsOnlyARefusal(t *testing.T) {
	refused, other := refusedError{errors.New("no queue")}, errors.New("down")
	tests := map[string]struct {
		err  error
		want bool
	}{
		"nothing":                 {nil, false},
		"a refusal":               {refused, true},
		"told with its place":     {fmt.Errorf("act: %w", errors.Join(fmt.Errorf("create: %w", refused))), true},
		"another error":           {other, false},
		"another error beside it": {fmt.Errorf("act: %w", errors.Join(refused, other)), false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) { check.Equal(t, "is only a refusal", tc.want, isRefused(tc.err)) })
	}
}

// Each try is a call of Volcano's webhook, and a user may create any number of jobs that are refused.
func TestARefusedJobIsTriedNowAndThen(t *testing.T) {
	tries := func(within time.Duration) (n int) {
		for at := time.Duration(0); at <= within; at += retryAfter(n) {
			n++
		}
		return n
	}
	check.Equal(t, "tries within 4 s", 3, tries(4*time.Second))
	check.Equal(t, "tries within a minute", 8, tries(time.Minute))
}
