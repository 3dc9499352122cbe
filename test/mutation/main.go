// Command mutation breaks the recovery engine in every way that faults.yaml lists, one at
// a time, and runs its unit tests and the simulation on each: a fault that they do not notice
// is a test that is missing. The files themselves are left alone, for the compiler is handed
// an overlay.
package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/yaml"
)

//go:embed faults.yaml
var faultsYAML []byte

// fault is a mistake that somebody could make.
type fault struct {
	// What is wrong.
	What string `json:"what"`
	// File in policies/ that has it.
	File string `json:"file"`
	// Old is text that the file has exactly once, and New is what takes its place.
	Old string `json:"old"`
	New string `json:"new"`
}

func main() {
	root := flag.String("root", ".", "the repository")
	histories := flag.Int("histories", 200, "random histories to run on each fault")
	only := flag.String("run", "", "only the faults whose description matches this expression")
	flag.Parse()
	if err := run(*root, *histories, *only); err != nil {
		fmt.Fprintln(os.Stderr, "mutation:", err)
		os.Exit(1)
	}
}

func run(root string, histories int, only string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	wanted, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	faults, err := load(root)
	if err != nil {
		return err
	}
	faults = slices.DeleteFunc(faults, func(f fault) bool { return !wanted.MatchString(f.What) })
	dir, err := os.MkdirTemp("", "mutation")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if out, err := test(ctx, root, histories); err != nil {
		return fmt.Errorf("the tests fail without any fault: %w\n%s", err, out)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	turns := make(chan struct{}, 2) // a compiler has more than one core's work, and not much more
	for i, f := range faults {
		turns <- struct{}{}
		wg.Go(func() {
			defer func() { <-turns }()
			verdict, err := try(ctx, f, root, filepath.Join(dir, strconv.Itoa(i)), histories)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, err)
				return
			}
			fmt.Printf("caught: %s: %s (%s)\n", f.File, f.What, verdict)
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	fmt.Printf("%d faults, %d caught\n", len(faults), len(faults)-len(errs))
	return errors.Join(errs...)
}

// try runs the tests on one fault, and says which noticed it.
func try(ctx context.Context, f fault, root, dir string, histories int) (string, error) {
	overlay, err := f.overlay(root, dir)
	if err != nil {
		return "", err
	}
	out, err := test(ctx, root, histories, "-overlay="+overlay)
	if err == nil {
		return "", fmt.Errorf("survived, and wants a test: %s: %s", f.File, f.What)
	}
	if strings.Contains(out, "[build failed]") {
		return "", fmt.Errorf("does not compile, and is no fault: %s: %s:\n%s", f.File, f.What, out)
	}
	return noticed(out, err), nil
}

// load reads the faults, and makes sure that each still applies.
func load(root string) ([]fault, error) {
	var faults []fault
	if err := yaml.UnmarshalStrict(faultsYAML, &faults); err != nil {
		return nil, fmt.Errorf("faults.yaml: %w", err)
	}
	var errs []error
	for _, f := range faults {
		raw, err := os.ReadFile(f.path(root))
		if err != nil {
			errs = append(errs, err)
		} else if n := strings.Count(string(raw), f.Old); n != 1 || f.Old == f.New {
			errs = append(errs, fmt.Errorf("%s: %q no longer applies: its text is there %d times: %s", f.File, f.What, n, f.Old))
		}
	}
	return faults, errors.Join(errs...)
}

func (f fault) path(root string) string { return filepath.Join(root, "policies", f.File) }

// overlay writes the broken file, and what the compiler is told of it.
func (f fault) overlay(root, dir string) (string, error) {
	original, err := filepath.Abs(f.path(root))
	if err != nil {
		return "", err
	}
	raw, err := os.ReadFile(original)
	if err != nil {
		return "", err
	}
	broken, list := filepath.Join(dir, f.File), filepath.Join(dir, "overlay.json")
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {original: broken}})
	if err != nil {
		return "", err
	}
	return list, errors.Join(
		os.Mkdir(dir, 0o700),
		os.WriteFile(broken, bytes.Replace(raw, []byte(f.Old), []byte(f.New), 1), 0o600),
		os.WriteFile(list, overlay, 0o600),
	)
}

// test runs the engine's unit tests, then the simulation, until the first fails.
func test(ctx context.Context, root string, histories int, flags ...string) (string, error) {
	out, err := goTest(ctx, root, slices.Concat(flags, []string{"./policies"}))
	if err != nil {
		return out, err
	}
	return goTest(ctx, root, slices.Concat(flags, []string{"./test/simulation", fmt.Sprintf("-histories=%d", histories)}))
}

func goTest(ctx context.Context, root string, args []string) (string, error) {
	args = append([]string{"test", "-count=1", "-failfast", "-vet=off", "-timeout=2m"}, args...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = root
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	return string(out), err
}

var (
	failure = regexp.MustCompile(`--- FAIL: (\S+)`)
	crash   = regexp.MustCompile(`(?m)^panic: (.*)$`)
)

// noticed says what noticed a fault.
func noticed(out string, err error) string {
	for _, sign := range []*regexp.Regexp{failure, crash} {
		if m := sign.FindStringSubmatch(out); m != nil {
			return m[1]
		}
	}
	return err.Error()
}
