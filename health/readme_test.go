// The pages say what the code does: table.md is made of the rows, and the example of README.md is
// one that is taken.

package health

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

var update = flag.Bool("update", false, "write table.md")

// tablePage is written from the rows.
const (
	tablePage  = "table.md"
	tableTitle = "# The table of health signals\n\n<!-- Written by go test ./health -run TestReadme -update, from defaults/. -->\n\n"
)

func readme(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestReadme(t *testing.T) {
	want := tableTitle + rowsOf(Default())
	if *update {
		if err := os.WriteFile(tablePage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got, err := os.ReadFile(tablePage); err != nil || string(got) != want {
		t.Errorf("%s is not the table of defaults/ (%v): go test ./health -run TestReadme -update", tablePage, err)
	}
}

// rowsOf writes the table, a section for each file of defaults/.
func rowsOf(table *Table) string {
	var b strings.Builder
	b.WriteString("| id | reads | of | signal | a fault if it | state | clears | source |\n")
	b.WriteString("| --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for _, r := range table.Rows() {
		fmt.Fprintf(&b, "| `%s` | %s | %s | `%s` | %s | %s | %s | %s |\n",
			r.ID, strings.ReplaceAll(r.Name, "_", `\_`), r.Entity, r.Signal, illWhere(r), stateOf(r), clearsOf(r), strings.ReplaceAll(r.Source, "_", `\_`))
	}
	return b.String()
}

func illWhere(r *Row) string {
	words := r.test.limit()
	if r.what.isXID() {
		words = "comes"
		if i := r.When.Increase; i.AtLeast > 1 {
			words = fmt.Sprintf("comes %d times in %s", i.AtLeast, short(i.Within.Duration))
		}
	}
	if r.polls() > 1 {
		words += fmt.Sprintf(", %d polls", r.polls())
	}
	if d := r.IgnoredAfterBoot.Duration; d > 0 {
		words += fmt.Sprintf("; not for %s after boot", short(d))
	}
	for _, x := range r.Unless {
		words += map[Exception]string{UnlessMIG: "; not in MIG mode", UnlessNeverUp: "; not if never up"}[x]
	}
	return words
}

func stateOf(r *Row) string {
	words := string(r.State)
	if r.Disabled {
		return words + ", off"
	}
	switch e := r.Escalate; {
	case e != nil && e.AtLeast > 0:
		words += fmt.Sprintf("; %s by %d in %s", e.State, e.AtLeast, short(e.Within.Duration))
	case e != nil:
		words += fmt.Sprintf("; %s with %s", e.State, strings.Join(e.With, ", "))
	}
	return words
}

func clearsOf(r *Row) string {
	if r.State == Observed {
		return ""
	}
	words := string(r.clears(r.State))
	if r.clears(r.State) == ClearsItself && r.quiet() > 0 {
		words += ", " + short(r.quiet())
	}
	if e := r.Escalate; e != nil && r.clears(e.State) != r.clears(r.State) {
		words += fmt.Sprintf("; %s: %s", e.State, r.clears(e.State))
	}
	return words
}

// The example of overrides is taken, and does what its comments say.
func TestReadmeOverrides(t *testing.T) {
	_, after, found := strings.Cut(readme(t), "## Overrides\n")
	_, after, foundToo := strings.Cut(after, "```yaml\n")
	example, _, closed := strings.Cut(after, "```")
	if !found || !foundToo || !closed {
		t.Fatal("README.md has no example of overrides")
	}
	table := override(t, example)
	if r := row(t, table, "396"); r.State != v1alpha1.HealthStateDegraded {
		t.Errorf("396 is %s", r.State)
	}
	newNodeOf(table).xid(gpu0, 94).poll().want(t, "XID 94", "gpu/GPU-0 XID94 Degraded")
	if r := row(t, table, "1503"); !r.active() {
		t.Error("1503 is off")
	}
	if r := row(t, table, "429"); r.Escalate.AtLeast != 10 || r.State != v1alpha1.HealthStateDegraded {
		t.Errorf("429: %+v", r)
	}
	n := newNodeOf(table)
	n.set(gpu0, 150, 96).add(gpu1, 202, 1000).polls(4).want(t, "the example's row", "gpu/GPU-0 TooHot Degraded")
}

// Every field of a row is explained.
func TestReadmeFields(t *testing.T) {
	text := readme(t)
	for _, field := range []string{"id", "name", "entity", "signal", "when", "polls", "state", "escalate", "clears", "quietFor", "ignoredAfterBoot", "unless", "up", "source", "disabled"} {
		if !strings.Contains(text, "\n| `"+field+"` |") {
			t.Errorf("README.md does not explain %s", field)
		}
	}
}
