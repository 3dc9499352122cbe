// Command differential plays the same random histories with the engine of an earlier commit and with that of the working tree, and says
// where they decide otherwise. Each place in a decision or a plan that differs has to be listed with its reason in differences.yaml, which
// names the commit, too.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/lockstep-dev/lockstep/test/checkout"
)

// list is differences.yaml.
type list struct {
	// Base is the commit whose engine is compared with.
	Base string `json:"base"`
	// Differences that are meant.
	Differences []difference `json:"differences"`
}

// difference is one that is meant.
type difference struct {
	// At is a place in a decision or a plan, such as Decision.Status.message. Elements of lists have no index.
	At string `json:"at"`
	// Reason is why the engines differ there.
	Reason string `json:"reason"`
}

func main() {
	root := flag.String("root", ".", "the repository")
	base := flag.String("base", "", "the commit whose engine is compared with; by default that of differences.yaml")
	histories := flag.Int("histories", 100_000, "random histories to play")
	from := flag.Uint64("from", 1, "seed of the first")
	looks := flag.Int("looks", 100, "histories that are looked into at most, of those that differ")
	flag.Parse()
	if err := run(*root, *base, *from, *histories, *looks); err != nil {
		fmt.Fprintln(os.Stderr, "differential:", err)
		os.Exit(1)
	}
}

func run(root, base string, from uint64, histories, looks int) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	meant, err := read(filepath.Join(root, "test", "differential", "differences.yaml"))
	if err != nil {
		return err
	}
	if base == "" {
		base = meant.Base
	}
	dir, err := os.MkdirTemp("", "lockstep-differential-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	before, after, err := build(ctx, root, base, dir)
	if err != nil {
		return err
	}
	seeds, err := compare(ctx, before, after, from, histories)
	if err != nil {
		return err
	}
	fmt.Printf("%d of %d histories, from seed %d on, differ from %s\n", len(seeds), histories, from, base)
	found, err := lookInto(ctx, before, after, seeds[:min(len(seeds), looks)])
	if err != nil {
		return err
	}
	return found.judge(meant)
}

func read(file string) (list, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return list{}, err
	}
	var l list
	if err := yaml.UnmarshalStrict(raw, &l); err != nil {
		return list{}, fmt.Errorf("%s: %w", file, err)
	}
	for _, d := range l.Differences {
		if d.At == "" || d.Reason == "" {
			return list{}, fmt.Errorf("%s: a difference needs at and reason", file)
		}
	}
	return l, nil
}

// engine is one that histories are played with.
type engine struct{ name, binary, dir string }

// build builds the simulation with both engines. Each is played by the simulation of its own commit.
func build(ctx context.Context, root, base, dir string) (before, after engine, err error) {
	folder := filepath.Join(dir, "base")
	if err := os.Mkdir(folder, 0o755); err != nil {
		return engine{}, engine{}, err
	}
	if err := checkout.Files(ctx, root, base, folder); err != nil {
		return engine{}, engine{}, err
	}
	before = engine{"base", filepath.Join(dir, "base.test"), filepath.Join(folder, "test", "simulation")}
	after = engine{"head", filepath.Join(dir, "head.test"), filepath.Join(root, "test", "simulation")}
	for _, e := range []engine{before, after} {
		compile := exec.CommandContext(ctx, "go", "test", "-c", "-o", e.binary, ".")
		compile.Dir = e.dir
		if out, err := compile.CombinedOutput(); err != nil {
			return engine{}, engine{}, fmt.Errorf("build the simulation of %s: %w\n%s", e.name, err, out)
		}
	}
	return before, after, nil
}

// play plays histories, and returns the lines of what was decided in them.
func (e engine) play(ctx context.Context, args ...string) ([]string, error) {
	file := e.binary + ".decisions"
	args = append([]string{"-test.run=^TestHistories$", "-test.timeout=12h", "-decisions=" + file}, args...)
	command := exec.CommandContext(ctx, e.binary, args...)
	command.Dir = e.dir
	if out, err := command.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("play histories with the engine of %s: %w\n%s", e.name, err, out)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("the engine of %s has left no decisions, which it does since -decisions is there: %w", e.name, err)
	}
	return strings.Split(strings.TrimSpace(string(raw)), "\n"), nil
}

// compare returns the seeds of the histories in which the engines decide otherwise.
func compare(ctx context.Context, before, after engine, from uint64, histories int) ([]uint64, error) {
	args := []string{fmt.Sprint("-from=", from), fmt.Sprint("-histories=", histories)}
	was, err := before.play(ctx, args...)
	if err != nil {
		return nil, err
	}
	is, err := after.play(ctx, args...)
	if err != nil {
		return nil, err
	}
	if len(was) != histories || len(is) != histories {
		return nil, fmt.Errorf("the engines have played %d and %d histories, and not %d", len(was), len(is), histories)
	}
	var seeds []uint64
	for i := range was {
		if was[i] != is[i] {
			seeds = append(seeds, from+uint64(i))
		}
	}
	return seeds, nil
}

// places are where the first decision that differs does so, with the seeds of the histories.
type places map[string][]uint64

func lookInto(ctx context.Context, before, after engine, seeds []uint64) (places, error) {
	found := places{}
	for _, seed := range seeds {
		was, err := before.play(ctx, fmt.Sprint("-seed=", seed))
		if err != nil {
			return nil, err
		}
		is, err := after.play(ctx, fmt.Sprint("-seed=", seed))
		if err != nil {
			return nil, err
		}
		at, err := firstDifference(was, is)
		if err != nil {
			return nil, fmt.Errorf("history %d: %w", seed, err)
		}
		for _, place := range at {
			found[place] = append(found[place], seed)
		}
	}
	return found, nil
}

// judge tells what differs, and returns an error that names what is not meant.
func (p places) judge(meant list) error {
	var unmeant []error
	for _, place := range slices.Sorted(maps.Keys(p)) {
		seeds := p[place]
		i := slices.IndexFunc(meant.Differences, func(d difference) bool { return d.At == place })
		if i < 0 {
			unmeant = append(unmeant, fmt.Errorf("%s differs in %d of the histories that were looked into, first in that of seed %d", place, len(seeds), seeds[0]))
			continue
		}
		fmt.Printf("%s differs in %d of the histories that were looked into: %s\n", place, len(seeds), meant.Differences[i].Reason)
	}
	return errors.Join(unmeant...)
}
