// Command bench measures Lockstep beside Volcano's own restart policies: the same gangs on the same
// cluster in the same run, in turns, so that a slow machine slows both. It prints the figures, marks
// those that miss their goal, and writes them into a README. It fails on an error, never on a miss.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

// options are the program's flags; `bench -h` documents them.
type options struct {
	sizes, rounds   counts
	recoveries      int
	kept, keptPeers int
	manager, readme string
}

func main() {
	ctrl.SetLogger(zap.New())
	o := options{sizes: counts{4, 64, 1000}, rounds: counts{3, 2, 2}}
	flag.Var(&o.sizes, "sizes", "pods of the gangs, one figure for each")
	flag.Var(&o.rounds, "rounds", "how often each side starts a gang of each size; the last counts for all further sizes")
	flag.IntVar(&o.recoveries, "recoveries", 5, "single pods that fail in each round")
	flag.IntVar(&o.kept, "kept", 20, "single and whole-gang recoveries of Lockstep on a full cluster; 0 leaves the full cluster out")
	flag.IntVar(&o.keptPeers, "kept-peers", 12, "the same of Volcano, each of which needs a gang of its own")
	flag.StringVar(&o.manager, "manager", "", "a prebuilt manager; by default cmd/manager is built")
	flag.StringVar(&o.readme, "readme", "", "the file to write the figures into, between its marks")
	flag.Parse()
	if err := run(&o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(o *options) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	b, err := begin(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.end()) }()
	if err := b.measureAll(ctx); err != nil {
		return fmt.Errorf("%w\nthe end of the manager's log:\n%s", err, b.cluster.Log(managerName))
	}
	versions, err := pinned(ctx, b.root)
	if err != nil {
		return err
	}
	page := render(&b.results, o, versions)
	fmt.Println(page)
	if o.readme == "" {
		return nil
	}
	return writeSection(o.readme, page)
}

// measureAll measures every size, then the full cluster.
func (b *bench) measureAll(ctx context.Context) error {
	for i, size := range b.options.sizes {
		if err := b.measure(ctx, size, b.options.rounds.at(i)); err != nil {
			return fmt.Errorf("%d pods: %w", size, err)
		}
	}
	if b.options.kept == 0 {
		return nil
	}
	if err := b.fill(ctx); err != nil {
		return fmt.Errorf("full cluster: %w", err)
	}
	return nil
}

// counts are positive numbers, as a flag.
type counts []int

func (c *counts) String() string {
	text := make([]string, len(*c))
	for i, n := range *c {
		text[i] = strconv.Itoa(n)
	}
	return strings.Join(text, ",")
}

// Set reads numbers with commas between them.
func (c *counts) Set(text string) error {
	*c = nil
	for word := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 {
			return fmt.Errorf("%q is not a number of one or more", word)
		}
		*c = append(*c, n)
	}
	return nil
}

// at is the i-th number, or the last where there are fewer.
func (c counts) at(i int) int { return c[min(i, len(c)-1)] }
