package simulate

import (
	"bytes"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/test/check"
)

func TestColumnsAreAsWideAsTheirCells(t *testing.T) {
	long := strings.Repeat("x", 90)
	tab := &table{
		names: []string{"", "row"}, repeated: 1,
		columns: [][]string{{"kept", "1"}, {"a", "±20"}, {strings.Repeat("b", 60), "3"}, {"whole-job restarts", "4"}, {long, "5"}},
	}
	var out bytes.Buffer
	tab.print(&out)
	check.Equal(t, "tables", `
     kept    a  `+strings.Repeat("b", 60)+`
row     1  ±20  `+strings.Repeat(" ", 59)+`3

     kept  whole-job restarts
row     1                   4

     kept  `+strings.Repeat("x", 66)+`...
row     1  `+strings.Repeat(" ", 68)+`5
`, out.String())
}
