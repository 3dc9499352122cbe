// Watching: fields of a group of entities, and what was read of them last.

package dcgm

import (
	"errors"
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/health"
)

// members is a group of entities in the engine.
type members struct {
	handle   uintptr
	entities []entity
}

// group makes a group of what the engine accepts: a GPU that is lost may be refused.
func (s *session) group(all []entity) (members, error) {
	handle, refused, err := s.engine.group(all)
	if err != nil {
		return members{}, err
	}
	var accepted []entity
	for _, e := range all {
		if slices.Contains(refused, e) {
			s.note("entity %d of kind %d cannot be watched", e.id, e.level)
			continue
		}
		accepted = append(accepted, e)
	}
	return members{handle, accepted}, nil
}

// watching is a watch with what it has read.
type watching struct {
	watch  watch
	group  members
	fields []health.Field
	next   time.Time // from when on to read
	latest map[cell]latest
}

// cell is a field of an entity.
type cell struct {
	entity entity
	field  health.Field
}

type latest struct {
	value health.Value
	text  string
	at    time.Time // by the engine's clock
	seen  time.Time // by the caller's clock: when it was read
}

// add has fields watched, and their values in every sample.
func (s *session) add(group members, fields []health.Field) error {
	watches, err := s.watch(group, fields, s.keep())
	s.fields = append(s.fields, watches...)
	return err
}

// watch has fields watched, in groups of the size that DCGM allows, and reads each once.
// One field that an engine does not know makes it refuse the group, and one that cannot be
// read fails the reading of all (helperGetValuesSince in DCGM's dcgmlib/src/DcgmApi.cpp),
// so groups that fail are halved until the ones to leave out are found.
func (s *session) watch(group members, fields []health.Field, keep time.Duration) ([]*watching, error) {
	if len(fields) > maxFields {
		first, err := s.watch(group, fields[:maxFields], keep)
		if err != nil {
			return nil, err
		}
		rest, err := s.watch(group, fields[maxFields:], keep)
		return append(first, rest...), err
	}
	handle, err := s.engine.watch(group.handle, fields, s.options.Interval, keep)
	if err == nil {
		w := &watching{watch: handle, group: group, fields: fields, next: time.UnixMicro(0), latest: map[cell]latest{}}
		if _, err = w.read(s.engine, s.began); err == nil {
			return []*watching{w}, nil
		}
		err = errors.Join(err, s.engine.unwatch(handle))
	}
	return s.halve(group, fields, keep, err)
}

func (s *session) halve(group members, fields []health.Field, keep time.Duration, why error) ([]*watching, error) {
	if _, err := s.engine.version(); err != nil {
		return nil, err // the engine is gone, and no field is to blame
	}
	if len(fields) == 1 {
		s.note("field %d cannot be watched: %v", fields[0], why)
		return nil, nil
	}
	first, err := s.watch(group, fields[:len(fields)/2], keep)
	if err != nil {
		return nil, err
	}
	rest, err := s.watch(group, fields[len(fields)/2:], keep)
	return append(first, rest...), err
}

// read takes what was recorded since the last time.
func (w *watching) read(e engine, now time.Time) ([]reading, error) {
	readings, next, err := e.since(w.watch, w.next)
	if err != nil {
		return nil, err
	}
	w.next = next
	for _, r := range readings {
		c := cell{r.entity, r.field}
		if before, known := w.latest[c]; !known || !r.at.Before(before.at) {
			w.latest[c] = latest{value: r.value, text: r.text, at: r.at, seen: now}
		}
	}
	return readings, nil
}

// value is blank for what was never read, or not since a time: it is not known any more.
func (w *watching) value(c cell, since time.Time) health.Value {
	l, known := w.latest[c]
	if !known || l.seen.Before(since) {
		return health.Value{Blank: true}
	}
	return l.value
}
