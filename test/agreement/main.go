// Command agreement compares the policy lab with what happens: it makes failures on the test cluster, with simulated kubelets and
// with real ones, and plays the same failures in the lab. It prints what was measured beside what was predicted, and writes that
// into a README. It fails where they do not agree.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/operator"
	"github.com/lockstep-dev/lockstep/test/readme"
)

// The parts of docs/benchmarks.md.
const (
	simulatedSection readme.Section = "agreement"
	realSection      readme.Section = "agreement:real"
)

func main() {
	ctrl.SetLogger(zap.New())
	simulated := flag.Int("simulated", 10, "how many of the incidents are played on simulated kubelets; 0 leaves these out")
	onReal := flag.Int("real", 12, "the same on real kubelets, which need root")
	only := flag.String("only", "", "play the incident of this name alone, such as exit-two, and write no table; -simulated=0 leaves out that side")
	page := flag.String("readme", "docs/benchmarks.md", "the file to write the sums into, between their marks; empty only prints")
	tables := flag.String("tables", "test/agreement/incidents.txt", "the file to write the tables into, if both were played; empty only prints")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *simulated, *onReal, *only, *page, *tables)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "agreement:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, simulated, onReal int, only, page, tables string) error {
	root, err := cluster.RepositoryRoot()
	if err != nil {
		return err
	}
	versions, err := readme.Pinned(ctx, root)
	if err != nil {
		return err
	}
	parts := map[readme.Section]string{}
	var all []string
	var differ error
	for _, side := range []struct {
		section readme.Section
		start   func(context.Context) (ground, error)
		trials  []trial
		count   int
		preface string
	}{
		{simulatedSection, startSimulated, simulatedTrials(), simulated, simulatedPreface},
		{realSection, startReal, realTrials(), onReal, realPreface},
	} {
		if side.count <= 0 {
			continue
		}
		trials := side.trials[:min(side.count, len(side.trials))]
		if only != "" {
			page, tables = "", "" // these have all of them
			trials = slices.DeleteFunc(slices.Clone(side.trials), func(t trial) bool { return t.name != only })
		}
		if len(trials) == 0 {
			return fmt.Errorf("%s: there is no incident %q", side.section, only)
		}
		r, err := compare(ctx, side.start, trials)
		if err != nil {
			return fmt.Errorf("%s: %w", side.section, err)
		}
		all = append(all, table(r, side.preface, versions))
		fmt.Println(all[len(all)-1])
		parts[side.section] = summary(r, side.preface, versions)
		if err := r.disagreement(); err != nil {
			differ = errors.Join(differ, fmt.Errorf("%s: %w", side.section, err))
		}
	}
	if tables != "" && len(all) == 2 {
		if err := os.WriteFile(tables, []byte(strings.Join(all, "\n")), 0o600); err != nil {
			return err
		}
	}
	if page == "" {
		return differ
	}
	return errors.Join(differ, readme.Write(page, parts))
}

// compare plays the trials that the costs come from, then the others, and has the lab predict these.
func compare(ctx context.Context, start func(context.Context) (ground, error), trials []trial) (r *report, err error) {
	g, err := start(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.stop()) }()
	play := func(t trial) (*measurement, error) {
		m, err := measure(ctx, g, &t)
		if err != nil {
			return nil, fmt.Errorf("%s: %w\nthe end of the manager's log:\n%s", t.name, err, g.nodes().Log(operator.Name))
		}
		return m, nil
	}
	var first []*measurement
	for _, t := range calibrations() {
		m, err := play(t)
		if err != nil {
			return nil, err
		}
		first = append(first, m)
	}
	r = &report{costs: calibrate(first[0], first[1], first[2])}
	fmt.Fprintf(os.Stderr, "agreement: costs %+v\n", r.costs)
	for _, t := range trials {
		m, err := play(t)
		if err != nil {
			return nil, err
		}
		l, err := predict(m, r.costs)
		if err != nil {
			return nil, fmt.Errorf("%s in the lab: %w", t.name, err)
		}
		r.lines = append(r.lines, line{trial: t, measured: m.outcome(), predicted: l})
		fmt.Fprintf(os.Stderr, "agreement: %s", r.lines[len(r.lines)-1].row())
		for _, inc := range m.incidents {
			fmt.Fprintf(os.Stderr, "  %s, rule %s: %s\n", inc.Trigger, inc.Rule, inc.Message)
		}
	}
	return r, nil
}
