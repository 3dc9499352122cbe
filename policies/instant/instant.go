// Package instant compares times of which zero means never.
package instant

import "time"

// Earliest returns the earliest of some times; zero where all mean never.
func Earliest(times ...time.Time) time.Time {
	var earliest time.Time
	for _, at := range times {
		if earliest.IsZero() || (!at.IsZero() && at.Before(earliest)) {
			earliest = at
		}
	}
	return earliest
}

// Latest returns the latest of some times; zero where all are.
func Latest(times ...time.Time) time.Time {
	var latest time.Time
	for _, at := range times {
		if at.After(latest) {
			latest = at
		}
	}
	return latest
}

// Seconds returns a number of seconds as a duration.
func Seconds(n int32) time.Duration { return time.Duration(n) * time.Second }
