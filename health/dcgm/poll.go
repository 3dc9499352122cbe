// A poll: what one session reads for one sample.

package dcgm

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/health"
)

// errOutdated says that the engine has to be connected to again.
var errOutdated = errors.New("the session is out of date")

var (
	// errDevicesCame says that there are GPUs that the session's groups do not have.
	errDevicesCame = fmt.Errorf("%w: GPUs have come", errOutdated)
	// errClockSetBack says that the engine's clock reads less than before. Until it has caught up, what is watched already has nothing new,
	// and is not even read. A field of a GPU is read at once by a new watch, unless another client watches it, too (AddEntityFieldWatch in
	// DCGM's dcgmlib/src/DcgmCacheManager.cpp). The others are unknown until then.
	errClockSetBack = fmt.Errorf("%w: the engine's clock was set back", errOutdated)
)

// values of a sample.
type values map[health.Entity]map[health.Field]health.Value

func (v values) set(e health.Entity, f health.Field, value health.Value) {
	if v[e] == nil {
		v[e] = map[health.Field]health.Value{}
	}
	v[e][f] = value
}

func number(n int64) health.Value { return health.Value{Int: n, Float: float64(n)} }

func usable(status int64) bool { return status == statusOK || status == statusFake }

func (s *session) read(ctx context.Context, now time.Time) (values, error) {
	status, err := s.readStatus()
	if err != nil {
		return nil, err
	}
	if err := inTime(ctx, s.readUUIDs(now)); err != nil {
		return nil, err
	}
	if err := inTime(ctx, s.readXIDs(now)); err != nil {
		return nil, err
	}
	for _, w := range s.fields {
		_, err := w.read(s.engine, now)
		if err := inTime(ctx, err); err != nil {
			return nil, err
		}
	}
	out := values{}
	s.putStatus(out, status)
	s.putFields(out, status, now.Add(-3*s.options.Interval))
	return out, s.putLinks(out, status)
}

// readStatus finds the GPUs that there are.
func (s *session) readStatus() (map[uint]int64, error) {
	ids, err := s.engine.entities(levelGPU)
	if err != nil {
		return nil, err
	}
	if len(ids) == 0 {
		return nil, errNoGPU
	}
	status := map[uint]int64{}
	for _, id := range ids {
		status[id] = s.engine.status(id)
		if usable(status[id]) && !usable(s.status[id]) {
			return nil, errDevicesCame
		}
	}
	return status, nil
}

// readUUIDs names the GPUs, until each has told its name.
func (s *session) readUUIDs(now time.Time) error {
	if len(s.uuids) == len(s.status) {
		return nil
	}
	for _, w := range s.uuidsAt {
		if _, err := w.read(s.engine, now); err != nil {
			return err
		}
		for c, l := range w.latest {
			if l.text != "" && !strings.HasPrefix(l.text, "<<<") { // DCGM_STR_BLANK and its kin (dcgm_structs.h)
				s.uuids[c.entity.id] = l.text
			}
		}
	}
	return nil
}

// readXIDs takes XIDs into the memory.
func (s *session) readXIDs(now time.Time) error {
	for _, w := range s.xids {
		readings, err := w.read(s.engine, now)
		if err != nil {
			return err
		}
		for _, r := range readings {
			if uuid, known := s.uuids[r.entity.id]; known && !r.value.Blank && r.value.Int != 0 {
				s.memory.note(health.XID{GPU: uuid, Code: r.value.Int, Time: r.at})
			}
		}
		s.memory.forget(w.next)
		w.next = w.next.Add(-overlap)
	}
	return nil
}

// putStatus puts the state of every GPU that has told its UUID. One that is not listed any
// more is not in the sample.
func (s *session) putStatus(out values, status map[uint]int64) {
	for id, state := range status {
		if uuid, known := s.uuids[id]; known {
			out.set(health.Entity{Kind: health.KindGPU, ID: uuid}, health.FieldGPUStatus, number(state))
		}
	}
}

// putFields puts the value of every field that is watched. Of a GPU that is not usable only
// its state is told: what was read of it before is not how it is.
func (s *session) putFields(out values, status map[uint]int64, since time.Time) {
	for _, w := range s.fields {
		for _, e := range w.group.entities {
			target, ok := s.target(e, status)
			if !ok {
				continue
			}
			for _, f := range w.fields {
				s.putField(out, target, f, w.value(cell{e, f}, since))
			}
		}
	}
	for _, c := range s.refused {
		if target, ok := s.target(c.entity, status); ok && c.field != fieldUUID && c.field != fieldXID {
			s.putField(out, target, c.field, health.Value{Blank: true})
		}
	}
}

func (s *session) putField(out values, target health.Entity, f health.Field, value health.Value) {
	if f == fieldMIG {
		out.set(target, health.FieldMIG, value)
	}
	if s.global[f] {
		target = health.Entity{Kind: health.KindNode}
		if before, put := out[target][f]; put && !before.Blank {
			return
		}
	}
	out.set(target, f, value)
}

// target is what an entity is called outside; false for one that cannot be named, or is not
// usable now.
func (s *session) target(e entity, status map[uint]int64) (health.Entity, bool) {
	switch e.level {
	case levelSwitch:
		return health.Entity{Kind: health.KindSwitch, ID: strconv.Itoa(int(e.id))}, true
	case levelConnectX: // DCGM does not tell the device's name; sysfs, which does, names its ports
		return health.Entity{Kind: health.KindNIC, ID: "connectx-" + strconv.Itoa(int(e.id))}, true
	case levelLink:
		return s.linkTarget(link{gpu: e.id >> 24, index: e.id >> 8 & 0xffff}, status)
	default:
		uuid, known := s.uuids[e.id]
		return health.Entity{Kind: health.KindGPU, ID: uuid}, known && usable(status[e.id])
	}
}

func (s *session) linkTarget(l link, status map[uint]int64) (health.Entity, bool) {
	index := strconv.Itoa(int(l.index))
	if l.index == unknownLink {
		index = "unknown"
	}
	uuid, known := s.uuids[l.gpu]
	return health.Entity{Kind: health.KindNVLink, ID: uuid + "/" + index}, known && usable(status[l.gpu])
}

// putLinks puts the states of NVLinks. Health checks tell links that are down, and by their
// silence that they are up again, except of a GPU that is not usable: a check leaves it out
// (DCGM's modules/health/DcgmHealthWatch.cpp).
func (s *session) putLinks(out values, status map[uint]int64) error {
	put := func(l link, state int64) {
		if target, ok := s.linkTarget(l, status); ok {
			out.set(target, health.FieldLinkState, number(state))
		}
	}
	if s.linkStatus {
		links, err := s.engine.links()
		for _, l := range links {
			put(l, l.state)
		}
		return err
	}
	if s.checked == 0 {
		return nil
	}
	down, err := s.engine.downLinks(s.checked)
	for l := range s.wereDown {
		put(l, linkUp)
	}
	for _, l := range down {
		s.wereDown[l] = true
		put(l, linkDown)
	}
	return err
}

var linkIndex = regexp.MustCompile(`(?i)link (\d+)`)

// linkOf is the link that a health check's message speaks of: "GPU 0's NvLink link 3 is
// currently down" (DCGM_FR_NVLINK_DOWN_MSG in DCGM's dcgm_errors.h).
func linkOf(message string) uint {
	if found := linkIndex.FindStringSubmatch(message); found != nil {
		if index, err := strconv.ParseUint(found[1], 10, 16); err == nil {
			return uint(index)
		}
	}
	return unknownLink
}
