package lines

import (
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/test/check"
)

// A user may name a queue as they like, and write any message: neither adds a line to a table, nor is it obeyed by a terminal.
func TestControlCharactersAreSpaces(t *testing.T) {
	var out strings.Builder
	Table(&out, []string{"NAME", "QUEUE"}, []Row{{Cells: []string{"a", "x\ny\tz"}, Note: "red \x1b[31m\nor\u202e not"}, {Cells: []string{"b", ""}}}, 0)
	check.Equal(t, "table", "NAME  QUEUE\na     x y z\n  red  [31m or  not\nb     -\n", out.String())
	check.Equal(t, "wrapped", []string{"a [2J", "b"}, Wrap("a\x1b[2J\r\nb", 6))
}
