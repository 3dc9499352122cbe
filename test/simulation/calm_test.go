package simulation

import (
	"testing"
	"time"
)

// A calm ends after a time, and after so many rounds where something happens every few seconds: users help halfway through either.
func TestHelpComesBeforeTheCalmEnds(t *testing.T) {
	for _, tc := range []struct {
		round int
		calm  time.Duration
		want  bool
	}{
		{calmRounds/2 - 1, calmFor/2 - time.Second, false},
		{calmRounds / 2, time.Hour, true},
		{1, calmFor / 2, true},
	} {
		if got := helpIsDue(tc.round, tc.calm); got != tc.want {
			t.Errorf("help after %d rounds and %v is due: %v, want %v", tc.round, tc.calm, got, tc.want)
		}
	}
}
