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
		} else if err := os.WriteFile(path, []byte("state"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func tiersOf(t *testing.T, text string, args ...any) *Tiers {
	t.Helper()
	tiers, err := New(fmt.Sprintf(text, args...), false)
	if err != nil {
		t.Fatal(err)
	}
	return tiers
}

// finds checks what a look finds; nil for a look of which nothing is known.
func finds(t *testing.T, what string, want *wire.Checkpoints, tiers *Tiers) {
	t.Helper()
	got, err := tiers.Look()
	if (err == nil) != (got != nil) {
		t.Errorf("%s: found %v, and %v", what, got, err)
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// What is being written, and what has no step, is no checkpoint.
func TestSteps(t *testing.T) {
	for name, want := range map[string]int64{
		"step-1200.pt": 1200, "checkpoint-500/": 500, "iter_0000100/": 100, "global_step7/": 7, "epoch=3-step=90.ckpt": 90, "12": 12, "ckpt_5.safetensors": 5, "step=8/": 8,
		"step-1.pt.tmp": 0, "step-2.tmp": 0, "step-2.tmpab12": 0, "step-3.old": 0, "tmp-checkpoint-4/": 0, "_tmp_step_5": 0, ".step-5": 0, "latest": 0, "step-6-of-many": 0,
		"step-99999999999999999999.pt": 0, "12345678901234567890": 0, "step-0": 0,
		"step-7.rank-3": 0, "step-1200.rank3": 0, "rank3-step1200.pt": 0, "mp_rank_00_step_1200.pt": 0, "model-00001-of-00004.safetensors": 0, "epoch-2-loss-3.ckpt": 0,
		"core.12345": 0, "log_20250101.txt": 0, "slurm-8812.out": 0, "events.out.tfevents.1699999999": 0, "rng_state_3.pth": 0, "nohup.2": 0, "llama3": 0,
	} {
		tiers, found := tiersOf(t, `[{"path": %q, "scope": "Pod"}]`, folder(t, name)), &wire.Checkpoints{}
		if want > 0 {
			found.Own = []int64{want}
		}
		finds(t, name, found, tiers)
	}
}

// The fastest folder that has the step is that of the rank; what only another rank has found is in the shared one.
func TestFolders(t *testing.T) {
	memory, disk, shared := folder(t, "step-9.pt", "step-10.pt"), folder(t, "step-8.pt", "step-9.pt"), folder(t, "step-5.pt", "step-8.pt")
	tiers := tiersOf(t, `[{"path": %q, "scope": "Pod"}, {"path": %q, "scope": "Node"}, {"path": %q, "scope": "Shared"}]`, memory, disk, shared)
	finds(t, "all", &wire.Checkpoints{Own: []int64{8, 9, 10}, Shared: []int64{5, 8}}, tiers)
	scopes := map[string]string{memory: "Pod", disk: "Node", shared: "Shared"}
	for step, want := range map[int64]string{10: memory, 9: memory, 8: disk, 5: shared, 7: shared} {
		if got, scope := tiers.Folder(step); got != want || scope != scopes[want] {
			t.Errorf("step %d is read from %s of scope %s, want %s of scope %s", step, got, scope, want, scopes[want])
		}
	}
	add(t, disk, "step-11.pt")
	finds(t, "later", &wire.Checkpoints{Own: []int64{8, 9, 10, 11}, Shared: []int64{5, 8}}, tiers)
}

func TestFormats(t *testing.T) {
	dcp := folder(t, "step-1/.metadata", "step-2/__0_0.distcp", "step-3/.metadata/", "step-4")
	finds(t, "DCP", &wire.Checkpoints{Shared: []int64{1}}, tiersOf(t, `[{"path": %q, "scope": "Shared", "format": "DCP"}]`, dcp))

	megatron := folder(t, "iter_0000100/", "iter_0000200/", "iter_0000300/", "other_50/")
	tiers := tiersOf(t, `[{"path": %q, "scope": "Shared", "format": "Megatron"}]`, megatron)
	finds(t, "Megatron before its first checkpoint", &wire.Checkpoints{}, tiers)
	for latest, want := range map[string][]int64{"200\n": {100, 200}, "release": nil} {
		if err := os.WriteFile(filepath.Join(megatron, "latest_checkpointed_iteration.txt"), []byte(latest), 0o600); err != nil {
			t.Fatal(err)
		}
		finds(t, "Megatron at "+latest, &wire.Checkpoints{Shared: want}, tiers)
	}
}

// The newest are reported, wherever they are in the folder.
func TestManySteps(t *testing.T) {
	var names []string
	for step := range 100 {
		names = append(names, fmt.Sprintf("step-%d", step))
	}
	many := folder(t, names...)
	found, err := tiersOf(t, `[{"path": %q, "scope": "Node"}]`, many).Look()
	if err != nil {
		t.Fatal(err)
	}
	if got := found.GetOwn(); len(got) != mostSteps || got[0] != 100-mostSteps || got[mostSteps-1] != 99 {
		t.Errorf("steps %v", got)
	}
	for i := range mostEntries {
		add(t, many, fmt.Sprintf("other-%d", i))
	}
	finds(t, "of too many entries", nil, tiersOf(t, `[{"path": %q, "scope": "Node"}]`, many))
}

// A folder that is not there has no checkpoint; of one that cannot be read nothing is known, and so nothing is of the rank.
func TestFoldersThatAreNone(t *testing.T) {
	dir := folder(t, "file", "step-1")
	finds(t, "not there yet", &wire.Checkpoints{Own: []int64{1}}, tiersOf(t, `[{"path": %q, "scope": "Pod"}, {"path": %q, "scope": "Node"}]`, dir, dir+"/none"))
	finds(t, "not mounted", nil, tiersOf(t, `[{"path": %q, "scope": "Pod"}, {"path": %q, "scope": "Shared"}]`, dir, dir+"/none"))
	finds(t, "not mounted, of Megatron", nil, tiersOf(t, `[{"path": %q, "scope": "Shared", "format": "Megatron"}]`, dir+"/none"))
	finds(t, "not there yet, of Megatron", &wire.Checkpoints{}, tiersOf(t, `[{"path": %q, "scope": "Node", "format": "Megatron"}]`, dir+"/none"))
	finds(t, "a file", nil, tiersOf(t, `[{"path": %q, "scope": "Pod"}, {"path": %q, "scope": "Shared"}]`, dir, dir+"/file"))
	if err := syscall.Mkfifo(dir+"/pipe", 0o600); err != nil {
		t.Fatal(err)
	}
	finds(t, "a pipe", nil, tiersOf(t, `[{"path": %q, "scope": "Pod"}]`, dir+"/pipe"))
	add(t, dir, "megatron/")
	if err := syscall.Mkfifo(dir+"/megatron/latest_checkpointed_iteration.txt", 0o600); err != nil {
		t.Fatal(err)
	}
	finds(t, "a pipe for a tracker", &wire.Checkpoints{}, tiersOf(t, `[{"path": %q, "scope": "Pod", "format": "Megatron"}]`, dir+"/megatron"))
	if err := os.WriteFile(dir+"/step-3", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dir+"/none", dir+"/step-2"); err != nil {
		t.Fatal(err)
	}
	finds(t, "beside an empty file, and a link to nothing", &wire.Checkpoints{Own: []int64{1}}, tiersOf(t, `[{"path": %q, "scope": "Pod"}]`, dir))
	var none *Tiers
	if folder, scope := none.Folder(1); folder != "" || scope != "" {
		t.Errorf("without folders: %s, %s", folder, scope)
	}
}

// File systems that do not answer delay a look by a second, and later looks do not pile up.
func TestAFileSystemThatDoesNotAnswer(t *testing.T) {
	released, asked := make(chan struct{}), make(chan struct{}, 8)
	readers["slow"] = func(string) ([]int64, error) {
		asked <- struct{}{}
		<-released
		return []int64{3}, nil
	}
	defer delete(readers, "slow")
	tiers := tiersOf(t, `[{"path": "/slow", "scope": "Shared", "format": "slow"}, {"path": "/too", "scope": "Node", "format": "slow"}]`)
	finds(t, "at first", nil, tiers)
	finds(t, "again", nil, tiers)
	close(released)
	for len(tiers.tiers[0].under) == 0 || len(tiers.tiers[1].under) == 0 {
		runtime.Gosched()
	}
	finds(t, "once it answers", &wire.Checkpoints{Own: []int64{3}, Shared: []int64{3}}, tiers)
	if n := len(asked); n != 4 {
		t.Errorf("asked %d times, want twice of each: what it says at last is old", n)
	}
}

// A container that may be of another rank than its path says reads no copies on its node: they may be those of a rank that was there.
func TestTiersOfAnotherRank(t *testing.T) {
	folders := []string{folder(t, "1"), folder(t, "2"), folder(t, "3")}
	text := fmt.Sprintf(`[{"path":%q,"scope":"Pod","format":"Named"},{"path":%q,"scope":"Node","format":"Named"},{"path":%q,"scope":"Shared","format":"Named"}]`, folders[0], folders[1], folders[2])
	tiers, err := New(text, true)
	if err != nil {
		t.Fatal(err)
	}
	finds(t, "of another rank", &wire.Checkpoints{Own: []int64{1}, Shared: []int64{3}}, tiers)
}

func TestTiersThatAreRefused(t *testing.T) {
	for _, text := range []string{`{}`, `[{"path": "/c", "scope": "Pod", "format": "Later"}]`, `[1]`} {
		if _, err := New(text, false); err == nil {
			t.Errorf("%s is taken", text)
		}
	}
	if tiers, err := New("", false); tiers != nil || err != nil {
		t.Errorf("no text: %v, %v", tiers, err)
	}
}
