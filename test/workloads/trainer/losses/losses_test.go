package losses

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func history(losses ...float64) Log {
	var out Log
	for i, l := range losses {
		out = append(out, NewLine(i+1, l, 0, 7))
	}
	return out
}

func TestWriteAndRead(t *testing.T) {
	dir := t.TempDir()
	want := Log{}
	for inc, lines := range []Log{history(3, 0.1), {NewLine(2, 0.1, 1, 8), NewLine(3, 1e-300, 1, 8)}} {
		w, err := Open(dir, inc)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range lines {
			if err := w.Append(l); err != nil {
				t.Fatal(err)
			}
		}
		w.Close()
		want = append(want, lines...)
	}
	got, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if err := got.Complete(3); err != nil {
		t.Error(err)
	}
	if got.Repeated() != 1 {
		t.Errorf("%d steps repeated", got.Repeated())
	}
}

// A line that a kill cut off does not count, and the next life of the incarnation removes it.
func TestTornLine(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "rank0.inc-0.log")
	whole := NewLine(1, 2, 0, 7).String() + "\n"
	if err := os.WriteFile(path, []byte(whole+"step=2 bi"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := Read(dir); err != nil || len(got) != 1 {
		t.Errorf("%v, %v", got, err)
	}
	w, err := Open(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	if b, err := os.ReadFile(path); err != nil || string(b) != whole {
		t.Errorf("%q, %v", b, err)
	}
}

func TestFaultsAreFound(t *testing.T) {
	tests := map[string]struct {
		log  Log
		want string
	}{
		"complete":                     {log: history(3, 2, 1)},
		"done again, the same":         {log: append(history(3, 2, 1), NewLine(2, 2, 1, 8))},
		"done again, one bit off":      {log: append(history(3, 2, 1), NewLine(2, 2.0000000000000004, 1, 8)), want: "done again"},
		"a step missing":               {log: append(history(3), NewLine(3, 1, 0, 7)), want: "step 2 of 3 is missing"},
		"a step too many":              {log: history(3, 2, 1, 0), want: "4 steps, where 3 are due"},
		"complete, but another's loss": {log: history(3, 2, 0.5), want: "step 3 has loss"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := test.log.Complete(3)
			if err == nil {
				err = test.log.Same(history(3, 2, 1))
			}
			if (err == nil) != (test.want == "") || (err != nil && !strings.Contains(err.Error(), test.want)) {
				t.Errorf("%v, not %q", err, test.want)
			}
		})
	}
}

func TestMalformed(t *testing.T) {
	for _, text := range []string{"step=1\n", "\n", NewLine(1, 2, 0, 7).String() + " more\n", "step=1 bits=3ff0000000000000 loss=2 inc=0 gen=7\n"} {
		if got, err := Parse(strings.NewReader(text)); err == nil {
			t.Errorf("%q is read as %v", text, got)
		}
	}
	if _, err := Read(t.TempDir()); err == nil {
		t.Error("an empty folder is read as a history")
	}
}
