// A session: what is made in the engine for one connection, and gone with it.

package dcgm

import (
	"context"
	"errors"
	"fmt"
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
	began   time.Time
	// global fields are the host's, and repeated for every GPU.
	global map[health.Field]bool

	status map[uint]int64  // of the GPUs when the session began
	uuids  map[uint]string // of the GPUs that could tell
	xids   watching
	fields []*watching
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
	}
	// Connecting may succeed where logging in did not (dcgmConnect_v2 in DCGM's
	// dcgmlib/src/DcgmApi.cpp), so this is where it shows.
	version, err := e.version()
	if err != nil {
		return nil, fmt.Errorf("asking for its version: %w", err)
	}
	for _, step := range []func() error{
		s.findGPUs,
		func() error { return s.findLinks(version) },
		s.watchGPUs,
		s.watchSwitches,
		s.watchLinks,
	} {
		if err := errors.Join(ctx.Err(), step()); err != nil {
			return nil, err
		}
	}
	return s, nil
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

func (s *session) gpus() []entity {
	var gpus []entity
	for id := range s.status {
		gpus = append(gpus, entity{levelGPU, id})
	}
	slices.SortFunc(gpus, func(a, b entity) int { return int(a.id) - int(b.id) })
	return gpus
}

// findLinks finds out by which way the states of links can be had.
func (s *session) findLinks(version string) error {
	if !since46(version) {
		s.note("a host engine of version %q has no link status that this agent can read: links that are down are found by health checks", version)
		return nil
	}
	if _, err := s.engine.links(); err != nil {
		if _, gone := s.engine.version(); gone != nil {
			return gone
		}
		s.note("no link status: %v: links that are down are found by health checks", err)
		return nil
	}
	s.linkStatus = true
	return nil
}

// since46 is true for an engine that has the calls that came with DCGM 4.6
// (dcgmNvLinkStatus_v5). One that does not tell its version is taken for older.
func since46(version string) bool {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	a, errA := strconv.Atoi(major)
	b, errB := strconv.Atoi(minor)
	return errA == nil && errB == nil && (a > 4 || a == 4 && b >= 6)
}

func (s *session) watchGPUs() error {
	group, err := s.group(s.gpus())
	if err != nil {
		return err
	}
	if !s.linkStatus {
		s.checked = group.handle
		if err := s.engine.checkLinks(group.handle); err != nil {
			s.note("no health checks of links: %v", err)
			s.checked = 0
		}
	}
	uuids, err := s.watch(group, []health.Field{fieldUUID}, s.keep())
	if err != nil {
		return err
	}
	for _, w := range uuids {
		for e, v := range w.latest {
			s.nameGPU(e.entity.id, v.text)
		}
	}
	xids, err := s.watch(group, []health.Field{fieldXID}, keepXIDs)
	if err != nil {
		return err
	}
	if len(xids) == 0 {
		return errors.New("XIDs cannot be watched")
	}
	s.xids = *xids[0]
	s.xids.next = time.UnixMicro(0) // what was read to try it is read again, and noted
	return s.add(group, append(s.fieldsOf(levelNone, levelGPU, levelGPUI, levelGPUCI), fieldMIG))
}

func (s *session) nameGPU(id uint, uuid string) {
	if uuid != "" && !strings.HasPrefix(uuid, "<<<") { // DCGM_STR_BLANK and its kin
		s.uuids[id] = uuid
		s.memory.gpus[uuid] = true
	}
}

func (s *session) watchSwitches() error {
	fields := s.fieldsOf(levelSwitch)
	ids, err := s.engine.entities(levelSwitch)
	if len(fields) == 0 || err != nil || len(ids) == 0 {
		return nil // most hosts have none
	}
	switches := make([]entity, len(ids))
	for i, id := range ids {
		switches[i] = entity{levelSwitch, id}
	}
	return s.addGroup(switches, fields)
}

func (s *session) watchLinks() error {
	fields := s.fieldsOf(levelLink)
	if len(fields) == 0 || !s.linkStatus {
		return nil
	}
	links, err := s.engine.links()
	if err != nil || len(links) == 0 {
		return err
	}
	entities := make([]entity, len(links))
	for i, l := range links {
		entities[i] = linkEntity(l.gpu, l.index)
	}
	return s.addGroup(entities, fields)
}

func (s *session) addGroup(members []entity, fields []health.Field) error {
	group, err := s.group(members)
	if err != nil {
		return err
	}
	return s.add(group, fields)
}

// fieldsOf are the caller's fields that entities of some levels have.
func (s *session) fieldsOf(levels ...level) []health.Field {
	var fields []health.Field
	for _, f := range s.options.Fields {
		if f == fieldUUID || f == fieldXID || f == fieldMIG || slices.Contains(fields, f) || f <= 0 {
			continue
		}
		l, known := s.engine.levelOf(f)
		if !known && slices.Contains(levels, levelGPU) {
			s.note("field %d is unknown to libdcgm", f)
		}
		if known && slices.Contains(levels, l) {
			s.global[f] = l == levelNone
			fields = append(fields, f)
		}
	}
	return fields
}

// keep is how long the engine keeps what it reads: a few samples may be missed.
func (s *session) keep() time.Duration { return max(10*s.options.Interval, 5*time.Minute) }
