// The engine over go-dcgm. It translates, and decides nothing.

//go:build linux && cgo && !nodcgm

package dcgm

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	nvidia "github.com/NVIDIA/go-dcgm/pkg/dcgm"

	"github.com/lockstep-dev/lockstep/health"
)

// Built reports whether a binary can reach DCGM.
const Built = true

// goDCGM is the connection that go-dcgm keeps for the process: there is only one.
type goDCGM struct {
	loaded bool
	// names of field groups have to be unique in the engine, with those of its other clients.
	run, made uint64
}

func newEngine() engine { return &goDCGM{run: rand.Uint64()} }

func (e *goDCGM) open(library string, at Address) error {
	if !e.loaded {
		if err := load(library); err != nil {
			return err
		}
		e.loaded = true
	}
	var err error
	switch at.Mode {
	case Embedded:
		_, err = nvidia.Init(nvidia.Embedded)
	case Unix: // as a path and a flag, which every DCGM 4 knows; unix:// needs 4.5
		_, err = nvidia.Init(nvidia.Standalone, at.Target, "1")
	case VSock:
		_, err = nvidia.Init(nvidia.Standalone, at.String())
	default:
		_, err = nvidia.Init(nvidia.Standalone, at.Target, "0")
	}
	return err
}

func (e *goDCGM) close() error { return nvidia.Shutdown() }

func (e *goDCGM) version() (string, error) {
	info, err := nvidia.GetHostengineVersionInfo()
	if err != nil {
		return "", err
	}
	for pair := range strings.SplitSeq(info.RawBuildInfoString, ";") {
		if version, found := strings.CutPrefix(pair, "version:"); found {
			return version, nil
		}
	}
	return "", nil
}

func (e *goDCGM) entities(l level) ([]uint, error) {
	return nvidia.GetEntityGroupEntities(nvidia.Field_Entity_Group(l))
}

func (e *goDCGM) status(gpu uint) int64 { return int64(nvidia.GetGPUStatus(gpu)) }

func (e *goDCGM) levelOf(f health.Field) (level, bool) {
	meta, err := nvidia.FieldGetByID(nvidia.Short(f))
	return level(meta.EntityLevel), err == nil
}

func (e *goDCGM) name() string {
	e.made++
	return fmt.Sprintf("lockstep-%x-%d", e.run, e.made)
}

func (e *goDCGM) group(members []entity) (uintptr, []entity, error) {
	group, err := nvidia.CreateGroup(e.name())
	if err != nil {
		return 0, nil, err
	}
	var refused []entity
	for _, m := range members {
		if nvidia.AddEntityToGroup(group, nvidia.Field_Entity_Group(m.level), m.id) != nil {
			refused = append(refused, m)
		}
	}
	if len(refused) == len(members) {
		_ = nvidia.DestroyGroup(group)
		return 0, refused, errors.New("none of the entities can be added to a group")
	}
	return group.GetHandle(), refused, nil
}

func (e *goDCGM) watch(group uintptr, fields []health.Field, every, keep time.Duration) (watch, error) {
	ids := make([]nvidia.Short, len(fields))
	for i, f := range fields {
		ids[i] = nvidia.Short(f)
	}
	fieldGroup, err := nvidia.FieldGroupCreate(e.name(), ids)
	if err != nil {
		return watch{}, err
	}
	if err := nvidia.WatchFieldsWithGroupEx(fieldGroup, groupHandle(group), every.Microseconds(), keep.Seconds(), 0); err != nil {
		_ = nvidia.FieldGroupDestroy(fieldGroup)
		return watch{}, err
	}
	return watch{group, fieldGroup.GetHandle()}, nil
}

func (e *goDCGM) unwatch(w watch) error {
	var fields nvidia.FieldHandle
	fields.SetHandle(w.fields)
	return errors.Join(nvidia.UnwatchFields(fields, groupHandle(w.group)), nvidia.FieldGroupDestroy(fields))
}

func (e *goDCGM) since(w watch, from time.Time) ([]reading, time.Time, error) {
	var fields nvidia.FieldHandle
	fields.SetHandle(w.fields)
	values, next, err := nvidia.GetValuesSince(groupHandle(w.group), fields, from)
	if err != nil {
		return nil, from, err
	}
	readings := make([]reading, len(values))
	for i := range values {
		readings[i] = toReading(&values[i])
	}
	return readings, next, nil
}

func groupHandle(group uintptr) nvidia.GroupHandle {
	var h nvidia.GroupHandle
	h.SetHandle(group)
	return h
}

// blankDouble and all above it are DCGM_FP64_BLANK and its kin (dcgm_structs.h).
const blankDouble = 140737488355328.0

func toReading(v *nvidia.FieldValue_v2) reading {
	r := reading{
		entity: entity{level(v.EntityGroupId), v.EntityID},
		field:  health.Field(v.FieldID),
		at:     time.UnixMicro(v.TS),
	}
	switch v.FieldType {
	case nvidia.DCGM_FT_INT64, nvidia.DCGM_FT_TIMESTAMP:
		n := v.Int64()
		r.value = health.Value{Int: n, Float: float64(n), Blank: nvidia.IsInt64Blank(n)}
	case nvidia.DCGM_FT_DOUBLE:
		f := v.Float64()
		r.value = health.Value{Int: int64(f), Float: f, Blank: f >= blankDouble}
	case nvidia.DCGM_FT_STRING:
		r.text = v.String()
		r.value.Blank = true // a string is nothing that a limit is held against
	default:
		r.value.Blank = true
	}
	if v.Status != 0 || r.value.Blank {
		r.value = health.Value{Blank: true}
	}
	return r
}

func (e *goDCGM) links() ([]link, error) {
	states, err := nvidia.GetNvLinkLinkStatus()
	var links []link
	for _, s := range states {
		if s.ParentType == nvidia.FE_GPU && s.State != nvidia.LS_NOT_SUPPORTED {
			links = append(links, link{s.ParentId, s.Index, int64(s.State)})
		}
	}
	return links, err
}

func (e *goDCGM) checkLinks(group uintptr) error {
	return nvidia.HealthSet(groupHandle(group), nvidia.DCGM_HEALTH_WATCH_NVLINK)
}

func (e *goDCGM) downLinks(group uintptr) ([]link, error) {
	response, err := nvidia.HealthCheck(groupHandle(group))
	var links []link
	for _, incident := range response.Incidents {
		if incident.Error.Code != nvidia.DCGM_FR_NVLINK_DOWN || incident.EntityInfo.EntityGroupId != nvidia.FE_GPU {
			continue
		}
		links = append(links, link{incident.EntityInfo.EntityId, linkOf(incident.Error.Message), linkDown})
	}
	return links, err
}
