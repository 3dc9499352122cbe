// A session: what is made in the engine for one connection, and gone with it.

package dcgm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/health"
)

// maxFields is how many fields a group may have (DCGM_MAX_FIELD_IDS_PER_FIELD_GROUP in dcgm_structs.h).
const maxFields = 128

var errNoGPU = errors.New("the host engine manages no GPU: its driver or NVML may not be loaded")

type session struct {
	engine  engine
	options Options
	memory  *memory
	notes   []string
	// version is the engine's.
	version string
	began   time.Time
	byLevel map[level][]health.Field
	// global fields are the host's, and repeated for every GPU.
	global map[health.Field]bool

	status map[uint]int64  // of the GPUs when the session began
	uuids  map[uint]string // of the GPUs that could tell
	// What is watched, and what of it the engine refused.
	uuidsAt, xids, fields []*watching
	refused               []cell
	tries                 int
	// Where links are: in the link status, or, with an engine before 4.6, in health checks
	// of a group, which tell those that are down.
	linkStatus bool
	checked    uintptr
	wereDown   map[link]bool
}

// newSession reads what there is, and has it watched.
func newSession(ctx context.Context, e engine, o Options, m *memory, now time.Time) (*session, error) {
	s := &session{
		engine: e, options: o, memory: m, began: now,
		status: map[uint]int64{}, uuids: map[uint]string{}, wereDown: map[link]bool{}, global: map[health.Field]bool{},
		byLevel: map[level][]health.Field{},
	}
	// Connecting may succeed where logging in did not (dcgmConnect_v2 in DCGM's
	// dcgmlib/src/DcgmApi.cpp), so this is where it shows.
	var err error
	if s.version, err = e.version(); err != nil {
		return nil, fmt.Errorf("asking for its version: %w", err)
	}
	for _, step := range []func() error{
		s.sortFields,
		s.findGPUs,
		s.findLinks,
		s.watchGPUs,
		s.watchOthers,
		s.watchLinks,
	} {
		if err := inTime(ctx, step()); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// inTime is the error of a call, or that nobody waits for the next one any more.
func inTime(ctx context.Context, err error) error {
	if err != nil {
		return err
	}
	return ctx.Err()
}

func (s *session) note(format string, args ...any) {
	s.notes = append(s.notes, fmt.Sprintf(format, args...))
}

func (s *session) findGPUs() error {
	gpus, err := s.engine.entities(levelGPU)
	if err != nil {
		return err
	}
	if len(gpus) == 0 {
		return errNoGPU
	}
	for _, id := range gpus {
		s.status[id] = s.engine.status(id)
	}
	return nil
}

func (s *session) gpus() (usables, others []entity) {
	for _, id := range slices.Sorted(maps.Keys(s.status)) {
		if gpu := (entity{levelGPU, id}); usable(s.status[id]) {
			usables = append(usables, gpu)
		} else {
			others = append(others, gpu)
		}
	}
	return usables, others
}

// alive is an error where the engine does not answer: then nothing else is to blame for a
// call that failed.
func (s *session) alive() error {
	_, err := s.engine.version()
	return err
}

// findLinks finds out by which way the states of links can be had.
func (s *session) findLinks() error {
	if !since46(s.version) {
		s.note("a host engine of version %q has no link status that this agent can read: links that are down are found by health checks", s.version)
		return nil
	}
	if _, err := s.engine.links(); err != nil {
		s.note("no link status: %v: links that are down are found by health checks", err)
		return s.alive()
	}
	s.linkStatus = true
	return nil
}

// since46 reports whether an engine has the calls that came with DCGM 4.6
// (dcgmNvLinkStatus_v5). One that does not tell its version is taken for older.
func since46(version string) bool {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	a, errA := strconv.Atoi(major)
	b, errB := strconv.Atoi(minor)
	return errA == nil && errB == nil && (a > 4 || a == 4 && b >= 6)
}

// watchGPUs watches those that are usable together, and of the others, each by itself, what
// can still be told of them: reading a lost GPU may fail, and with it that of its group.
func (s *session) watchGPUs() error {
	usables, others := s.gpus()
	together, err := s.group(usables)
	if err != nil {
		return err
	}
	if err := s.checkLinks(together); err != nil {
		return err
	}
	if s.fields, err = s.watch(together, append(s.byLevel[levelGPU], fieldMIG), s.keep()); err != nil {
		return err
	}
	groups := []members{together}
	for _, gpu := range others {
		alone, err := s.group([]entity{gpu})
		if err != nil {
			return err
		}
		groups = append(groups, alone)
	}
	for _, g := range groups {
		uuids, err := s.watch(g, []health.Field{fieldUUID}, s.keep())
		if err != nil {
			return err
		}
		xids, err := s.watch(g, []health.Field{fieldXID}, keepXIDs)
		if err != nil {
			return err
		}
		s.uuidsAt, s.xids = append(s.uuidsAt, uuids...), append(s.xids, xids...)
	}
	for _, w := range s.xids {
		w.next = time.UnixMicro(0) // what was read to try it is read again, and noted
	}
	return nil
}

// checkLinks turns health checks on where nothing else tells the states of links.
func (s *session) checkLinks(group members) error {
	if s.linkStatus || len(group.entities) == 0 {
		return nil
	}
	err := s.engine.checkLinks(group.handle)
	if err != nil {
		s.note("no health checks of links: %v", err)
		return s.alive()
	}
	s.checked = group.handle
	return nil
}

// watchOthers watches what most hosts do not have.
func (s *session) watchOthers() error {
	for _, l := range []level{levelSwitch, levelConnectX} {
		if len(s.byLevel[l]) == 0 {
			continue
		}
		ids, err := s.engine.entities(l)
		if err != nil {
			if err := s.alive(); err != nil {
				return err
			}
			continue // an engine without such entities may say so with an error
		}
		entities := make([]entity, len(ids))
		for i, id := range ids {
			entities[i] = entity{l, id}
		}
		if err := s.add(entities, s.byLevel[l]); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) watchLinks() error {
	if len(s.byLevel[levelLink]) == 0 || !s.linkStatus {
		return nil
	}
	links, err := s.engine.links()
	if err != nil {
		return err
	}
	var entities []entity
	for _, l := range links {
		if usable(s.status[l.gpu]) {
			entities = append(entities, linkEntity(l.gpu, l.index))
		}
	}
	return s.add(entities, s.byLevel[levelLink])
}

// sortFields finds out which entities have the fields that are asked for.
func (s *session) sortFields() error {
	for _, f := range s.options.Fields {
		if f == fieldUUID || f == fieldXID || f == fieldMIG || f <= 0 {
			continue
		}
		l, known := s.engine.levelOf(f)
		switch {
		case !known:
			s.note("field %d is unknown to libdcgm", f)
			continue
		case l == levelNone: // of the host, and read at its GPUs
			s.global[f], l = true, levelGPU
		case l == levelGPUI, l == levelGPUCI:
			l = levelGPU
		case l != levelGPU && l != levelSwitch && l != levelLink && l != levelConnectX:
			s.note("field %d is one of entities of kind %d, which are not read", f, l)
			continue
		}
		if !slices.Contains(s.byLevel[l], f) {
			s.byLevel[l] = append(s.byLevel[l], f)
		}
	}
	return nil
}

// keep is how long the engine keeps what it reads: a few samples may be missed.
func (s *session) keep() time.Duration { return max(10*s.options.Interval, 5*time.Minute) }
