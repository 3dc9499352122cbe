package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/top"
)

// topNodes is the argument of top that asks for the nodes.
const topNodes = "nodes"

// topOptions is what top is asked for.
type topOptions struct {
	all, once bool
	interval  time.Duration
	// job or nodes; all jobs where neither is given.
	job   string
	nodes bool
}

func newTop(streams genericiooptions.IOStreams, flags *genericclioptions.ConfigFlags) *cobra.Command {
	var o topOptions
	c := &cobra.Command{
		Use:   "top [JOB|nodes]",
		Short: "Watch TrainingJobs, one of them, or the nodes, as they are now",
		Long: `Watch the TrainingJobs of a namespace, or of all: those that recover first. With a name, watch that job and its last three
incidents; with the word nodes, the HyperNodes and the nodes that are not well (a job of that name is tj/nodes). q or Ctrl-C ends it. Where the output is
no terminal, or with --once, the answer is printed once.

READY is how many pods are ready, of how many. GPUS are those that all pods of the job ask for. ETTR is the share of the time
since all pods were first ready in which they were, suspensions apart. INCIDENT is the trigger of the oldest open incident, PHASE
the phase that it is in and for how long: Decide, Place, WaitForRoom or Start, as timeline has them. NEXT is the step that
is taken unless the ranks are back by then. Nodes are in use where a TrainingJob was placed on them: pods are not read, and
kubectl lockstep nodes has those of others.

Objects are read once, and then only their changes. The exit code is 0 where they could be read, and 1 where not.`,
		Example: `  # The jobs of all namespaces, until q is pressed
  kubectl lockstep top -A

  # A job and its incidents
  kubectl lockstep top llama

  # The nodes as they are now, for a script
  kubectl lockstep top nodes --once`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completer{flags}.jobOrNodes,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				o.job, o.nodes = args[0], args[0] == topNodes
			}
			return o.run(c.Context(), streams, flags)
		},
	}
	c.Flags().BoolVarP(&o.all, "all-namespaces", "A", false, "watch the jobs of all namespaces")
	c.Flags().BoolVar(&o.once, "once", false, "print once, and end")
	c.Flags().DurationVar(&o.interval, "interval", 2*time.Second, "time between two drawings of the screen, 100ms at least")
	return c
}

func (o *topOptions) run(ctx context.Context, streams genericiooptions.IOStreams, flags *genericclioptions.ConfigFlags) error {
	switch {
	case o.interval < 100*time.Millisecond:
		return fmt.Errorf("--interval: %v is too short: give 100ms or more", o.interval)
	case o.all && o.job != "" && !o.nodes:
		return errors.New("--all-namespaces goes with no name of a job: leave out one of them")
	}
	c, err := newCluster(flags)
	if err != nil {
		return err
	}
	if o.once || !isTerminal(streams.In, streams.Out) {
		draw, err := o.onceFrom(ctx, c)
		if err != nil {
			return err
		}
		_, err = fmt.Fprint(streams.Out, draw(top.Screen{Width: cmp.Or(terminalWidth(streams.Out), lines.Width)}))
		return err
	}
	return o.live(ctx, streams, c)
}

// isTerminal reports whether somebody sits in front of both.
func isTerminal(in io.Reader, out io.Writer) bool {
	for _, side := range []any{in, out} {
		if file, ok := side.(*os.File); !ok || !term.IsTerminal(int(file.Fd())) {
			return false
		}
	}
	return true
}
