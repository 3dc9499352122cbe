// Command bench measures what a killed node costs a real training program on real kubelets: the time
// from the node's NotReady to the first training step at home. Lockstep and Volcano's own policies
// take turns on the same nodes. It prints a table, and writes it into a README.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	bus "volcano.sh/apis/pkg/apis/bus/v1alpha1"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/operator"
	"github.com/lockstep-dev/lockstep/test/readme"
	"github.com/lockstep-dev/lockstep/test/real"
)

// section is where the table goes.
const section readme.Section = "bench:real"

// options are the program's flags; `bench -h` documents them.
type options struct {
	runs, peers, ranks int
	bound              time.Duration
	readme             string
}

func main() {
	ctrl.SetLogger(zap.New())
	var o options
	flag.IntVar(&o.runs, "runs", 10, "how often a node is killed under Lockstep")
	flag.IntVar(&o.peers, "peers", 2, "the same under each policy of Volcano")
	flag.IntVar(&o.ranks, "ranks", 3, "ranks of a gang, each with a node of one rack of four; less than four")
	flag.DurationVar(&o.bound, "bound", 3*time.Minute, "time from NotReady after which a gang counts as not recovered")
	flag.StringVar(&o.readme, "readme", "", "the file to write the table into, between its marks")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, &o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o *options) (err error) {
	root, err := cluster.RepositoryRoot()
	if err != nil {
		return err
	}
	versions, err := readme.Pinned(ctx, root)
	if err != nil {
		return err
	}
	ground, err := real.Start(ctx, 4, os.Stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ground.Stop()) }()
	b := &bench{ground: ground, options: o}
	sides := []*side{
		{name: "Lockstep", policy: "the default rules", job: lockstepJob, runs: o.runs},
		{name: "Volcano", policy: string(bus.RestartPodAction), job: volcanoJob, runs: o.peers},
		{name: "Volcano", policy: string(bus.RestartTaskAction), job: volcanoJob, runs: o.peers},
		{name: "Volcano", policy: string(bus.RestartJobAction), job: volcanoJob, runs: o.peers},
	}
	if err := b.measure(ctx, sides); err != nil {
		return fmt.Errorf("%w\nthe end of the manager's log:\n%s", err, ground.Log(operator.Name))
	}
	table := render(sides, o, versions)
	fmt.Println(table)
	if o.readme == "" {
		return nil
	}
	return readme.Write(o.readme, map[readme.Section]string{section: table})
}
