// Command kubectl-lockstep is a kubectl plugin: kubectl lockstep.
package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	err := newCommand(streams).ExecuteContext(ctx)
	stop()
	switch {
	case errors.Is(err, errProblems):
		os.Exit(exitProblems)
	case err != nil:
		os.Exit(1)
	}
}

func newCommand(streams genericiooptions.IOStreams) *cobra.Command {
	c := &cobra.Command{
		Use:           "kubectl-lockstep",
		Short:         "Understand and tune the recovery of TrainingJobs",
		SilenceUsage:  true,
		SilenceErrors: false,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl lockstep"},
	}
	c.SetIn(streams.In)
	c.SetOut(streams.Out)
	c.SetErr(streams.ErrOut)
	c.SetErrPrefix("error:")
	c.AddCommand(newSimulate(streams), newTimeline(streams), newCheck(streams))
	return c
}
