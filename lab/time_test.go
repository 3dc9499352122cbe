package lab

import (
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/test/check"
)

func TestTimesMayBeginWithDays(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "0": 0, "-1s": -time.Second, "30d": 30 * day, "0.5d": 12 * time.Hour, "1d12h": 36 * time.Hour, "-1d1h": -25 * time.Hour,
	} {
		got, err := ParseTime(text)
		check.Equal(t, text, want, got)
		check.Equal(t, text, nil, err)
	}
	for _, text := range []string{"", "soon", "d", "1dd", "1d-1h", "1d+1h", "12hd", "1w", "1e9d", "200000d", "100000d2000000h"} {
		if d, err := ParseTime(text); err == nil {
			t.Errorf("%q is taken for %s", text, d)
		}
	}
}
