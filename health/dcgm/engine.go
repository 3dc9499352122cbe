// A host engine as the reader sees it, in plain types.

package dcgm

import (
	"time"

	"github.com/lockstep-dev/lockstep/health"
)

// level is the kind of entity that has a field: DCGM_FE_* in dcgm_fields.h.
type level uint

const (
	levelNone   level = 0 // the host: DCGM repeats such a field for every GPU
	levelGPU    level = 1
	levelSwitch level = 3
	levelGPUI   level = 4 // instances of a GPU in MIG mode: their fields are the GPU's, too
	levelGPUCI  level = 5
	levelLink   level = 6
	// levelConnectX are network adapters, by their place on PCIe (DCGM_FE_CONNECTX).
	levelConnectX level = 9
)

// Fields that are read whatever the caller asks for (dcgm_fields.h).
const (
	fieldUUID health.Field = 54
	fieldMIG  health.Field = 67
	fieldXID  health.Field = 230
)

// The states of an entity, DcgmEntityStatus_t in dcgm_structs.h.
const (
	statusOK   = 1
	statusFake = 5
)

// The states of a link, dcgmNvLinkLinkState_t in dcgm_structs.h.
const (
	linkDown = 2
	linkUp   = 3
)

// entity is one by DCGM's ids, which hold for the life of a host engine only.
type entity struct {
	level level
	id    uint
}

// linkEntity is the link of a GPU: type, index and GPU packed into one id (dcgm_link_s in dcgm_structs.h).
func linkEntity(gpu, index uint) entity {
	return entity{levelLink, uint(levelGPU) | index<<8 | gpu<<24}
}

// unknownLink is the index of a link of which no more is known than its GPU.
const unknownLink = ^uint(0)

// link is the state of a GPU's NVLink.
type link struct {
	gpu, index uint
	state      int64
}

// reading is a field's value at a time.
type reading struct {
	entity entity
	field  health.Field
	at     time.Time
	value  health.Value
	text   string // of a field that is a string
}

// watch is a group of fields that the engine reads on a group of entities.
type watch struct {
	group, fields uintptr
}

// engine is one connection to a host engine. None of its calls has a deadline, and no two
// may be made at a time: a gate sees to both.
type engine interface {
	open(library string, at Address) error
	close() error
	// version is the host engine's, such as 4.6.0.
	version() (string, error)
	entities(l level) ([]uint, error)
	status(gpu uint) int64
	// levelOf tells which entities have a field; false for a field that this libdcgm does not know.
	levelOf(f health.Field) (level, bool)
	// group makes a group of entities, of which the engine may refuse some.
	group(members []entity) (group uintptr, refused []entity, err error)
	// watch has the engine read fields on a group at an interval, and keep them.
	watch(group uintptr, fields []health.Field, every, keep time.Duration) (watch, error)
	unwatch(w watch) error
	// since reads what was recorded from a time on, and says from when on to read next.
	since(w watch, from time.Time) ([]reading, time.Time, error)
	// links are the states of all GPUs' NVLinks; it needs DCGM 4.6 on both sides.
	links() ([]link, error)
	// checkLinks turns DCGM's health checks of NVLink on for a group, and downLinks has them made.
	checkLinks(group uintptr) error
	downLinks(group uintptr) ([]link, error)
}
