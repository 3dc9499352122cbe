// Watching: fields of a group of entities, and what was read of them last.

package dcgm

import (
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/health"
)

// maxTries bounds the watches that are tried for one connection: DCGM waits for all fields to
// be read again after each (dcgmUpdateAllFields, in go-dcgm's fields.go).
const maxTries = 200

// members is a group of entities in the engine.
type members struct {
	handle   uintptr
	entities []entity
}

// group makes a group of what the engine accepts, which may be nothing.
func (s *session) group(all []entity) (members, error) {
	if len(all) == 0 {
		return members{}, nil
	}
	handle, refused, err := s.engine.group(all)
	if err != nil {
		s.note("%d entities of kind %d cannot be watched: %v", len(all), all[0].level, err)
		return members{}, s.alive()
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

// add has fields of entities watched, and their values in every sample.
func (s *session) add(entities []entity, fields []health.Field) error {
	group, err := s.group(entities)
	if err != nil {
		return err
	}
	watches, err := s.watch(group, fields, s.keep())
	s.fields = append(s.fields, watches...)
	return err
}

// watch has fields watched, in groups of the size that DCGM allows, and reads each once.
// One field that an engine does not know makes it refuse the group, and one that cannot be
// read fails the reading of all (helperGetValuesSince in DCGM's dcgmlib/src/DcgmApi.cpp),
// so what fails is halved until that which has to be left out is found.
func (s *session) watch(group members, fields []health.Field, keep time.Duration) ([]*watching, error) {
	if len(group.entities) == 0 {
		return nil, nil
	}
	if len(fields) > maxFields {
		return s.both(group, fields[:maxFields], group, fields[maxFields:], keep)
	}
	s.tries++
	handle, err := s.engine.watch(group.handle, fields, s.options.Interval, keep)
	if err == nil {
		w := &watching{watch: handle, group: group, fields: fields, next: time.UnixMicro(0), latest: map[cell]latest{}}
		if _, err = w.read(s.engine, s.began); err == nil {
			return []*watching{w}, nil
		}
		_ = s.engine.unwatch(handle) // what cannot be read does no harm
	}
	if gone := s.alive(); gone != nil {
		return nil, gone
	}
	return s.halve(group, fields, keep, err, handle != watch{})
}

// halve tries the halves of the fields; of a single one that was watched, and cannot be
// read, those of the GPUs: one that is broken must not hide it of the others.
func (s *session) halve(group members, fields []health.Field, keep time.Duration, why error, watched bool) ([]*watching, error) {
	entities := group.entities
	switch half := len(fields) / 2; {
	case s.tries >= maxTries:
	case half > 0:
		return s.both(group, fields[:half], group, fields[half:], keep)
	case watched && len(entities) > 1 && entities[0].level == levelGPU: // of links there are too many to try each
		first, err := s.group(entities[:len(entities)/2])
		if err != nil {
			return nil, err
		}
		rest, err := s.group(entities[len(entities)/2:])
		if err != nil {
			return nil, err
		}
		return s.both(first, fields, rest, fields, keep)
	}
	s.note("fields %v of %d entities of kind %d cannot be watched: %v", fields, len(entities), entities[0].level, why)
	for _, e := range entities {
		for _, f := range fields {
			s.refused = append(s.refused, cell{e, f})
		}
	}
	return nil, nil
}

func (s *session) both(g1 members, f1 []health.Field, g2 members, f2 []health.Field, keep time.Duration) ([]*watching, error) {
	first, err := s.watch(g1, f1, keep)
	if err != nil {
		return nil, err
	}
	rest, err := s.watch(g2, f2, keep)
	return append(first, rest...), err
}

// read takes what was recorded since the last time.
func (w *watching) read(e engine, now time.Time) ([]reading, error) {
	readings, next, err := e.since(w.watch, w.next)
	if err != nil {
		return nil, err
	}
	if next.Before(w.next) {
		return nil, errClockSetBack
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
