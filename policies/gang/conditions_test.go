// Tests of messages.

package gang

import (
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/test/check"
)

func TestShorten(t *testing.T) {
	check.Equal(t, "short", "as it is", Shorten("as it is"))
	long := Shorten(strings.Repeat("é", 40000))
	check.Equal(t, "length", true, len(long) <= maxMessage)
	check.Equal(t, "end", true, strings.HasSuffix(long, "é"+cutMark))
}
