// Tests of sets of indexes.

package gang

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/test/check"
)

func TestIndexes(t *testing.T) {
	tests := map[string]struct {
		text string
		with []int32
		drop []int32
		want string
	}{
		"empty":           {"", nil, nil, ""},
		"one":             {"", []int32{7}, nil, "7"},
		"neighbours join": {"0-3,5", []int32{4}, nil, "0-5"},
		"out of order":    {"", []int32{9, 1, 2, 0, 8}, nil, "0-2,8-9"},
		"twice":           {"3", []int32{3}, nil, "3"},
		"a range splits":  {"0-31,40", nil, []int32{16}, "0-15,17-31,40"},
		"its ends":        {"0-3", nil, []int32{0, 3}, "1-2"},
		"the last goes":   {"5", nil, []int32{5}, ""},
		"not in it":       {"5", nil, []int32{6}, "5"},
		"not a set":       {"x,3-1,2", nil, nil, "2"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			check.Equal(t, "text", tc.want, changed(tc.text, tc.with, tc.drop))
		})
	}
}

// changed changes the text of a set. What is no set is read and written first.
func changed(text string, with, drop []int32) string {
	text = ParseIndexes(text).String()
	for _, i := range with {
		text = WithIndex(text, i)
	}
	for _, i := range drop {
		text = WithoutIndex(text, i)
	}
	return text
}

// A text that is no set, as somebody may write into a status, is no reason to fail.
func TestWhatIsNoSet(*testing.T) {
	for _, text := range []string{",", ",,1", "x", "3-1", "5,2-", "-", "1,,9", "99999999999", "4,4,1-2,"} {
		for i := int32(-1); i < 12; i++ {
			HasIndex(text, i)
			WithIndex(text, i)
			WithoutIndex(text, i)
		}
	}
}

// A set has what was put into it and not taken out again, in whatever order that was done.
func TestIndexesAreASet(t *testing.T) {
	dice := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		text, want := "", map[int32]bool{}
		for range 100 {
			i := dice.Int32N(40)
			if dice.IntN(3) == 0 {
				text, want[i] = WithoutIndex(text, i), false
			} else {
				text, want[i] = WithIndex(text, i), true
			}
			check.Equal(t, "text", textOf(want), text)
		}
		set := ParseIndexes(text)
		check.Equal(t, "text of the set", text, set.String())
		var got, members []int32
		set.Each(func(i int32) { got = append(got, i) })
		for i := range int32(40) {
			check.Equal(t, "has", want[i], set.Has(i))
			check.Equal(t, "has by its text", want[i], HasIndex(text, i))
			if want[i] {
				members = append(members, i)
			}
		}
		check.Equal(t, "members", members, slices.Clip(got))
		check.Equal(t, "count", len(members), set.Len())
	}
}

// textOf writes the members among 0 to 39, neighbours as a range.
func textOf(members map[int32]bool) string {
	var spans []string
	for first := int32(0); first < 40; first++ {
		if !members[first] {
			continue
		}
		last := first
		for members[last+1] {
			last++
		}
		spans = append(spans, span{first, last}.String())
		first = last
	}
	return strings.Join(spans, ",")
}
