// Tracks: what is remembered of one field of one entity from poll to poll.

package health

import (
	"slices"
	"time"
)

// track is the past of a row at an entity. It is comparable: what a poll did not change, the
// states before and after it share.
type track struct {
	// last value of a counter, and of others the last that was not ill.
	last int64
	// rises of a counter that a window still needs; nil where there are none.
	rises *rises
	// silent is when the field was last read, where the last poll that read anything did not read it.
	silent time.Time
	// streak is the polls in a row in which the condition held, calm those in which it did not, up to
	// as many as the row asks for. Polls that read nothing count for neither, and end neither.
	streak, calm int
	// readable reports whether the field was read since the boot, and blank is for how many polls in a
	// row it has not been, up to as many as make it unknown.
	readable bool
	blank    int
	// up reports whether the condition was seen not to hold, or a value that is up was read.
	up bool
}

// rise is an increase of a counter between two polls.
type rise struct {
	from, to time.Time
	by       int64
}

type rises []rise

// past are the rises that are remembered.
func (t *track) past() rises {
	if t.rises == nil {
		return nil
	}
	return *t.rises
}

// keep remembers these rises.
func (t *track) keep(rs rises) {
	switch {
	case len(rs) == 0:
		t.rises = nil
	case len(rs) != len(t.past()) || rs[0] != t.past()[0]:
		others := rs
		t.rises = &others
	}
}

// count takes a counter's value, where the one before was read at a time. One that went down
// has started again: what it shows now came at an unknown time, and is the new beginning.
func (t *track) count(value int64, before, now time.Time, remembered time.Duration) {
	rose := t.readable && value > t.last
	if !rose && t.rises == nil {
		t.last = value
		return
	}
	rs := t.past().since(now.Add(-remembered))
	if rose {
		rs = append(slices.Clip(rs), rise{before, now, value - t.last})
	}
	t.last = value
	t.keep(rs)
}

// since leaves out what is older.
func (rs rises) since(then time.Time) rises {
	for len(rs) > 0 && !rs[0].to.After(then) {
		rs = rs[1:]
	}
	return rs
}

// until reports whether the counter rose in the poll of that time.
func (rs rises) until(now time.Time) bool { return len(rs) > 0 && rs[len(rs)-1].to.Equal(now) }

// count is by how much the counter rose in a window. A rise over a longer time than the
// window, after polls that failed, is spread over that time; but one of it is certain.
func (rs rises) count(now time.Time, window time.Duration) float64 {
	if len(rs) == 0 {
		return 0 // as nearly always
	}
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

// hold says that the condition held in a poll, or did not; no more than most polls are counted.
func (t *track) hold(held bool, most int) {
	if held {
		t.streak, t.calm = min(t.streak+1, most), 0
		return
	}
	t.streak, t.calm = 0, min(t.calm+1, most)
}

// hush says that the field is not read any more, and when it last was.
func (t *track) hush(last time.Time) {
	if t.readable && t.silent.IsZero() {
		t.silent = last
	}
}

// atRest reports whether the condition has not held for as many polls as the row asks for, and
// nothing that it depends on is remembered.
func (t *track) atRest(polls int) bool {
	return t.calm == polls && t.rises == nil && t.blank == 0 && t.silent.IsZero()
}

// lost reports whether a field was read, and is not any more.
func (t *track) lost() bool { return t.readable && t.blank >= unknownAfter }

// never reports whether a field has not been read since the boot. Some say nothing until
// there is something to say, such as the SXIDs of an NVSwitch (fields 856 and 857).
func (t *track) never() bool { return !t.readable && t.blank >= unknownAfter }
