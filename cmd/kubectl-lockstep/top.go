package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/top"
)

// topNodes is the argument of top that asks for the nodes.
const topNodes = "nodes"

// topOptions is what top is asked for.
type topOptions struct {
	app
	all, once bool
	interval  time.Duration
	// names is the name of a job; empty for all jobs, and for nodes.
	names []string
	nodes bool
}

func newTop(a app) *cobra.Command {
	o := topOptions{app: a}
	c := &cobra.Command{
		Use:   "top [JOB|nodes]",
		Short: "Watch TrainingJobs, one of them, or the nodes, as they are now",
		Long: `Watch the TrainingJobs of a namespace, or of all: those that recover first. With a name, watch that job and its last three
incidents; with the word nodes, the map of the nodes and those that are not well (a job of that name is tj/nodes). q or Ctrl-C ends it. Where the output is
no terminal, or with --once, the answer is printed once.

READY is how many pods are ready, of how many. GPUS are those that all pods of the job ask for. ETTR is the share of the time
since all pods were first ready in which they were, suspensions apart. INCIDENT is the trigger of the oldest open incident, PHASE
the phase that it is in and for how long: Decide, Place, WaitForRoom or Start, as timeline has them. NEXT is the step that
is taken unless the ranks are back by then. Nodes are in use where a TrainingJob was placed on them: pods are not read, and
kubectl lockstep map has those of others.

Where reading takes longer than a tenth of the interval, the screen is drawn less often. The exit code is 0 where the objects could be
read at first, and 1 where not.`,
		Example: `  # The jobs of all namespaces, until q is pressed
  kubectl lockstep top -A

  # A job and its incidents
  kubectl lockstep top llama

  # The nodes as they are now, for a script
  kubectl lockstep top nodes --once`,
		Args: cobra.MaximumNArgs(1),
		RunE: a.on(o.run),
	}
	c.Flags().BoolVarP(&o.all, "all-namespaces", "A", false, "watch the jobs of all namespaces")
	c.Flags().BoolVar(&o.once, "once", false, "print once, and end")
	c.Flags().DurationVar(&o.interval, "interval", 2*time.Second, "time between two drawings of the screen, 100ms at least")
	return c
}

func (o *topOptions) run(ctx context.Context, c *cluster, args []string) error {
	if o.nodes = slices.Contains(args, topNodes); !o.nodes {
		o.names = args
	}
	switch {
	case o.interval < 100*time.Millisecond:
		return fmt.Errorf("--interval: %v is too short: give 100ms or more", o.interval)
	case o.all && len(o.names) > 0:
		return errors.New("--all-namespaces goes with no name of a job: leave out one of them")
	}
	width := screenOf(o.Out).Width
	text, err := o.draw(ctx, c, top.Screen{Width: width})
	if err != nil {
		return err
	}
	if in, ok := o.In.(*os.File); o.once || width == 0 || !ok || !term.IsTerminal(int(in.Fd())) {
		_, err = fmt.Fprint(o.Out, text)
		return err
	}
	return show(ctx, o.IOStreams, o.interval, func(ctx context.Context, screen top.Screen) string {
		latest, err := o.draw(ctx, c, screen)
		if err != nil {
			return top.Fit(text, explain(err, roleExplain).Error(), screen)
		}
		text = latest
		return top.Fit(text, "", screen)
	})
}

// draw draws what was asked for. A screen of no width is as wide as usual.
func (o *topOptions) draw(ctx context.Context, c *cluster, screen top.Screen) (string, error) {
	screen.Width = cmp.Or(screen.Width, lines.Width)
	jobs, err := c.jobs(ctx, o.names, o.all || o.nodes, labels.Everything())
	if err != nil {
		return "", err
	}
	s := &top.Snapshot{Now: c.clock.Now(), Jobs: jobs, Namespaces: o.all}
	switch {
	case len(o.names) > 0:
		return s.DrawJob(screen), nil
	case !o.nodes:
		return s.DrawJobs(screen), nil
	}
	fleet, err := c.fleet(ctx)
	if err != nil {
		return "", err
	}
	c.addHealth(ctx, fleet)
	return s.DrawNodes(fleet, screen), nil
}

// What terminals do: see the control sequences of xterm.
const (
	otherScreen = "\x1b[?1049h\x1b[?25l" // without a cursor
	firstScreen = "\x1b[?25h\x1b[?1049l"
	emptyScreen = "\x1b[H\x1b[J"
	ctrlC       = 3
)

// show draws a screen until q or Ctrl-C is pressed, and leaves the terminal as it was.
func show(ctx context.Context, streams genericiooptions.IOStreams, interval time.Duration, draw func(context.Context, top.Screen) string) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if file, ok := streams.In.(*os.File); ok {
		before, err := term.MakeRaw(int(file.Fd())) // for keys to come at once
		if err != nil {
			return err
		}
		defer func() { _ = term.Restore(int(file.Fd()), before) }()
	}
	go func() {
		defer stop()
		for key := []byte{0}; key[0] != 'q' && key[0] != 'Q' && key[0] != ctrlC; {
			if _, err := streams.In.Read(key); err != nil {
				return
			}
		}
	}()
	fmt.Fprint(streams.Out, otherScreen)
	defer fmt.Fprint(streams.Out, firstScreen)
	for ctx.Err() == nil {
		begin := time.Now()
		fmt.Fprint(streams.Out, emptyScreen+strings.ReplaceAll(draw(ctx, screenOf(streams.Out)), "\n", "\r\n"))
		select {
		case <-ctx.Done():
		case <-time.After(max(interval, 9*time.Since(begin))): // the API server is asked for a tenth of the time at most
		}
	}
	return nil
}
