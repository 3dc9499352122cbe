// Package signals shows what becomes of every row of the default table: what is injected into a
// simulated node, what the agent makes of it, which pods it concerns, and what their job's
// default rules do. README.md is what it found.
package signals

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/health"
	"github.com/lockstep-dev/lockstep/test/check"
	"github.com/lockstep-dev/lockstep/test/dcgmsim"
)

var update = flag.Bool("update", false, "write table.md")

// library is the simulator, and errLibrary why there is none.
var (
	library    string
	errLibrary error
)

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "signals")
	if err != nil {
		panic(err)
	}
	flag.Parse()
	library, errLibrary = dcgmsim.Build(dir)
	if errLibrary != nil && !errors.Is(errLibrary, dcgmsim.ErrNoCompiler) {
		panic(errLibrary)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// watchTimeout is for how long the job is watched at most: until past the step for what is degraded.
// glance is enough to see whether anything is reported.
const watchTimeout, glance = 6 * time.Minute, time.Minute

// outcome is a line of the page.
type outcome struct {
	id, injected, state, signal, entity, event, action, cleared string
	// polls after which it was reported, from the first that read it.
	polls int
}

func TestEverySignal(t *testing.T) {
	var page []outcome
	for _, r := range health.Default().Rows() {
		t.Run(r.ID, func(t *testing.T) {
			if r.Disabled || r.State == health.Observed {
				page = append(page, playQuiet(t, r))
				return
			}
			page = append(page, play(t, health.Default(), r))
			if r.Escalate != nil {
				page = append(page, playWorse(t, r))
			}
		})
	}
	if len(page) == 0 && !t.Failed() {
		t.Skip("every row was skipped: each says why")
	}
	checkPage(t, page)
}

// play injects what a row is for, and sees the pod moved and the fault ended.
func play(t *testing.T, table *health.Table, r *health.Row) outcome {
	n := aNode(t, table)
	out, j := n.suffer(r, watchTimeout)
	check.Equal(t, "polls", max(1, r.Polls), out.polls)
	n.wantMoved(r, j)
	out.cleared = n.recover(r)
	return out
}

// playQuiet injects what a row is for that reports nothing by default; under an override it does: it
// is not that nothing was read.
func playQuiet(t *testing.T, r *health.Row) outcome {
	n := aNode(t, health.Default())
	out, _ := n.suffer(r, glance)
	if got := names(n.reports()); len(got) > 0 {
		t.Errorf("reports by default: %q", got)
	}
	table := overridden(t, fmt.Sprintf("rows: [{id: %q, disabled: false, state: Degraded}]", r.ID))
	on, _ := table.Row(r.ID)
	if out.state = "None"; r.Disabled {
		under := play(t, table, on)
		out.state = fmt.Sprintf("off; on: %s, %s, %s, cleared by %s", under.state, under.event, under.action, under.cleared)
		return out
	}
	under, _ := aNode(t, table).suffer(on, glance)
	check.Equal(t, "event under an override", "`HealthDegraded`", under.event)
	check.Equal(t, "polls under an override", max(1, r.Polls), under.polls)
	return out
}

// playWorse injects what makes a row's fault worse.
func playWorse(t *testing.T, r *health.Row) outcome {
	n := aNode(t, health.Default())
	worse := *r
	worse.State = r.Escalate.State
	if r.Escalate.Clears != "" {
		worse.Clears = r.Escalate.Clears
	}
	if len(r.Escalate.With) == 0 {
		worse.When.Increase = &health.Increase{AtLeast: r.Escalate.AtLeast, Within: r.Escalate.Within}
		out, j := n.suffer(&worse, watchTimeout)
		n.wantMoved(&worse, j)
		out.cleared = n.recover(&worse)
		return out
	}
	drain := func() { n.engine.SetField(dcgmsim.GPU, 0, 1523, 3) } // GPUDrainP2P, which is in With
	out, j := n.suffer(&worse, watchTimeout, drain)
	n.wantMoved(&worse, j)
	n.engine.SetField(dcgmsim.GPU, 0, 1523, 0)
	out.injected += ", with field 1523 of it: 3"
	out.cleared = n.recover(&worse)
	return out
}

// tablePage has what was seen.
const (
	tablePage  = "table.md"
	tableTitle = "# What became of each signal\n\n<!-- Written by go test ./test/signals -update. README.md says how to read it. -->\n\n"
)

// checkPage compares table.md with what was seen, or writes it.
func checkPage(t *testing.T, page []outcome) {
	t.Helper()
	want := tableTitle + tableOf(t, page)
	if *update && !t.Failed() {
		if err := os.WriteFile(tablePage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got, err := os.ReadFile(tablePage); err != nil || string(got) != want {
		t.Errorf("%s is not what was seen (%v): go test ./test/signals -update", tablePage, err)
	}
}

// tableOf is the table of the page, after the one of what the faults of each state lead to: all faults of a state lead to the same.
func tableOf(t *testing.T, page []outcome) string {
	t.Helper()
	reactions := map[string]string{}
	var b strings.Builder
	b.WriteString("| id | injected | state | signal | entity | polls | cleared by |\n")
	b.WriteString("| --- | --- | --- | --- | --- | --- | --- |\n")
	for _, o := range page {
		polls := ""
		if o.polls > 0 {
			polls = fmt.Sprint(o.polls)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | `%s` | %s | %s | %s |\n", o.id, o.injected, o.state, o.signal, o.entity, polls, o.cleared)
		state, _, _ := strings.Cut(o.state, ";")
		reaction := fmt.Sprintf("| %s | %s |", o.event, o.action)
		if before, known := reactions[state]; known && before != reaction {
			t.Errorf("%s: %s, and other rows that are %s lead to %s", o.id, reaction, state, before)
		}
		reactions[state] = reaction
	}
	var states strings.Builder
	states.WriteString("| state | event | action |\n| --- | --- | --- |\n")
	for _, state := range slices.Sorted(maps.Keys(reactions)) {
		fmt.Fprintf(&states, "| %s %s\n", state, reactions[state])
	}
	return states.String() + "\n" + b.String()
}
