// Command bench measures Lockstep beside Volcano's own restart policies: the same gangs on the same
// cluster in the same run, in turns, so that a slow machine slows both; and how fast it decides on
// reports of ill nodes, restarts the programs of a gang, and has spares take over. It prints the figures, marks those that miss their goal, and writes them into
// a README. It fails where a gang's figure exceeds its limit.
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
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/lockstep-dev/lockstep/test/bench/ranks"
	"github.com/lockstep-dev/lockstep/test/operator"
	"github.com/lockstep-dev/lockstep/test/readme"
)

// options are the program's flags; `bench -h` documents them.
type options struct {
	sizes, rounds   counts
	recoveries      int
	kept, keptPeers int
	health          int
	supervised      int
	restarts        int
	restartPeers    int
	fleet           counts
	fleetFor        time.Duration
	fleetSharing    int
	takeOver        counts
	manager, readme string
}

func main() {
	ranks.Main()
	ctrl.SetLogger(zap.New())
	o := options{sizes: counts{4, 64, 1000}, rounds: counts{3, 2, 2}}
	flag.Var(&o.sizes, "sizes", "pods of the gangs, one figure for each; empty leaves the gangs out")
	flag.Var(&o.rounds, "rounds", "how often each side starts a gang of each size; the last counts for all further sizes")
	flag.IntVar(&o.recoveries, "recoveries", 5, "single pods that fail in each round")
	flag.IntVar(&o.kept, "kept", 20, "single and whole-gang recoveries of Lockstep on a full cluster; 0 leaves the full cluster out")
	flag.IntVar(&o.keptPeers, "kept-peers", 12, "the same of Volcano, each of which needs a gang of its own")
	flag.IntVar(&o.health, "health", 1000, "nodes that are reported ill, in racks that are full; 0 leaves that out")
	flag.IntVar(&o.supervised, "supervised", 1000, "ranks of a gang with supervisors; 0 leaves that out")
	flag.IntVar(&o.restarts, "restarts", 10, "how often a program of that gang fails")
	flag.IntVar(&o.restartPeers, "restart-peers", 2, "how often Volcano restarts a gang of that size, where -sizes does not have it; 0 leaves that out")
	flag.Var(&o.fleet, "fleet", "jobs of 64 ranks that train side by side, one figure for each; empty leaves them out; 1000 take 20 GiB, and 66,000 open files")
	flag.DurationVar(&o.fleetFor, "fleet-for", 10*time.Minute, "how long each fleet is watched")
	flag.IntVar(&o.fleetSharing, "fleet-sharing", 1, "how many supervisors of a fleet share a connection, where a process may not have enough files open: 4 at most")
	flag.Var(&o.takeOver, "takeover", "ranks of gangs whose spares take over, one figure for each; empty leaves them out; 10000 need 13,000 open files")
	flag.StringVar(&o.manager, "manager", "", "a prebuilt manager; by default cmd/manager is built")
	flag.StringVar(&o.readme, "readme", "", "the file to write the figures into, each part between its marks")
	flag.Parse()
	if o.fleetSharing < 1 || o.fleetSharing > 4 { // the manager takes no more streams on a connection
		fmt.Fprintf(os.Stderr, "bench: -fleet-sharing=%d: 1 to 4\n", o.fleetSharing)
		os.Exit(2)
	}
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
		return fmt.Errorf("%w\nthe end of the manager's log:\n%s", err, b.cluster.Log(operator.Name))
	}
	versions, err := readme.Pinned(ctx, b.root)
	if err != nil {
		return err
	}
	parts := sections(&b.results, o, versions)
	for _, text := range parts {
		fmt.Println(text)
	}
	if o.readme != "" {
		err = readme.Write(o.readme, parts)
	}
	if len(b.results.misses) > 0 {
		err = errors.Join(err, fmt.Errorf("limits exceeded:\n%s", strings.Join(b.results.misses, "\n")))
	}
	return err
}

// The parts of docs/benchmarks.md.
const (
	gangSection       readme.Section = "bench"
	healthSection     readme.Section = "bench:health"
	supervisedSection readme.Section = "bench:supervised"
	fleetSection      readme.Section = "bench:fleet"
	takeOverSection   readme.Section = "bench:takeover"
)

// sections are the parts of the page that were measured.
func sections(r *results, o *options, v readme.Versions) map[readme.Section]string {
	parts := map[readme.Section]string{}
	if len(o.sizes)+len(r.kept) > 0 {
		parts[gangSection] = render(r, o, v)
	}
	if r.health != nil {
		parts[healthSection] = renderHealth(r.health, v)
	}
	if r.supervised != nil {
		parts[supervisedSection] = renderSupervised(r.supervised, v)
	}
	if len(r.fleet) > 0 {
		parts[fleetSection] = renderFleet(r.fleet, o.fleetSharing, v)
	}
	if len(r.takeOver) > 0 {
		parts[takeOverSection] = renderTakeOver(r, v)
	}
	return parts
}

// measureAll measures what is reported of nodes, gangs of every size, a gang with supervisors, the full cluster, and fleets.
func (b *bench) measureAll(ctx context.Context) error {
	if b.options.health > 0 {
		if err := b.measureHealth(ctx, b.options.health); err != nil {
			return fmt.Errorf("health: %w", err)
		}
	}
	for i, size := range b.options.sizes {
		if err := b.measure(ctx, size, b.options.rounds.at(i)); err != nil {
			return fmt.Errorf("%d pods: %w", size, err)
		}
	}
	if b.options.supervised > 0 {
		if err := b.measureSupervised(ctx, b.options.supervised); err != nil {
			return fmt.Errorf("supervised: %w", err)
		}
	}
	if b.options.kept > 0 {
		if err := b.fill(ctx); err != nil {
			return fmt.Errorf("full cluster: %w", err)
		}
	}
	if len(b.options.takeOver)+len(b.options.fleet) > 0 {
		return b.measurePlayed(ctx)
	}
	return nil
}

// measurePlayed measures what nobody else can take part in.
func (b *bench) measurePlayed(ctx context.Context) error {
	pools := takeOverPools(b.options.takeOver)
	if len(b.options.fleet) > 0 {
		pools = append(pools, fleetPool(b.options.fleet))
	}
	p, err := b.play(ctx, pools...)
	if err != nil {
		return err
	}
	for _, size := range b.options.takeOver {
		if err := p.measureTakeOver(ctx, size); err != nil {
			return fmt.Errorf("take-over in %d ranks: %w", size, err)
		}
	}
	if len(b.options.fleet) > 0 {
		if err := p.measureFleet(ctx, b.options.fleet); err != nil {
			return fmt.Errorf("fleet: %w", err)
		}
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

// Set reads numbers with commas between them; an empty text is none.
func (c *counts) Set(text string) error {
	*c = nil
	if text == "" {
		return nil
	}
	for word := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 {
			return fmt.Errorf("%q is not a number of one or more", word)
		}
		*c = append(*c, n)
	}
	return nil
}

// at is the i-th number, or the last where there are fewer; 0 where there is none.
func (c counts) at(i int) int {
	if len(c) == 0 {
		return 0
	}
	return c[min(i, len(c)-1)]
}
