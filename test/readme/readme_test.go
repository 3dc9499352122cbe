package readme

import (
	"errors"
	"testing"
)

const section Section = "bench"

func TestWith(t *testing.T) {
	const page = "# Title\n<!-- bench:begin -->\nold\n<!-- bench:end -->\nend\n"
	got, err := With(page, section, "new\n\n")
	if want := "# Title\n<!-- bench:begin -->\nnew\n<!-- bench:end -->\nend\n"; err != nil || got != want {
		t.Errorf("got %q and %v, want %q", got, err, want)
	}
	again, err := With(got, section, "new")
	if err != nil || again != got {
		t.Errorf("a second time it becomes %q, %v", again, err)
	}
}

func TestWithoutMarks(t *testing.T) {
	for name, page := range map[string]string{
		"none":      "# Title\n",
		"no end":    "<!-- bench:begin -->\n",
		"end first": "<!-- bench:end --><!-- bench:begin -->",
	} {
		if _, err := With(page, section, "new"); !errors.Is(err, ErrNoMarks) {
			t.Errorf("%s: got %v, want %v", name, err, ErrNoMarks)
		}
	}
}
