package agent

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/lockstep-dev/lockstep/health/dcgm"
)

func TestReadHost(t *testing.T) {
	dir := t.TempDir()
	write := func(file, text string) {
		path := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := ReadHost(dir); err == nil {
		t.Error("no boot id, and no error")
	}
	write("sys/kernel/random/boot_id", "f3a1\n")
	for _, stat := range []string{"cpu 1 2 3\n", "btime x\n"} {
		write("stat", stat)
		if h, err := ReadHost(dir); err == nil {
			t.Errorf("%q is accepted: %v", stat, h)
		}
	}
	write("stat", "cpu 1 2 3\nbtime 1700000000\nprocesses 5\n")
	want := Host{"f3a1", time.Unix(1700000000, 0)}
	if got, err := ReadHost(dir); err != nil || got != want {
		t.Errorf("got %v, %v", got, err)
	}
}

// A driver is another one once it was loaded again, and the same one however often one looks.
func TestDriverID(t *testing.T) {
	dir := t.TempDir()
	if id := driverID(os.DirFS(dir)); id != "" {
		t.Errorf("no driver has the id %q", id)
	}
	module := filepath.Join(dir, "module", "nvidia")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(module, 0o700))
	first := driverID(os.DirFS(dir))
	if first == "" || driverID(os.DirFS(dir)) != first {
		t.Errorf("ids %q and %q of one driver", first, driverID(os.DirFS(dir)))
	}
	must(os.Rename(module, module+".old")) // its number is not free yet
	must(os.Mkdir(module, 0o700))
	if again := driverID(os.DirFS(dir)); again == "" || again == first {
		t.Errorf("id %q after id %q", again, first)
	}
}

// Without DCGM the agent says so once, and still watches the ports.
func TestPollWithoutDCGM(t *testing.T) {
	state := &fstest.MapFile{Data: []byte("4: ACTIVE\n")}
	var out bytes.Buffer
	a := &Agent{
		DCGM:      dcgm.NewReader(dcgm.Options{Address: dcgm.Address{Mode: dcgm.Embedded}, Library: "/nowhere/libdcgm.so.4"}),
		Overrides: &Overrides{},
		Host:      Host{"boot", time.Unix(0, 0)},
		Sysfs:     fstest.MapFS{"class/infiniband/mlx5_0/ports/1/state": state},
		Log:       slog.New(slog.NewTextHandler(&out, nil)),
		Metrics:   NewMetrics(),
	}
	now := time.Unix(1_000_000, 0)
	poll := func(polls int) string {
		out.Reset()
		for range polls {
			now = now.Add(10 * time.Second)
			a.poll(context.Background(), now)
		}
		return out.String()
	}
	if said := poll(10); strings.Count(said, "health is unknown") != 1 {
		t.Errorf("said:\n%s", said)
	}
	state.Data = []byte("1: DOWN\n")
	if said := poll(10); strings.Count(said, "\n") != 1 || !strings.Contains(said, "Failed IBPortDown nic/mlx5_0/1") {
		t.Errorf("said of a port that is down:\n%s", said)
	}
	state.Data = []byte("4: ACTIVE\n")
	if said := poll(70); strings.Count(said, "\n") != 1 || !strings.Contains(said, "no longer: Failed IBPortDown") {
		t.Errorf("said of a port that is up again:\n%s", said)
	}
}
