package lines

import (
	"testing"

	"github.com/lockstep-dev/lockstep/test/check"
)

func TestNumbersOfThings(t *testing.T) {
	check.Equal(t, "none", "0 nodes", Count(0, "node"))
	check.Equal(t, "one", "1 node", Count(int32(1), "node"))
	check.Equal(t, "verb", "are", Plural(2, "is", "are"))
	check.Equal(t, "few", "a, b", Names([]string{"a", "b"}, 2))
	check.Equal(t, "many", "a, b and 2 more", Names([]string{"a", "b", "c", "d"}, 2))
}
