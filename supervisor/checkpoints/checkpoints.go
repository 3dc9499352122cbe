// Package checkpoints finds the checkpoints that a rank can read, in the folders that its job names.
package checkpoints

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/lockstep-dev/lockstep/supervisor/progress"
	"github.com/lockstep-dev/lockstep/supervisor/wire"
)

const (
	// lookWithin is how long a look waits for file systems that do not answer.
	lookWithin = time.Second
	// mostEntries is how many entries of a folder are looked at, and mostSteps how many steps, the newest, are reported of all folders of a kind.
	mostEntries, mostSteps = 10000, 32
)

// Tiers are the folders of a job, the fastest first. Its methods are called one after the other.
type Tiers struct {
	tiers []*tier
}

// tier is a folder, as v1alpha1.CheckpointTier has it, with what the last look has found in it.
type tier struct {
	Path, Scope, Format string
	// under is a look that has yet to end. One that a later look finds there is old: a file system that hangs may never end it.
	under chan found
	old   bool
	steps []int64
}

type found struct {
	steps []int64
	err   error
}

// shared is the scope of a folder that every rank sees.
const shared = "Shared"

// onNode is the scope of a folder that one rank has on its node.
const onNode = "Node"

// New returns the folders of a JSON list of v1alpha1.CheckpointTier; nil, which finds nothing, for an empty text. Those of the rank on its node are left
// out where the container may be of another rank than its path says.
func New(text string, otherRank bool) (*Tiers, error) {
	if text == "" {
		return nil, nil
	}
	t := &Tiers{}
	if err := json.Unmarshal([]byte(text), &t.tiers); err != nil {
		return nil, fmt.Errorf("the folders of checkpoints: %w", err)
	}
	t.tiers = slices.DeleteFunc(t.tiers, func(one *tier) bool { return otherRank && one.Scope == onNode })
	for _, one := range t.tiers {
		if readers[one.Format] == nil {
			return nil, fmt.Errorf("the folders of checkpoints: %s has the format %q, which this version does not know", one.Path, one.Format)
		}
	}
	return t, nil
}

