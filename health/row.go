// Rows: what is looked at, when that is ill, how ill, and what makes it well again. Rows
// are data: the default ones are in defaults/, and a user's have the same shape.

package health

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// Row is one line of the table of signals.
type Row struct {
	// ID says what is read: a DCGM field's number, xid:<code>, or a name of otherNames. Where
	// several rows read the same, a slash and a word tell them apart: 1523/reboot.
	ID string `json:"id"`
	// Name is what people call it. The names of DCGM's fields change between its versions.
	Name string `json:"name"`
	// Entity is the kind of what is ill.
	Entity Kind `json:"entity"`
	// Signal is what a report of it is called. No two rows of a kind share one.
	Signal string `json:"signal"`
	// When it is ill.
	When Condition `json:"when"`
	// Polls in a row in which the condition has to hold, or not to hold. Default: 1.
	Polls int `json:"polls,omitempty"`
	// State of what is ill: Degraded, Failed, or None for what is only observed.
	State v1alpha1.HealthState `json:"state"`
	// Escalate says when it becomes worse. It does not become better again until it clears.
	Escalate *Escalation `json:"escalate,omitempty"`
	// Clears says what makes it well. Default: Itself.
	Clears Clearing `json:"clears,omitempty"`
	// QuietFor is how long the condition must not have held for a fault to clear by itself.
	QuietFor metav1.Duration `json:"quietFor,omitzero"`
	// IgnoredAfterBoot is how long after boot, or a load of the driver, nothing is concluded:
	// links train then, and devices come one by one.
	IgnoredAfterBoot metav1.Duration `json:"ignoredAfterBoot,omitzero"`
	// Unless lists the entities that the row does not judge.
	Unless []Exception `json:"unless,omitempty"`
	// Up are the values of what is up, for the exception NeverUp. Default: the condition does not hold.
	Up []int64 `json:"up,omitempty"`
	// Source is where the row is from.
	Source string `json:"source"`
	// Disabled turns the row off.
	Disabled bool `json:"disabled,omitempty"`

	what what
	test test // the member of When that is given
	// alone reports whether that depends on no other field.
	alone bool
}

// Observed is the state of a row that is looked at and never reported.
const Observed v1alpha1.HealthState = "None"

// Clearing is what ends a fault.
type Clearing string

// What ends a fault. An acknowledgement ends each.
const (
	// ClearsItself: it ends when its condition no longer holds.
	ClearsItself Clearing = "Itself"
	// ClearsOnRecovery: it ends when its condition no longer holds, the node has a new boot id
	// or its driver was loaded again, and the driver asks for no recovery of the GPU (field 1523 = 0).
	ClearsOnRecovery Clearing = "Recovery"
	// ClearsOnAcknowledgement: it ends when a person says so.
	ClearsOnAcknowledgement Clearing = "Acknowledgement"
)

// Exception is why an entity is not judged.
type Exception string

// The exceptions.
const (
	// UnlessMIG: the GPU is in MIG mode, in which its NVLinks are down by design.
	UnlessMIG Exception = "MIG"
	// UnlessNeverUp: it has not been seen up. Links that nobody bridged and ports without a
	// cable are down for ever, and nothing is wrong.
	UnlessNeverUp Exception = "NeverUp"
)

// Escalation is when a fault becomes worse.
type Escalation struct {
	State v1alpha1.HealthState `json:"state"`
	// AtLeast is how many times within which time the counter rose.
	AtLeast int64           `json:"atLeast,omitempty"`
	Within  metav1.Duration `json:"within,omitzero"`
	// With are signals that the same GPU, or a link of it, has too.
	With []string `json:"with,omitempty"`
	// Clears says what makes it well then. Default: what does for the row.
	Clears Clearing `json:"clears,omitempty"`
}

// otherNames are what rows call the things that are not fields of DCGM.
var otherNames = map[string]Field{
	"link-state":                     FieldLinkState,
	"gpu-status":                     FieldGPUStatus,
	"port-state":                     FieldPortState,
	"port-link-downed":               FieldPortLinkDowned,
	"port-symbol-errors":             FieldPortSymbolErrors,
	"port-link-recovery":             FieldPortLinkRecovery,
	"port-phys-state":                FieldPortPhysState,
	"port-receive-errors":            FieldPortReceiveErrors,
	"port-transmit-discards":         FieldPortTransmitDiscards,
	"port-local-integrity-errors":    FieldPortLocalIntegrityErrors,
	"port-excessive-buffer-overruns": FieldPortExcessiveBufferOverruns,
	"gpu-missing":                    fieldMissing,
	"port-missing":                   fieldMissing,
}

// fieldMissing stands for an entity that is not in the sample at all.
const fieldMissing Field = -100

// what is the first part of a row's id.
type what struct {
	field Field // 0 for an XID
	xid   int64
}

func parseID(id string) (what, error) {
	first, _, _ := strings.Cut(id, "/")
	if field, ok := otherNames[first]; ok {
		return what{field: field}, nil
	}
	if code, ok := strings.CutPrefix(first, "xid:"); ok {
		n, err := strconv.ParseInt(code, 10, 32)
		if err != nil || n <= 0 {
			return what{}, fmt.Errorf("%q is not the number of an XID", code)
		}
		return what{xid: n}, nil
	}
	n, err := strconv.ParseInt(first, 10, 16)
	if err != nil || n <= 0 {
		return what{}, fmt.Errorf("id %q is neither a DCGM field's number, nor xid:<code>, nor one of the other names", id)
	}
	return what{field: Field(n)}, nil
}

func (w what) isXID() bool     { return w.xid != 0 }
func (w what) isMissing() bool { return w.field == fieldMissing }

// counts reports whether a row is of a counter.
func (r *Row) counts() bool { return r.When.Increase != nil || r.When.Rate != nil }

func (r *Row) polls() int { return max(1, r.Polls) }

// clears is what ends a fault of the row in this state.
func (r *Row) clears(state v1alpha1.HealthState) Clearing {
	if r.Escalate != nil && state == r.Escalate.State {
		return cmp.Or(r.Escalate.Clears, r.Clears, ClearsItself)
	}
	return cmp.Or(r.Clears, ClearsItself)
}

// active reports whether a row can make a fault.
func (r *Row) active() bool { return !r.Disabled && r.State != Observed }

// quiet is how long a fault that clears by itself is kept: an increase is remembered for its window.
func (r *Row) quiet() time.Duration { return max(r.QuietFor.Duration, r.When.window()) }

// remembered is how long the row needs to know of increases.
func (r *Row) remembered() time.Duration {
	if r.Escalate == nil {
		return r.When.window()
	}
	return max(r.When.window(), r.Escalate.Within.Duration)
}

// title is how a message begins: the field, by number and name.
func (r *Row) title() string {
	switch first, _, _ := strings.Cut(r.ID, "/"); {
	case r.what.isXID():
		return fmt.Sprintf("XID %d (%s)", r.what.xid, r.Name)
	case r.what.field > 0:
		return fmt.Sprintf("field %s %s", first, r.Name)
	default:
		return r.Name
	}
}
