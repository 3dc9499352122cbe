package checkpoints

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/lockstep-dev/lockstep/supervisor/wire"
)

// folder puts files, and folders for names that end in a slash, into a new folder.
func folder(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	add(t, dir, names...)
	return dir
}

func add(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if name[len(name)-1] == '/' {
			if err := os.MkdirAll(path, 0o755); err != nil {
				t.Fatal(err)
			}
		} else if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func tiersOf(t *testing.T, text string, args ...any) *Tiers {
	t.Helper()
	tiers, err := New(fmt.Sprintf(text, args...))
	if err != nil {
		t.Fatal(err)
	}
	return tiers
}

func finds(t *testing.T, what string, want, got *wire.Checkpoints) {
	t.Helper()
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// What is being written, and what has no step, is no checkpoint.
func TestSteps(t *testing.T) {
	for name, want := range map[string]int64{
		"step-1200.pt": 1200, "checkpoint-500/": 500, "iter_0000100/": 100, "global_step7/": 7, "epoch=3-step=90.ckpt": 90, "12": 12,
		"step-1.pt.tmp": 0, "step-2.tmp": 0, "step-3.PART": 0, "tmp-checkpoint-4/": 0, ".step-5": 0, "latest": 0, "step-6-of-many": 0,
		"step-99999999999999999999.pt": 0, "12345678901234567890": 0, "run-0": 0,
		"step-7.rank-3": 0, "model-00001-of-00004.safetensors": 0, "epoch-2-loss-3.ckpt": 0,
	} {
		got := tiersOf(t, `[{"path": %q, "scope": "Pod"}]`, folder(t, name)).Look()
		if want == 0 {
			finds(t, name, &wire.Checkpoints{}, got)
		} else {
			finds(t, name, &wire.Checkpoints{Own: []int64{want}}, got)
		}
	}
}

// The fastest folder that has the step is that of the rank; what only another rank has found is in the shared one.
func TestFolders(t *testing.T) {
	memory, disk, shared := folder(t, "step-9.pt", "step-10.pt"), folder(t, "step-8.pt", "step-9.pt"), folder(t, "step-5.pt", "step-8.pt")
	tiers := tiersOf(t, `[{"path": %q, "scope": "Pod"}, {"path": %q, "scope": "Node"}, {"path": %q, "scope": "Shared"}]`, memory, disk, shared)
	finds(t, "all", &wire.Checkpoints{Own: []int64{8, 9, 10}, Shared: []int64{5, 8}}, tiers.Look())
	for step, want := range map[int64]string{10: memory, 9: memory, 8: disk, 5: shared, 7: shared} {
		if got := tiers.Folder(step); got != want {
			t.Errorf("step %d is read from %s, want %s", step, got, want)
		}
	}
	add(t, disk, "step-11.pt")
	finds(t, "later", &wire.Checkpoints{Own: []int64{8, 9, 10, 11}, Shared: []int64{5, 8}}, tiers.Look())
}

func TestFormats(t *testing.T) {
	dcp := folder(t, "step-1/.metadata", "step-2/__0_0.distcp", "step-3/.metadata/", "step-4")
	finds(t, "DCP", &wire.Checkpoints{Shared: []int64{1}}, tiersOf(t, `[{"path": %q, "scope": "Shared", "format": "DCP"}]`, dcp).Look())

	megatron := folder(t, "iter_0000100/", "iter_0000200/", "iter_0000300/", "other_50/")
	tiers := tiersOf(t, `[{"path": %q, "scope": "Shared", "format": "Megatron"}]`, megatron)
	finds(t, "Megatron before its first checkpoint", &wire.Checkpoints{}, tiers.Look())
	for latest, want := range map[string][]int64{"200\n": {100, 200}, "release": nil} {
		if err := os.WriteFile(filepath.Join(megatron, "latest_checkpointed_iteration.txt"), []byte(latest), 0o600); err != nil {
			t.Fatal(err)
		}
		finds(t, "Megatron at "+latest, &wire.Checkpoints{Shared: want}, tiers.Look())
	}
}

// The newest are reported, wherever they are in the folder.
func TestManySteps(t *testing.T) {
	var names []string
	for step := range 100 {
		names = append(names, fmt.Sprintf("step-%d", step))
	}
	got := tiersOf(t, `[{"path": %q, "scope": "Node"}]`, folder(t, names...)).Look().GetOwn()
	if len(got) != mostSteps || got[0] != 100-mostSteps || got[mostSteps-1] != 99 {
		t.Errorf("steps %v", got)
	}
}

// A folder that is not there has no checkpoint; of one that cannot be read nothing is known, and so nothing is of the rank.
func TestFoldersThatAreNone(t *testing.T) {
	dir := folder(t, "file", "step-1")
	finds(t, "not there", &wire.Checkpoints{Own: []int64{1}}, tiersOf(t, `[{"path": %q, "scope": "Pod"}, {"path": %q, "scope": "Shared"}]`, dir, dir+"/none").Look())
	finds(t, "a file", nil, tiersOf(t, `[{"path": %q, "scope": "Pod"}, {"path": %q, "scope": "Shared"}]`, dir, dir+"/file").Look())
	if err := syscall.Mkfifo(dir+"/pipe", 0o600); err != nil {
		t.Fatal(err)
	}
	finds(t, "a pipe", nil, tiersOf(t, `[{"path": %q, "scope": "Pod"}]`, dir+"/pipe").Look())
	add(t, dir, "megatron/")
	if err := syscall.Mkfifo(dir+"/megatron/latest_checkpointed_iteration.txt", 0o600); err != nil {
		t.Fatal(err)
	}
	finds(t, "a pipe for a tracker", &wire.Checkpoints{}, tiersOf(t, `[{"path": %q, "scope": "Pod", "format": "Megatron"}]`, dir+"/megatron").Look())
	var none *Tiers
	finds(t, "no folders", nil, none.Look())
	if folder := none.Folder(1); folder != "" {
		t.Errorf("without folders: %s", folder)
	}
}

// A file system that does not answer delays a look by a second, and later looks do not pile up.
func TestAFileSystemThatDoesNotAnswer(t *testing.T) {
	released, asked := make(chan struct{}), make(chan struct{}, 8)
	readers["slow"] = func(string) ([]int64, error) {
		asked <- struct{}{}
		<-released
		return []int64{3}, nil
	}
	defer delete(readers, "slow")
	tiers := tiersOf(t, `[{"path": "/slow", "scope": "Shared", "format": "slow"}]`)
	finds(t, "at first", nil, tiers.Look())
	finds(t, "again", nil, tiers.Look())
	close(released)
	for len(tiers.tiers[0].under) == 0 {
		runtime.Gosched()
	}
	finds(t, "once it answers", &wire.Checkpoints{Shared: []int64{3}}, tiers.Look())
	if n := len(asked); n != 2 {
		t.Errorf("asked %d times, want 2: what it says at last is old", n)
	}
}

func TestTiersThatAreRefused(t *testing.T) {
	for _, text := range []string{`{}`, `[{"path": "/c", "scope": "Pod", "format": "Later"}]`, `[1]`} {
		if _, err := New(text); err == nil {
			t.Errorf("%s is taken", text)
		}
	}
	if tiers, err := New(""); tiers != nil || err != nil {
		t.Errorf("no text: %v, %v", tiers, err)
	}
}
