// Command mutation breaks the product in every way that faults.yaml lists, one at a time, and runs
// the tests that have to notice it: those of the package that the fault is in and, for the recovery
// engine, the histories. A fault that they do not notice is a test that is missing. The files
// themselves are left alone, for the compiler is handed an overlay.
//
// With -defect it takes the fixes of a defect out again that record.yaml lists, and wants the tests
// that the list names to fail. With -record it writes record.md, the page of that list.
package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path"
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
	// In is what is declared wrong: a function such as recovery.join, a method such as recovery.Engine.takeDueSteps, a type, a constant,
	// a variable, or a file of YAML that a test embeds, such as config/policy/manager.yaml.
	In string `json:"in"`
	// Old is text that the declaration has exactly once, and New is what takes its place.
	Old string `json:"old"`
	New string `json:"new"`
	// By are the packages whose tests have to notice it. Default: the package that the fault is in; for the engine all of its packages,
	// then the simulation.
	By []string `json:"by,omitempty"`

	of    declaration
	named string // matches the tests that have to notice it; empty for all
}

// simulation is the package that plays random histories.
const simulation = "./test/simulation"

func (f fault) String() string { return f.In + ": " + f.What }

func main() {
	root := flag.String("root", ".", "the repository")
	histories := flag.Int("histories", 200, "random histories to run on each fault of the engine")
	only := flag.String("run", "", "only the faults that this expression matches, as in what is printed of them")
	defect := flag.String("defect", "", "only the faults of the defects in record.yaml that this expression matches, by the tests named there")
	page := flag.Bool("record", false, "write record.md, and break nothing")
	flag.Parse()
	if err := run(*root, *histories, *only, *defect, *page); err != nil {
		fmt.Fprintln(os.Stderr, "mutation:", err)
		os.Exit(1)
	}
}

func run(root string, histories int, only, defect string, page bool) error {
	if page {
		return writePage(root)
	}
	faults, err := load(root)
	if err != nil {
		return err
	}
	if faults, err = choose(root, faults, only, defect); err != nil {
		return err
	}
	return tryAll(root, histories, faults)
}

// choose returns the faults that one expression matches and, where there is another, are those of the defects that it matches.
func choose(root string, faults []fault, only, defect string) ([]fault, error) {
	wanted, err := regexp.Compile(only)
	if err != nil {
		return nil, err
	}
	faults = slices.DeleteFunc(faults, func(f fault) bool { return !wanted.MatchString(f.String()) })
	if defect == "" {
		return faults, nil
	}
	return ofDefects(root, faults, defect)
}

func tryAll(root string, histories int, faults []fault) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	dir, err := os.MkdirTemp("", "mutation")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if out, err := test(ctx, root, allTests(faults), histories, "-run="+allNamed(faults)); err != nil {
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
			fmt.Printf("caught: %s (%s)\n", f, verdict)
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
	out, err := test(ctx, root, f.tests(), histories, "-overlay="+overlay, "-run="+f.named)
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

// load reads the faults, and makes sure that each still applies.
func load(root string) ([]fault, error) {
	var faults []fault
	if err := yaml.UnmarshalStrict(faultsYAML, &faults); err != nil {
		return nil, fmt.Errorf("faults.yaml: %w", err)
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

// tests returns the packages whose tests have to notice a fault, in their order.
func (f fault) tests() []string {
	dir := path.Dir(f.of.file)
	switch {
	case len(f.By) > 0:
		return f.By
	case dir == engine || strings.HasPrefix(dir, engine+"/"):
		return []string{"./" + engine + "/...", simulation}
	}
	return []string{"./" + dir}
}

// allTests returns the packages that faults name.
func allTests(faults []fault) []string {
	var all []string
	for _, f := range faults {
		all = append(all, f.tests()...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// test runs the tests of packages until those of one fail.
func test(ctx context.Context, root string, packages []string, histories int, flags ...string) (string, error) {
	for _, p := range packages {
		args := slices.Concat(flags, []string{p})
		if p == simulation {
			args = append(args, fmt.Sprintf("-histories=%d", histories))
		}
		if out, err := goTest(ctx, root, args); err != nil {
			return out, err
		}
	}
	return "", nil
}

func goTest(ctx context.Context, root string, args []string) (string, error) {
	// Results of packages that a fault does not touch come from the cache of the go command.
	args = append([]string{"test", "-failfast", "-vet=off", "-timeout=2m"}, args...)
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
