package progress

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestCheck(t *testing.T) {
	for name, test := range map[string]struct {
		before, after func(t *testing.T, path string)
		want          bool
	}{
		"nothing there":   {},
		"it appears":      {after: func(t *testing.T, path string) { write(t, path, "10") }, want: true},
		"nothing changes": {before: func(t *testing.T, path string) { write(t, path, "10") }},
		"it has other content": {
			before: func(t *testing.T, path string) { write(t, path, "10") },
			after:  func(t *testing.T, path string) { write(t, path, "200") }, want: true,
		},
		"it is written again with as much": {
			before: func(t *testing.T, path string) {
				write(t, path, "10")
				if err := os.Chtimes(path, time.Time{}, time.Unix(1, 0)); err != nil {
					t.Fatal(err)
				}
			},
			after: func(t *testing.T, path string) { write(t, path, "20") }, want: true,
		},
		"it is removed": {
			before: func(t *testing.T, path string) { write(t, path, "10") },
			after:  func(_ *testing.T, path string) { os.Remove(path) }, want: true,
		},
		"it links to another folder": {
			before: func(t *testing.T, path string) { link(t, "step-10", path) },
			after:  func(t *testing.T, path string) { os.Remove(path); link(t, "step-20", path) }, want: true,
		},
		"a folder gets another one": {
			before: func(t *testing.T, path string) {
				if err := os.MkdirAll(filepath.Join(path, "step-10"), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.Chtimes(path, time.Time{}, time.Unix(1, 0)); err != nil {
					t.Fatal(err)
				}
			},
			after: func(t *testing.T, path string) {
				if err := os.Mkdir(filepath.Join(path, "step-20"), 0o700); err != nil {
					t.Fatal(err)
				}
			}, want: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "latest")
			if test.before != nil {
				test.before(t, path)
			}
			w := New(path)
			w.Reset()
			if test.after != nil {
				test.after(t, path)
			}
			if got := w.Check(); got != test.want {
				t.Errorf("changed: %v", got)
			}
			if w.Check() {
				t.Error("it has changed again")
			}
		})
	}
}

func link(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

// What was saved by an earlier run is none of the next one's progress.
func TestReset(t *testing.T) {
	path := filepath.Join(t.TempDir(), "latest")
	w := New(path)
	w.Reset()
	write(t, path, "10")
	w.Reset()
	if w.Check() {
		t.Error("it has changed")
	}
}

func TestWithoutAPath(t *testing.T) {
	w := New("")
	w.Reset()
	if w.Check() || w.Ticks(t.Context()) != nil {
		t.Error("nothing is watched, and something is noticed")
	}
}

// A look at a file system that hangs is not repeated while it does, and what it found in the end is not taken for what is there now.
func TestAFileSystemThatHangs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "latest")
	w := New(path)
	w.Reset()
	w.pending = make(chan state, 1) // a look that has yet to end
	write(t, path, "10")
	if w.Check() {
		t.Error("what is not known has changed")
	}
	w.pending <- state{}
	if !w.Check() {
		t.Error("the change is forgotten")
	}
	if w.Check() {
		t.Error("it has changed again")
	}
}

// The step of a checkpoint is known where the path names it, as Megatron-LM's latest_checkpointed_iteration.txt and DeepSpeed's latest do.
func TestStep(t *testing.T) {
	for content, want := range map[string]int64{
		"1200": 1200, "  1200\n": 1200, "global_step1200": 1200, "release": -1, "": -1, "loss 3.25": -1, "2026-01-02 03:04": -1, "99999999999999999999": -1,
		strings.Repeat("x", 300) + "7": -1,
	} {
		path := filepath.Join(t.TempDir(), "latest")
		w := New(path)
		w.Reset()
		write(t, path, content)
		w.Check()
		if got, named := w.Step(); named != (want >= 0) || (named && got != want) {
			t.Errorf("%q: %d, %t", content, got, named)
		}
	}
	dir := t.TempDir()
	link(t, filepath.Join(dir, "run7", "iter_0001200"), filepath.Join(dir, "latest"))
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int64{"latest": 1200, "pipe": -1, ".": -1} {
		if got := stateOf(filepath.Join(dir, name)).step; got != want {
			t.Errorf("%s: %d", name, got)
		}
	}
}
