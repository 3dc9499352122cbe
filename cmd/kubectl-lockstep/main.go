// Command kubectl-lockstep is a kubectl plugin: kubectl lockstep.
package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/simulate"
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

// version is that of the module the plugin was built from.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return "unknown"
}

func newCommand(streams genericiooptions.IOStreams) *cobra.Command {
	c := &cobra.Command{
		Use:           "kubectl-lockstep",
		Short:         "Understand and tune the recovery of TrainingJobs",
		SilenceUsage:  true,
		SilenceErrors: false,
		Version:       version(),
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl lockstep"},
	}
	c.SetUsageTemplate(strings.ReplaceAll(c.UsageTemplate(), ".FlagUsages", ".FlagUsagesWrapped 80"))
	c.SetIn(streams.In)
	c.SetOut(streams.Out)
	c.SetErr(streams.ErrOut)
	c.SetErrPrefix("error:")
	c.AddCommand(newCheck(streams), newMap(streams), simulate.New(streams), newTimeline(streams), newWhy(streams))
	for _, verb := range c.Commands() {
		verb.Long = wrapHelp(verb.Long)
	}
	return c
}
