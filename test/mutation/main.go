// Command mutation takes the fixes of the defects in record.yaml out again, one at a time, and wants the tests that the record names to
// fail: a fix that nobody would miss is a test that is missing. The files themselves are left alone, for the compiler is handed an overlay.
//
// With -json it writes which test noticed each into a file. With -record it writes record.md, the page of that list.
package main

import (
	"context"
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

	"github.com/lockstep-dev/lockstep/test/evidence"
)

// fault takes a fix out, or a part of it.
type fault struct {
	// What is wrong with it.
	What string `json:"what"`
	// In is what is declared wrong: a function such as recovery.join, a method such as recovery.Engine.takeDueSteps, a type, a constant,
	// a variable, or a file of YAML that a test embeds, such as config/policy/manager.yaml.
	In string `json:"in"`
	// Old is text that the declaration has exactly once, and New is what takes its place.
	Old string `json:"old"`
	New string `json:"new"`

	of declaration
	// tests are the names of those that have to notice it, and packages the folders that they are in.
	tests, packages []string
}

func (f fault) String() string { return f.In + ": " + f.What }

func main() {
	root := flag.String("root", ".", "the repository")
	defect := flag.String("defect", ".", "only the defects of which this expression matches what was seen")
	page := flag.Bool("record", false, "write record.md, and break nothing")
	file := flag.String("json", "", "the file into which it writes what noticed each fault, if something noticed every one")
	flag.Parse()
	if err := run(*root, *defect, *file, *page); err != nil {
		fmt.Fprintln(os.Stderr, "mutation:", err)
		os.Exit(1)
	}
}

func run(root, defect, file string, page bool) error {
	if page {
		return writePage(root)
	}
	faults, err := load(root, defect)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if file == "" {
		_, err := tryAll(ctx, root, faults)
		return err
	}
	of, err := evidence.Of(ctx, "make test-mutations", file)
	if err != nil {
		return err
	}
	all, err := tryAll(ctx, root, faults)
	if err != nil {
		return err
	}
	return evidence.Write(file, struct {
		evidence.Tested
		Defects string   `json:"defects"` // an expression that matches them
		Caught  []caught `json:"caught"`
	}{of, defect, all})
}

// caught is a fault that a test has noticed.
type caught struct {
	Fault string `json:"fault"`
	By    string `json:"by"`
}

// tryAll takes the fixes out, one at a time, and returns what noticed each, in the order of the record.
func tryAll(ctx context.Context, root string, faults []fault) ([]caught, error) {
	dir, err := os.MkdirTemp("", "mutation")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if out, err := test(ctx, root, together(faults)); err != nil {
		return nil, fmt.Errorf("the tests fail without any fault: %w\n%s", err, out)
	}
	all := make([]caught, len(faults))
	var wg sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	turns := make(chan struct{}, 2) // a compiler has more than one core's work, and not much more
	for i, f := range faults {
		turns <- struct{}{}
		wg.Go(func() {
			defer func() { <-turns }()
			verdict, err := try(ctx, f, root, filepath.Join(dir, strconv.Itoa(i)))
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, err)
				return
			}
			all[i] = caught{f.String(), verdict}
			fmt.Printf("caught: %s (%s)\n", f, verdict)
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	fmt.Printf("%d faults, %d caught\n", len(faults), len(faults)-len(errs))
	return all, errors.Join(errs...)
}

// try runs the tests on one fault, and says which noticed it.
func try(ctx context.Context, f fault, root, dir string) (string, error) {
	overlay, err := f.overlay(root, dir)
	if err != nil {
		return "", err
	}
	out, err := test(ctx, root, f, "-overlay="+overlay)
	if err == nil {
		return "", fmt.Errorf("survived, and wants a test: %s", f)
	}
	if strings.Contains(out, "[build failed]") || strings.Contains(out, "[setup failed]") {
		return "", fmt.Errorf("does not compile, and is no fault: %s:\n%s", f, out)
	}
	by := noticed(out)
	if by == "" {
		return "", fmt.Errorf("no test failed: %s: %w\n%s", f, err, out)
	}
	return by, nil
}

// load reads the faults of the defects that an expression matches, and makes sure that each still applies.
func load(root, defect string) ([]fault, error) {
	faults, err := faultsOf(root, defect)
	if err != nil {
		return nil, err
	}
	declared, err := declarations(root)
	if err != nil {
		return nil, err
	}
	var errs []error
	for i := range faults {
		errs = append(errs, faults[i].find(declared[faults[i].In]))
	}
	return faults, errors.Join(errs...)
}

// find finds the declaration, of those that have its name, in which the fault is.
func (f *fault) find(candidates []declaration) error {
	n := 0
	for _, d := range candidates {
		if here := strings.Count(d.source, f.Old); here > 0 {
			n, f.of = n+here, d
		}
	}
	if n != 1 || f.Old == f.New {
		return fmt.Errorf("%s: %q no longer applies: its text is there %d times: %s", f.In, f.What, n, f.Old)
	}
	return nil
}

// overlay writes the broken file, and what the compiler is told of it.
func (f fault) overlay(root, dir string) (string, error) {
	original, err := filepath.Abs(filepath.Join(root, f.of.file))
	if err != nil {
		return "", err
	}
	raw, err := os.ReadFile(original)
	if err != nil {
		return "", err
	}
	source := strings.Replace(f.of.source, f.Old, f.New, 1)
	content := slices.Concat(raw[:f.of.begin], []byte(source), raw[f.of.begin+len(f.of.source):])
	broken, list := filepath.Join(dir, filepath.Base(original)), filepath.Join(dir, "overlay.json")
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {original: broken}})
	if err != nil {
		return "", err
	}
	return list, errors.Join(
		os.Mkdir(dir, 0o700),
		os.WriteFile(broken, content, 0o600),
		os.WriteFile(list, overlay, 0o600),
	)
}

// together is what has the tests of all of some faults.
func together(faults []fault) fault {
	var all fault
	for _, f := range faults {
		all.tests, all.packages = append(all.tests, f.tests...), append(all.packages, f.packages...)
	}
	slices.Sort(all.tests)
	slices.Sort(all.packages)
	all.tests, all.packages = slices.Compact(all.tests), slices.Compact(all.packages)
	return all
}

// test runs the tests that have to notice a fault.
func test(ctx context.Context, root string, f fault, flags ...string) (string, error) {
	// Results of packages that a fault does not touch come from the cache of the go command.
	args := slices.Concat([]string{"test", "-failfast", "-vet=off", "-timeout=2m", "-run=^(" + strings.Join(f.tests, "|") + ")$"}, flags, f.packages)
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

// noticed says what noticed a fault; empty for nothing.
func noticed(out string) string {
	for _, sign := range []*regexp.Regexp{failure, crash} {
		if m := sign.FindStringSubmatch(out); m != nil {
			return m[1]
		}
	}
	return ""
}