// Look returns the steps that can be read. Where a folder cannot be read, or does not answer within a second, it is not known which these are.
func (t *Tiers) Look() (*wire.Checkpoints, error) {
	for _, one := range t.tiers {
		one.begin()
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookWithin)
	defer cancel()
	own, all := map[int64]bool{}, map[int64]bool{}
	var errs []error
	for _, one := range t.tiers {
		if err := one.end(ctx); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", one.Path, err))
		}
		into := own
		if one.Scope == shared {
			into = all
		}
		for _, step := range one.steps {
			into[step] = true
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return &wire.Checkpoints{Own: newest(own), Shared: newest(all)}, nil
}

// Folder is the first one in which the last look has found a step, or else the first shared one, in which another rank has, and its scope.
func (t *Tiers) Folder(step int64) (path, scope string) {
	if t == nil {
		return "", ""
	}
	i := slices.IndexFunc(t.tiers, func(one *tier) bool { return slices.Contains(one.steps, step) })
	if i < 0 {
		i = slices.IndexFunc(t.tiers, func(one *tier) bool { return one.Scope == shared })
	}
	if i < 0 {
		return "", ""
	}
	return t.tiers[i].Path, t.tiers[i].Scope
}

// begin begins a look, unless the last one still hangs.
func (t *tier) begin() {
	t.steps, t.old = nil, false
	if t.under != nil {
		select {
		case <-t.under:
		default:
			t.old = true
			return
		}
	}
	result := make(chan found, 1)
	t.under = result
	go func(path string, steps func(string) ([]int64, error)) {
		read, err := steps(path)
		result <- found{read, err}
	}(t.Path, readers[t.Format])
}

// errSilent is said of a folder whose file system does not answer.
var errSilent = fmt.Errorf("does not answer within %s", lookWithin)

// end takes what a look has found. A folder that all ranks see is there; another one may be yet to come.
func (t *tier) end(ctx context.Context) error {
	if t.old {
		return errSilent
	}
	select {
	case f := <-t.under:
		t.under, t.steps = nil, f.steps
		if errors.Is(f.err, fs.ErrNotExist) && t.Scope != shared {
			return nil
		}
		return f.err
	case <-ctx.Done():
		return errSilent
	}
}

// newest are the last of the steps, in order.
func newest(steps map[int64]bool) []int64 {
	all := make([]int64, 0, len(steps))
	for step := range steps {
		all = append(all, step)
	}
	slices.Sort(all)
	return all[max(0, len(all)-mostSteps):]
}

// readers return the steps of the whole checkpoints in a folder, by its format.
var readers = map[string]func(string) ([]int64, error){
	"":         named,
	"Named":    named,
	"Megatron": megatron,
	"DCP":      distributed,
}

// stepName is a name that says the step of a checkpoint, and nothing of a part of it.
var stepName = regexp.MustCompile(`^(?:(?:epoch=[0-9]+-)?(?:global_)?(?:step|iter|checkpoint|ckpt)[=_-]?)?([0-9]+)(?:\.(?:pt|pth|ckpt|bin|safetensors|tar|npz))?$`)

// stepOf is the step that a name says; false for any other name.
func stepOf(name string) (int64, bool) {
	match := stepName.FindStringSubmatch(name)
	if match == nil {
		return 0, false
	}
	step, err := strconv.ParseInt(match[1], 10, 64)
	return step, err == nil && step > 0
}

// named has a checkpoint for each entry with content: a file that was renamed before it was synced may be empty after a loss of power.
func named(path string) ([]int64, error) {
	return entries(path, func(e fs.DirEntry) bool {
		info, err := os.Stat(filepath.Join(path, e.Name()))
		return err == nil && (info.IsDir() || (info.Mode().IsRegular() && info.Size() > 0))
	})
}

// distributed has one for each folder that torch.distributed.checkpoint has written to the end: its metadata comes last.
func distributed(path string) ([]int64, error) {
	return entries(path, func(e fs.DirEntry) bool {
		info, err := os.Stat(filepath.Join(path, e.Name(), ".metadata"))
		return err == nil && info.Mode().IsRegular()
	})
}

// megatron has one for each folder up to the one that its tracker names.
func megatron(path string) ([]int64, error) {
	text, err := progress.Read(filepath.Join(path, "latest_checkpointed_iteration.txt"))
	if _, gone := os.Stat(path); errors.Is(err, fs.ErrNotExist) && gone == nil {
		return nil, nil // the first one is yet to come
	}
	if err != nil {
		return nil, err
	}
	latest, is := stepOf(strings.TrimSpace(text))
	if !is { // as release
		return nil, nil
	}
	all, err := entries(path, func(e fs.DirEntry) bool { return strings.HasPrefix(e.Name(), "iter_") })
	return slices.DeleteFunc(all, func(step int64) bool { return step > latest }), err
}

// entries are the steps of the newest entries of a folder that are whole.
func entries(path string, whole func(fs.DirEntry) bool) (steps []int64, err error) {
	folder, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	all, err := folder.ReadDir(mostEntries + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(all) > mostEntries {
		return nil, fmt.Errorf("more than %d entries", mostEntries)
	}
	all = slices.DeleteFunc(all, func(e fs.DirEntry) bool { _, is := stepOf(e.Name()); return !is })
	slices.SortFunc(all, func(a, b fs.DirEntry) int {
		stepA, _ := stepOf(a.Name())
		stepB, _ := stepOf(b.Name())
		return cmp.Compare(stepB, stepA)
	})
	for _, e := range all {
		if step, _ := stepOf(e.Name()); len(steps) < mostSteps && whole(e) {
			steps = append(steps, step)
		}
	}
	return steps, nil
}
