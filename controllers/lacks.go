package controllers

import "time"

// lack is since when a gang lacks pods, and when Volcano was last asked to look at its Job again.
type lack struct{ since, synced time.Time }

// note remembers that the gang lacks pods, since now where it did not before, or that it lacks none.
func (l *lack) note(lacking bool, now time.Time) {
	switch {
	case !lacking:
		*l = lack{}
	case l.since.IsZero():
		l.since = now
	}
}

func (l *lack) noteSync(now time.Time) {
	if !l.since.IsZero() {
		l.synced = now
	}
}
