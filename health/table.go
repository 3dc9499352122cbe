// The table: all rows, checked, and ready to be looked up.

package health

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// Table says what each signal means. It is not changed once it is made.
type Table struct {
	rows     []*Row
	bySignal map[Kind]map[string]*Row
	// active rows of a kind's fields, of what can be missing, and of XIDs by their code.
	fields  map[Kind][]*Row
	missing map[Kind]*Row
	xids    map[int64][]*Row
}

//go:embed defaults/*.yaml
var defaults embed.FS

// Default is the table that Lockstep comes with: the files of defaults/.
func Default() *Table {
	files := map[string][]byte{}
	entries, err := defaults.ReadDir("defaults")
	for _, e := range entries {
		data, readErr := defaults.ReadFile("defaults/" + e.Name())
		files[e.Name()], err = data, cmp.Or(err, readErr)
	}
	table, parseErr := ParseOverrides(&Table{}, files)
	if err := errors.Join(err, parseErr); err != nil {
		panic(err) // they are compiled in, and tested
	}
	return table
}

// Rows are all rows, also those that are off.
func (t *Table) Rows() []*Row { return slices.Clone(t.rows) }

// Row finds one by its id.
func (t *Table) Row(id string) (*Row, bool) {
	for _, r := range t.rows {
		if r.ID == id {
			return r, true
		}
	}
	return nil, false
}

