package controllers

import "time"

// lack is since when a gang lacks pods, when Volcano was last asked to look at its Job again, and whether it has taken such a Command before that.
type lack struct {
	since, synced time.Time
	heard         bool
}

// note remembers that the gang lacks pods, since now where it did not before, or that it lacks none.
func (l *lack) note(lacking bool, now time.Time) {
	switch {
	case !lacking:
		*l = lack{}
	case l.since.IsZero():
		l.since = now
	}
}

// noteSync remembers a Command. Where it could be made, Volcano has taken the one before it.
func (l *lack) noteSync(now time.Time, made bool) {
	if !l.since.IsZero() {
		l.heard = l.heard || made && !l.synced.IsZero()
		l.synced = now
	}
}
