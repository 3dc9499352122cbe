// Every row of the table: the signal is injected, and its state is reported. The test walks
// the table itself, so that no row can be left out.

package health

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

func TestEveryRow(t *testing.T) {
	rows := Default().Rows()
	for _, r := range rows {
		t.Run(r.ID, func(t *testing.T) {
			n := newNode()
			e, state := entityOf(r), r.State
			if !r.active() { // it is silent as it is, and is tried as if it were on
				inject(n, e, r)
				n.want(t, "a row that is off, or only observed")
				n, state = newNode(), v1alpha1.HealthStateDegraded
				n.table = only(t, r)
				n.well(e)
			}
			n.polls(2).want(t, "before")
			inject(n, e, r)
			reports := Reports(n.state)
			if !reported(reports, e, r.Signal, state) {
				t.Fatalf("reports %+v, want %s of %s %s", reports, r.Signal, entityName(e), state)
			}
			t.Logf("%-32s %-26s %-9s %s", r.ID, r.Signal, r.State, reports[0].Message)
		})
	}
	if len(rows) < 60 {
		t.Errorf("%d rows, want 60 at least", len(rows))
	}
	t.Logf("%d rows", len(rows))
}

// only is a table in which a row that is off, or only observed, is on.
func only(t *testing.T, r *Row) *Table {
	t.Helper()
	on := r.copied()
	on.Disabled, on.State = false, v1alpha1.HealthStateDegraded
	table, err := newTable([]*Row{on}, func(id string) string { return id })
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func entityOf(r *Row) Entity {
	return map[Kind]Entity{KindNode: theOne, KindGPU: gpu0, KindNVLink: link0, KindSwitch: sw0, KindNIC: aPort}[r.Entity]
}

func reported(reports []v1alpha1.HealthReport, e Entity, signal string, state v1alpha1.HealthState) bool {
	for _, r := range reports {
		if r.Entity == entityName(e) && r.Signal == signal && r.State == state && r.Message != "" && !r.Since.IsZero() {
			return true
		}
	}
	return false
}

// inject makes a row's condition hold for as many polls as it needs.
func inject(n *node, e Entity, r *Row) {
	for range r.polls() {
		injectOnce(n, e, r)
		n.poll()
	}
}

func injectOnce(n *node, e Entity, r *Row) {
	f, c := r.what.field, r.When
	switch {
	case r.what.isXID():
		for i := range c.Increase.AtLeast {
			n.XIDs = append(n.XIDs, XID{GPU: e.ID, Code: r.what.xid, Time: n.Time.Add(time.Duration(i) * time.Second)})
		}
	case c.Missing != nil:
		n.unplug(e)
	case c.Increase != nil:
		n.add(e, f, c.Increase.AtLeast)
	case c.Rate != nil && c.Rate.LaneLimit:
		n.add(e, f, 32)
	case c.Rate != nil:
		n.add(e, f, c.Rate.AtLeast*int64(c.Rate.Within.Duration/c.Rate.Per.Duration))
	default:
		n.set(e, f, illValue(n.Values[e][f].Int, c))
	}
}

// illValue is one that a condition on the value itself holds for.
func illValue(now int64, c Condition) int64 {
	switch {
	case c.Equals != nil:
		return c.Equals[0]
	case c.NotEquals != nil:
		return slices.Max(c.NotEquals) + 1
	case c.Above != nil:
		return int64(*c.Above) + 1
	case c.Bits != nil:
		return (c.Bits.AtLeast + sum(c.Bits.Equals)) << c.Bits.Shift
	case c.ErrorRate != nil:
		return 0x201 // 2e-1
	case c.LessThan != nil:
		return now - 1
	case c.Unmasked != nil && c.Unmasked.Fatal:
		return 0x10 // fatal by the mask of newNode
	}
	return 0x01
}

func sum(values []int64) int64 {
	total := int64(0)
	for _, v := range values {
		total += v
	}
	return total
}

// Each row says whose word it is, and no message is cut.
func TestRowsSayWhereTheyAreFrom(t *testing.T) {
	for _, r := range Default().Rows() {
		if r.Source == "" || strings.HasPrefix(r.Source, " ") {
			t.Errorf("row %s has no source", r.ID)
		}
		if text := fmt.Sprint(r.title()); len(text) > 200 {
			t.Errorf("row %s: title %q", r.ID, text)
		}
	}
}

// The XIDs and fields whose meaning is settled: a row that is lost would be missed.
func TestNothingIsLeftOut(t *testing.T) {
	ids := map[string]v1alpha1.HealthState{}
	for _, r := range Default().Rows() {
		ids[r.ID] = r.State
	}
	for state, codes := range map[v1alpha1.HealthState][]int{
		v1alpha1.HealthStateFailed:   {79, 74, 155, 48, 95, 140, 64, 46, 62, 109, 110, 119, 120, 136, 143, 156, 158},
		v1alpha1.HealthStateDegraded: {144, 145, 146, 147, 148, 149, 150},
		Observed:                     {13, 31, 32, 39, 40, 41, 43, 45, 63, 69, 94},
	} {
		for _, code := range codes {
			if got := ids[fmt.Sprintf("xid:%d", code)]; got != state {
				t.Errorf("XID %d is %q, want %s", code, got, state)
			}
		}
	}
	for _, id := range []string{"gpu-missing", "link-state/down", "1523/reboot", "1523/reset", "1523/drain-p2p", "1212", "429", "439", "409/flood", "409", "497", "498", "499", "1215", "1217", "174/route-unhealthy", "174/misconfigured", "170", "174/degraded-bandwidth", "174/route-recovery", "175/limited", "856", "857", "202", "237", "238", "311", "395", "396", "1507", "1307/fatal", "1307/non-fatal", "1300", "port-state", "240", "241", "1503"} {
		if ids[id] == "" {
			t.Errorf("no row %s", id)
		}
	}
}
