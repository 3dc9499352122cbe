// Command bench measures what failures cost a real training program on real kubelets: what a killed node costs a gang, where Lockstep and
// Volcano's own policies take turns on the same nodes, and what a killed program costs one under supervisors. It prints tables, and writes
// them into a README.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/operator"
	"github.com/lockstep-dev/lockstep/test/readme"
	"github.com/lockstep-dev/lockstep/test/real"
)

// Where the tables go.
const (
	section      readme.Section = "bench:real"
	killsSection readme.Section = "bench:programs"
	nodesSection readme.Section = "bench:gang"
)

// options are the program's flags; `bench -h` documents them.
type options struct {
	runs, peers, ranks           int
	bound                        time.Duration
	gang, torchrun               int
	kills, torchKills, bareKills int
	torchStop                    int
	losses, gangRuns, gangPeers  int
	gangBound                    time.Duration
	moves                        int
	busy                         bool
	readme, record, movesRecord  string
}

func main() {
	ctrl.SetLogger(zap.New())
	o := parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parse() *options {
	o := &options{}
	flag.IntVar(&o.runs, "runs", 10, "how often a node is killed under Lockstep; 0 leaves that table as it is")
	flag.IntVar(&o.peers, "peers", 2, "the same under each policy of Volcano")
	flag.IntVar(&o.ranks, "ranks", 3, fmt.Sprintf("ranks of that gang, %v", gangSizes))
	flag.DurationVar(&o.bound, "bound", 3*time.Minute, "time from NotReady after which that gang counts as not recovered")
	flag.IntVar(&o.gang, "gang", 24, fmt.Sprintf("ranks of the gang of the other tables, %v", gangSizes))
	flag.IntVar(&o.torchrun, "torchrun", 24, "the same of the gang of torchrun")
	flag.IntVar(&o.kills, "kills", 20, "how many programs of the trainer are killed under supervisors; 0 leaves the table of programs as it is")
	flag.IntVar(&o.torchKills, "torchrun-kills", 20, "the same of torchrun")
	flag.IntVar(&o.torchStop, "torchrun-stop", 0, "stopSeconds of torchrun, which saves nothing on SIGTERM and takes seconds to end")
	flag.IntVar(&o.bareKills, "bare-kills", 4, "the same of the trainer without supervisors, where the kubelet waits longer each time")
	flag.IntVar(&o.losses, "losses", 10, "how many nodes a gang with supervisors loses one after the other, with spares that take over and without; 0 leaves that table as it is")
	flag.IntVar(&o.gangRuns, "gang-runs", 3, "how many gangs without supervisors lose a node")
	flag.IntVar(&o.gangPeers, "gang-peers", 1, "the same under each policy of Volcano")
	flag.DurationVar(&o.gangBound, "gang-bound", time.Minute, "time from NotReady after which the gang counts as not recovered")
	flag.IntVar(&o.moves, "moves", 0, "how many gangs have ranks moved by each caller, without a failure")
	flag.BoolVar(&o.busy, "busy", false, "have the tables of the gang say that the machine ran other work beside")
	flag.StringVar(&o.readme, "readme", "", "the file to write the tables into, between their marks")
	flag.StringVar(&o.record, "record", "", "the file to write each lost node of the gang into, as JSON")
	flag.StringVar(&o.movesRecord, "moves-record", "", "the file to write each of these moves into, as JSON")
	flag.Parse()
	return o
}

func run(ctx context.Context, o *options) (err error) {
	for _, ranks := range []int{o.ranks, o.gang, o.torchrun} {
		if !slices.Contains(gangSizes, ranks) {
			return fmt.Errorf("a gang of %d ranks: -ranks, -gang and -torchrun are one of %v, so that ranks share %d GPUs and those of a node", ranks, gangSizes, gangGPUs)
		}
	}
	root, err := cluster.RepositoryRoot()
	if err != nil {
		return err
	}
	versions, err := readme.Pinned(ctx, root)
	if err != nil {
		return err
	}
	b := &bench{observer: newObserver()}
	if b.ground, err = real.StartWithGPUs(ctx, nodesPerRack, gpusPerNode, os.Stderr); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.ground.Stop()) }()
	if err := b.observer.watch(ctx, b.ground.RESTConfig(), b.ground.Client().Scheme()); err != nil {
		return err
	}
	if err := b.tables(ctx, o, versions); err != nil {
		return fmt.Errorf("%w\nthe end of the manager's log:\n%s", err, b.ground.Log(operator.Name))
	}
	return nil
}

// tables measures what the flags ask for, and prints and writes each table as soon as it is complete.
func (b *bench) tables(ctx context.Context, o *options, v readme.Versions) error {
	if o.kills > 0 {
		all, err := b.series(ctx, o)
		if err != nil {
			return err
		}
		if err := o.write(killsSection, renderKills(all, o, v)); err != nil {
			return err
		}
	}
	if o.losses > 0 {
		if err := b.lostNodes(ctx, o, v); err != nil {
			return err
		}
	}
	if o.moves > 0 {
		if err := b.plannedMoves(ctx, o); err != nil {
			return err
		}
	}
	if o.runs == 0 {
		return nil
	}
	sides := o.sides()
	if err := b.measure(ctx, sides); err != nil {
		return err
	}
	return o.write(section, render(sides, o, v))
}

// lostNodes measures the larger gang, and records each of its losses where that is asked for.
func (b *bench) lostNodes(ctx context.Context, o *options, v readme.Versions) error {
	record, err := o.recorder(ctx)
	if err != nil {
		return err
	}
	sides := o.gangSides()
	if err := b.measure(ctx, sides); err != nil {
		return err
	}
	return errors.Join(record(sides), o.write(nodesSection, renderNodes(sides, o, v)))
}

func (o *options) write(s readme.Section, table string) error {
	fmt.Println(table)
	if o.readme == "" {
		return nil
	}
	return readme.Write(o.readme, map[readme.Section]string{s: table})
}
