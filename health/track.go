// Tracks: what is remembered of one field of one entity from poll to poll.

package health

import (
	"slices"
	"time"
)

// track is the past of a row at an entity.
type track struct {
	// last value of a counter, and when it was read.
	last int64
	at   time.Time
	// rises of a counter that a window still needs.
	rises rises
	// streak is the polls in a row in which the condition held, calm those in which it did not.
	// Polls that read nothing count for neither, and end neither.
	streak, calm int
	// readable is true once the field was read since the boot, and blank is for how many polls in a
	// row it has not been.
	readable bool
	blank    int
	// up is true once the condition was seen not to hold.
	up bool
}

// rise is an increase of a counter between two polls.
type rise struct {
	from, to time.Time
	by       int64
}

type rises []rise

// counted takes a counter's value. One that went down has started anew: what it shows now
// came at an unknown time, and is the new beginning.
func (t track) counted(value int64, now time.Time, remembered time.Duration) track {
	if !t.at.IsZero() && value > t.last {
		t.rises = append(slices.Clip(t.rises), rise{t.at, now, value - t.last})
	}
	t.rises = t.rises.since(now.Add(-remembered))
	t.last, t.at = value, now
	return t
}

// since leaves out what is older.
func (rs rises) since(then time.Time) rises {
	for len(rs) > 0 && !rs[0].to.After(then) {
		rs = rs[1:]
	}
	return rs
}

// until is true where the counter rose in the poll of that time.
func (rs rises) until(now time.Time) bool { return len(rs) > 0 && rs[len(rs)-1].to.Equal(now) }

// count is by how much the counter rose in a window. A rise over a longer time than the
// window, after polls that failed, is spread over that time; but one of it is certain.
func (rs rises) count(now time.Time, window time.Duration) float64 {
	sum := 0.0
	for _, r := range rs.since(now.Add(-window)) {
		share := 1.0
		if span := r.to.Sub(r.from); span > window {
			share = window.Seconds() / span.Seconds()
		}
		sum += max(1, float64(r.by)*share)
	}
	return sum
}

// read says that the condition held in a poll, or did not.
func (t track) read(held bool) track {
	if held {
		t.streak, t.calm = t.streak+1, 0
		return t
	}
	t.streak, t.calm = 0, t.calm+1
	return t
}

// unread says that the field was blank in a poll.
func (t track) unread() track {
	t.blank++
	return t
}

// lost is true for a field that was read, and is not any more.
func (t track) lost() bool { return t.readable && t.blank >= unknownAfter }

// never is true for a field that has not been read since the boot. Some say nothing until
// there is something to say, such as the SXIDs of an NVSwitch (fields 856 and 857).
func (t track) never() bool { return !t.readable && t.blank >= unknownAfter }
