package durable_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-dev/lockstep/supervisor/durable"
)

func TestWrite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "epoch")
	for _, content := range []string{"a first one\n", "2\n"} {
		if err := durable.Write(file, []byte(content)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != content {
			t.Errorf("content %q, error %v, want %q", got, err, content)
		}
	}
	onlyHas(t, filepath.Dir(file), "epoch")
}

// Where the file cannot be replaced, it stays as it is, and nothing is left beside it.
func TestWriteFails(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "epoch")
	if err := os.MkdirAll(filepath.Join(file, "a folder of this name"), 0o700); err != nil {
		t.Fatal(err)
	}
	if durable.Write(file, []byte("1\n")) == nil {
		t.Error("no error")
	}
	onlyHas(t, dir, "epoch")
	if durable.Write(filepath.Join(dir, "missing", "epoch"), []byte("1\n")) == nil {
		t.Error("no error where there is no folder")
	}
}

func onlyHas(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error("files: -want +got:\n" + diff)
	}
}