// newTable indexes rows that are valid, each by itself. Where says what a row is called in an error.
func newTable(rows []*Row, where func(id string) string) (*Table, error) {
	t := &Table{
		rows: rows, bySignal: map[Kind]map[string]*Row{},
		fields: map[Kind][]*Row{}, missing: map[Kind]*Row{}, xids: map[int64][]*Row{},
	}
	var errs []error
	for _, r := range rows {
		of := t.bySignal[r.Entity]
		if of == nil {
			of = map[string]*Row{}
			t.bySignal[r.Entity] = of
		}
		if other, taken := of[r.Signal]; taken {
			errs = append(errs, fmt.Errorf("%s: the signal %s of a %s is that of %s", where(r.ID), r.Signal, r.Entity, where(other.ID)))
		}
		of[r.Signal] = r
		if r.active() {
			t.index(r)
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return t, nil
}

func (t *Table) index(r *Row) {
	switch {
	case r.what.isXID():
		t.xids[r.what.xid] = append(t.xids[r.what.xid], r)
	case r.what.isMissing():
		t.missing[r.Entity] = r
	default:
		t.fields[r.Entity] = append(t.fields[r.Entity], r)
	}
}

// Fields are those to read of a kind, also of what conditions compare with. Those below zero
// are not DCGM's.
func (t *Table) Fields(k Kind) []Field {
	wanted := map[Field]bool{}
	for _, r := range t.fields[k] {
		wanted[r.what.field] = true
		for _, f := range r.When.fields() {
			wanted[f] = true
		}
	}
	if k == KindGPU {
		wanted[fieldRecoveryAction], wanted[FieldMIG] = true, true
		wanted[fieldKernels], wanted[fieldMemory] = true, true
	}
	return slices.Sorted(maps.Keys(wanted))
}

// Watched are the DCGM fields to read of all kinds.
func (t *Table) Watched() []Field {
	wanted := map[Field]bool{}
	for _, k := range kinds {
		for _, f := range t.Fields(k) {
			wanted[f] = f > 0
		}
	}
	maps.DeleteFunc(wanted, func(_ Field, dcgm bool) bool { return !dcgm })
	return slices.Sorted(maps.Keys(wanted))
}

// rowOf finds the row of a fault. An XID of a GPU that is not known is a fault of the node.
func (t *Table) rowOf(k faultKey) (*Row, bool) {
	if r, ok := t.bySignal[k.Kind][k.Signal]; ok {
		return r, true
	}
	r, ok := t.bySignal[KindGPU][k.Signal]
	return r, ok && k.Kind == KindNode && r.what.isXID()
}

var (
	kinds      = []Kind{KindNode, KindGPU, KindNVLink, KindSwitch, KindNIC}
	ills       = []v1alpha1.HealthState{v1alpha1.HealthStateDegraded, v1alpha1.HealthStateFailed}
	clearings  = []Clearing{ClearsItself, ClearsOnRecovery, ClearsOnAcknowledgement}
	exceptions = []Exception{UnlessMIG, UnlessNeverUp}
	signalName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]{0,62}$`)
)

// complete fills in what a row leaves out, and says all that is wrong with it.
func (r *Row) complete() error {
	var errs []error
	demand := func(is bool, format string, args ...any) {
		if !is {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	var err error
	if r.what, err = parseID(r.ID); err != nil {
		errs = append(errs, err)
	}
	demand(slices.Contains(kinds, r.Entity), "entity %q is none of %v", r.Entity, kinds)
	demand(signalName.MatchString(r.Signal), "signal %q is not one word of letters and digits", r.Signal)
	demand(r.Name != "", "name is missing")
	demand(len(r.Name) <= 100, "name is longer than 100 letters")
	demand(r.State == Observed || slices.Contains(ills, r.State), "state %q is none of %v and None", r.State, ills)
	demand(slices.Contains(clearings, r.clears(r.State)), "clears %q is none of %v", r.Clears, clearings)
	demand(r.Polls >= 0 && r.Polls <= 1000, "polls %d is not between 1 and 1000", r.Polls)
	demand(sane(r.QuietFor), "quietFor is not between 0 and a week")
	demand(sane(r.IgnoredAfterBoot), "ignoredAfterBoot is not between 0 and a week")
	for _, e := range r.Unless {
		demand(slices.Contains(exceptions, e), "unless %q is none of %v", e, exceptions)
	}
	demand(!r.what.isMissing() || r.Entity == KindGPU || r.Entity == KindNIC, "only a gpu or a nic can be missing")
	demand(!r.what.isXID() || r.Entity == KindGPU, "an XID is of a gpu")
	return errors.Join(append(errs, r.completeCondition(), r.completeEscalation())...)
}

func (r *Row) completeCondition() error {
	if r.what.isXID() && len(r.When.tests()) == 0 {
		r.When.Increase = &Increase{AtLeast: 1}
	}
	if i := r.When.Increase; i != nil && i.Within.Duration == 0 {
		i.Within.Duration = defaultWindow
	}
	if a := r.When.Rate; a != nil && a.Within.Duration == 0 {
		a.Within.Duration = time.Minute
	}
	tests := r.When.tests()
	if len(tests) != 1 {
		return fmt.Errorf("when has %d conditions, and needs one", len(tests))
	}
	if r.what.isMissing() != (r.When.Missing != nil) {
		return errors.New("when.missing is for gpu-missing and port-missing, and they for it")
	}
	if r.what.isXID() && r.When.Increase == nil {
		return errors.New("an XID has no value: its condition is increase")
	}
	r.test, r.alone = tests[0], len(r.When.fields()) == 0
	if err := r.test.valid(); err != nil {
		return fmt.Errorf("when: %w", err)
	}
	return nil
}

func (r *Row) completeEscalation() error {
	e := r.Escalate
	switch {
	case e == nil:
		return nil
	case r.State != v1alpha1.HealthStateDegraded || e.State != v1alpha1.HealthStateFailed:
		return errors.New("escalate is from Degraded to Failed")
	case !slices.Contains(clearings, r.clears(e.State)):
		return fmt.Errorf("escalate.clears %q is none of %v", e.Clears, clearings)
	case (e.AtLeast > 0) == (len(e.With) > 0) || e.AtLeast < 0:
		return errors.New("escalate needs either atLeast or with")
	case e.AtLeast > 0 && r.When.Increase == nil:
		return errors.New("escalate.atLeast is for an increase")
	}
	e.Within.Duration = cmp.Or(e.Within.Duration, r.When.window())
	if e.AtLeast > 0 && validWindow(e.Within.Duration) != nil {
		return fmt.Errorf("escalate.within: %w", errWindow)
	}
	return nil
}

func sane(d metav1.Duration) bool { return d.Duration >= 0 && d.Duration <= 7*24*time.Hour }
