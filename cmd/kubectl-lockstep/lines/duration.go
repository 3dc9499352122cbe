// Durations, as people read them.

package lines

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
)

// Duration rounds a duration and writes it: tenths of seconds below a minute, days and hours from two days on.
func Duration(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return duration.HumanDuration(d)
	case d.Abs() >= time.Minute:
		return shorten(d.Round(time.Second).String())
	}
	return shorten(d.Round(100 * time.Millisecond).String())
}

// Exactly writes a duration as it is, without units at its end that are 0.
func Exactly(d time.Duration) string { return shorten(d.String()) }

// shorten leaves out the seconds, and then the minutes, at the end of a duration where they are 0.
func shorten(text string) string {
	for _, unit := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, unit) {
			text = text[:len(text)-2]
		}
	}
	return text
}
