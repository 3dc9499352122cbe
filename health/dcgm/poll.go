// A poll: what one session reads for one sample.

package dcgm

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/lockstep-dev/lockstep/health"
)

// errDevicesCame says that there are GPUs that the session's groups do not have.
var errDevicesCame = errors.New("GPUs have come")

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
	if err := errors.Join(ctx.Err(), s.readXIDs(now)); err != nil {
		return nil, err
	}
	for _, w := range s.fields {
		_, err := w.read(s.engine, now)
		if err := errors.Join(ctx.Err(), err); err != nil {
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

// readXIDs takes XIDs into the memory.
func (s *session) readXIDs(now time.Time) error {
	readings, err := s.xids.read(s.engine, now)
	if err != nil {
		return err
	}
	for _, r := range readings {
		if !r.value.Blank && r.value.Int != 0 {
			s.memory.note(health.XID{GPU: s.uuid(r.entity.id), Code: r.value.Int, Time: r.at})
		}
	}
	s.memory.forget(s.xids.next)
	s.xids.next = s.xids.next.Add(-overlap)
	return nil
}

// uuid of a GPU, or a name that stands for it: a GPU that was lost before its UUID was read
// still has to be reported.
func (s *session) uuid(gpu uint) string {
	if uuid, known := s.uuids[gpu]; known {
		return uuid
	}
	return fmt.Sprintf("dcgm-%d", gpu)
}

// putStatus puts the state of every GPU. One that was seen before and is not there now is
// lost: DCGM does not list, after it was restarted, a GPU that fell off the bus.
func (s *session) putStatus(out values, status map[uint]int64) {
	for uuid := range s.memory.gpus {
		out.set(health.Entity{Kind: health.KindGPU, ID: uuid}, health.FieldGPUStatus, number(statusLost))
	}
	for id, state := range status {
		out.set(health.Entity{Kind: health.KindGPU, ID: s.uuid(id)}, health.FieldGPUStatus, number(state))
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

// target is what an entity is called outside; false for one that is not usable now.
func (s *session) target(e entity, status map[uint]int64) (health.Entity, bool) {
	switch e.level {
	case levelSwitch:
		return health.Entity{Kind: health.KindSwitch, ID: strconv.Itoa(int(e.id))}, true
	case levelLink:
		l := link{gpu: e.id >> 24, index: e.id >> 8 & 0xffff}
		return s.linkEntity(l), usable(status[l.gpu])
	default:
		return health.Entity{Kind: health.KindGPU, ID: s.uuid(e.id)}, usable(status[e.id])
	}
}

func (s *session) linkEntity(l link) health.Entity {
	index := strconv.Itoa(int(l.index))
	if l.index == unknownLink {
		index = "unknown"
	}
	return health.Entity{Kind: health.KindNVLink, ID: s.uuid(l.gpu) + "/" + index}
}

// putLinks puts the states of NVLinks. Health checks tell links that are down, and by their
// silence that they are up again, except of a GPU that is not usable: a check leaves it out
// (DCGM's modules/health/DcgmHealthWatch.cpp).
func (s *session) putLinks(out values, status map[uint]int64) error {
	if s.linkStatus {
		links, err := s.engine.links()
		for _, l := range links {
			if usable(status[l.gpu]) {
				out.set(s.linkEntity(l), health.FieldLinkState, number(l.state))
			}
		}
		return err
	}
	if s.checked == 0 {
		return nil
	}
	down, err := s.engine.downLinks(s.checked)
	if err != nil {
		return err
	}
	for l := range s.wereDown {
		if usable(status[l.gpu]) {
			out.set(s.linkEntity(l), health.FieldLinkState, number(linkUp))
		}
	}
	for _, l := range down {
		s.wereDown[l] = true
		out.set(s.linkEntity(l), health.FieldLinkState, number(linkDown))
	}
	return nil
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
