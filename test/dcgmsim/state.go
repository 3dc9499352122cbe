// The script of a simulated host engine, and what can be done to it.

package dcgmsim

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// StateEnv names the file that the simulator reads again on every call.
const StateEnv = "LOCKSTEP_DCGMSIM_STATE"

// Kind is a kind of entity, as the script spells it.
type Kind string

// The kinds of entities.
const (
	GPU    Kind = "gpu"
	Switch Kind = "switch"
	Link   Kind = "link"
	Node   Kind = "node"
	// ConnectX is a network adapter.
	ConnectX Kind = "connectx"
)

// The states of a GPU (DcgmEntityStatus_t) and of a link (dcgmNvLinkLinkState_t).
const (
	StatusOK       = 1
	StatusLost     = 4
	StatusDetached = 7

	LinkNotSupported = 0
	LinkDisabled     = 1
	LinkDown         = 2
	LinkUp           = 3
)

// State is a scripted host engine. What is said last about a thing holds. Every method
// writes the file at once, and may be called while the engine is in use.
type State struct {
	path string
	mu   sync.Mutex
	// lines by what they are about, in the order in which that was first said.
	keys  []string
	lines map[string]string
	epoch int
	xids  int
	// held reports whether nothing is written.
	held bool
}

// NewState makes a host engine that runs and has no devices. The caller sets StateEnv to path.
func NewState(path string) (*State, error) {
	s := &State{path: path, lines: map[string]string{}}
	return s, s.write()
}

// Together writes all that is said in do at once.
func (s *State) Together(do func()) {
	s.hold(true)
	do()
	s.hold(false)
}

func (s *State) hold(held bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = held
	s.mustWrite()
}

// Version is the host engine's; 4.6.0 where nothing is said.
func (s *State) Version(version string) { s.say("version", "version %s", version) }

// SetClock sets the engine's clock ahead of the machine's, or back where d is negative.
func (s *State) SetClock(d time.Duration) { s.say("clock", "clock %d", d.Microseconds()) }

// AddGPU adds a GPU, or changes its status.
func (s *State) AddGPU(id int, uuid string, status int) {
	s.say(fmt.Sprint("gpu ", id), "gpu %d %s %d", id, uuid, status)
}

// Lose takes a GPU away, as if it had never been there.
func (s *State) Lose(id int) { s.say(fmt.Sprint("gpu ", id), "") }

// AddSwitch adds an NVSwitch.
func (s *State) AddSwitch(id int) { s.say(fmt.Sprint("switch ", id), "switch %d", id) }

// AddConnectX adds a network adapter.
func (s *State) AddConnectX(id int) { s.say(fmt.Sprint("connectx ", id), "connectx %d", id) }

// SetLink sets the state of a GPU's NVLink.
func (s *State) SetLink(gpu, index, state int) {
	s.say(fmt.Sprint("link ", gpu, index), "link gpu %d %d %d", gpu, index, state)
}

// LinkID is the id of a GPU's NVLink as an entity (dcgm_link_s in dcgm_structs.h).
func LinkID(gpu, index int) int { return 1 | index<<8 | gpu<<24 }

// SetField sets what a field reads: an int, a float64 or a string.
func (s *State) SetField(kind Kind, id, field int, value any) {
	names := map[string]string{"int": "int", "int64": "int", "float64": "double", "string": "string"}
	s.setField(kind, id, field, fmt.Sprintf("%s %v", names[fmt.Sprintf("%T", value)], value))
}

// BlankField makes a field read blank: the engine does not have it.
func (s *State) BlankField(kind Kind, id, field int) { s.setField(kind, id, field, "blank") }

// BlankDouble makes a field of floating point read blank.
func (s *State) BlankDouble(kind Kind, id, field int) { s.setField(kind, id, field, "blankdouble") }

// FailField makes a field read as an error (dcgmReturn_t) instead of a value.
func (s *State) FailField(kind Kind, id, field, code int) {
	s.setField(kind, id, field, fmt.Sprint("status ", code))
}

// SilenceField records nothing more of a field.
func (s *State) SilenceField(kind Kind, id, field int) { s.setField(kind, id, field, "nodata") }

// UnwatchField makes every reading of the field fail: not watched.
func (s *State) UnwatchField(kind Kind, id, field int) { s.setField(kind, id, field, "notwatched") }

func (s *State) setField(kind Kind, id, field int, reads string) {
	s.say(fmt.Sprint("field ", kind, id, " ", field), "field %s %d %d %s", kind, id, field, reads)
}

// UnknownField is a field that the engine has never heard of.
func (s *State) UnknownField(field int) { s.say(fmt.Sprint("unknown ", field), "unknown %d", field) }

// XID reports an error of a GPU.
func (s *State) XID(gpu, code int, at time.Time) {
	s.mu.Lock()
	s.xids++
	key := fmt.Sprint("xid ", s.xids)
	s.mu.Unlock()
	s.say(key, "xid %d %d %d", gpu, code, at.UnixMicro())
}

// Incident is what a health check finds: the system, result and code are those of
// dcgmHealthSystems_t, dcgmHealthWatchResults_t and dcgmError_t.
func (s *State) Incident(kind Kind, id, system, result, code int, message string) {
	s.say(fmt.Sprint("incident ", kind, id, code, message), "incident %s %d %d %d %d %s", kind, id, system, result, code, message)
}

// NoIncidents ends all incidents.
func (s *State) NoIncidents() { s.forget("incident ") }

// EngineDown stops the host engine: no call is answered, and every connection is lost.
func (s *State) EngineDown() { s.say("engine", "engine down") }

// EngineUp starts the host engine again. It knows nothing of the connections of before.
func (s *State) EngineUp() {
	s.mu.Lock()
	s.epoch++
	epoch := s.epoch
	s.mu.Unlock()
	s.say("epoch", "epoch %d", epoch)
	s.say("engine", "")
}

// Stall makes a function block until Resume; * is every function.
func (s *State) Stall(function string) { s.say("stall "+function, "stall %s", function) }

// Resume lets all functions go on.
func (s *State) Resume() { s.forget("stall ") }

// Fail makes a function return a code (dcgmReturn_t); 0 lets it work again.
func (s *State) Fail(function string, code int) {
	if code == 0 {
		s.say("fail "+function, "")
		return
	}
	s.say("fail "+function, "fail %s %d", function, code)
}

// Trace records the calls from now on.
func (s *State) Trace() {
	_ = os.Remove(s.path + ".calls")
	s.say("trace", "trace")
}

// Calls are the functions that were called since Trace, in order.
func (s *State) Calls() []string {
	data, _ := os.ReadFile(s.path + ".calls") // absent: none
	return strings.Fields(string(data))
}

func (s *State) say(key, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.keys, key) {
		s.keys = append(s.keys, key)
	}
	s.lines[key] = fmt.Sprintf(format, args...)
	s.mustWrite()
}

func (s *State) forget(prefix string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys = slices.DeleteFunc(s.keys, func(key string) bool { return strings.HasPrefix(key, prefix) })
	s.mustWrite()
}

// mustWrite panics where the script cannot be written: a test that goes on would test something else.
func (s *State) mustWrite() {
	if s.held {
		return
	}
	if err := s.write(); err != nil {
		panic(err)
	}
}

// write replaces the file in one move: a call never reads half a script.
func (s *State) write() error {
	var b strings.Builder
	for _, key := range s.keys {
		if line := s.lines[key]; line != "" {
			b.WriteString(line + "\n")
		}
	}
	if err := os.WriteFile(s.path+".new", []byte(b.String()), 0o600); err != nil {
		return err
	}
	return os.Rename(s.path+".new", s.path)
}
