package durable_test

import (
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/lockstep-dev/lockstep/supervisor/durable"
)

func TestWrite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "epoch")
	for _, content := range []string{"a first one\n", "2\n"} {
		if err := durable.Write(file, []byte(content)); err != nil {
			t.Fatal(err)
		}
		has(t, file, content)
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

func TestOverwrite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(file, []byte("127.0.0.1 localhost\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, content := range []string{"127.0.0.1 localhost\n10.0.0.7 worker-0\n", "::1 localhost\n"} {
		if err := durable.Overwrite(file, []byte(content)); err != nil {
			t.Fatal(err)
		}
		has(t, file, content)
	}
	if durable.Overwrite(filepath.Join(filepath.Dir(file), "missing"), nil) == nil {
		t.Error("no error where there is no file")
	}
}

// A limit of the process is met as a full disk is: after a part of what is written.
func TestOverwriteWithoutRoom(t *testing.T) {
	const content = "127.0.0.1 localhost\n"
	file := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &was); err != nil {
		t.Fatal(err)
	}
	signal.Ignore(unix.SIGXFSZ)
	defer signal.Reset(unix.SIGXFSZ)
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 32, Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	err := durable.Overwrite(file, []byte("10.0.0.7 llm-1-worker-0.llm-1 llm-1-worker-0\n"+content))
	if restored := unix.Setrlimit(unix.RLIMIT_FSIZE, &was); restored != nil {
		t.Fatal(restored)
	}
	if !errors.Is(err, unix.EFBIG) {
		t.Errorf("error %v", err)
	}
	has(t, file, content)
}

func has(t *testing.T, file, want string) {
	t.Helper()
	if got, err := os.ReadFile(file); err != nil || string(got) != want {
		t.Errorf("content %q, error %v, want %q", got, err, want)
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
