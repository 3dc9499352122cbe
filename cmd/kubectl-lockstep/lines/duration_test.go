package lines

import (
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/test/check"
)

func TestDurations(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                                     "0s",
		96 * time.Millisecond:                 "100ms",
		1860 * time.Millisecond:               "1.9s",
		90 * time.Second:                      "1m30s",
		10 * time.Minute:                      "10m",
		2 * time.Hour:                         "2h",
		90 * time.Minute:                      "1h30m",
		time.Hour + 5*time.Second:             "1h0m5s",
		-2 * time.Minute:                      "-2m",
		50 * time.Hour:                        "2d2h",
		59*time.Second + 999*time.Millisecond: "1m",
	} {
		check.Equal(t, d.String(), want, Duration(d))
	}
}
