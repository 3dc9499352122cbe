// Command kubectl-lockstep is a kubectl plugin: kubectl lockstep.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"

	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/simulate"
	"github.com/lockstep-dev/lockstep/version"
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
		Use:               "kubectl-lockstep",
		Short:             "Run TrainingJobs, and understand and tune their recovery",
		SilenceUsage:      true,
		SilenceErrors:     false,
		Version:           version.String(),
		Annotations:       map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl lockstep"},
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true}, // kubectl completes its plugins: see the README
	}
	c.SetUsageTemplate(usage(c.UsageTemplate()))
	c.SetIn(streams.In)
	c.SetOut(streams.Out)
	c.SetErr(streams.ErrOut)
	c.SetErrPrefix("error:")
	c.SetFlagErrorFunc(explainFlags)
	flags := genericclioptions.NewConfigFlags(true)
	flags.AddFlags(c.PersistentFlags())
	addVerbosity(c.PersistentFlags())
	complete := completer{flags}
	complete.globalFlags(c)
	c.AddCommand(
		newAck(streams, flags), newAudit(streams), newCheck(streams, flags), newDescribe(streams, flags), newList(streams, flags), newLogs(streams, flags), newMap(streams, flags),
		newMigrate(streams, flags), newNodes(streams, flags), newRestart(streams, flags), newResume(streams, flags), suggestFlags(simulate.New(streams)),
		newSubmit(streams, flags), newSuspend(streams, flags), newTimeline(streams, flags), newTop(streams, flags), newWhy(streams, flags),
	)
	for _, verb := range c.Commands() {
		wrapAllHelp(verb)
		explainErrors(verb, roleExplain)
	}
	addPointers(c, streams)
	c.AddCommand(newOptions(streams))
	return c
}

// usage is the template of cobra, but it leaves the flags of the whole program to the verb options, as kubectl does.
func usage(template string) string {
	const global = `

Use "kubectl lockstep options" for the flags of all verbs, such as --namespace.{{if .HasHelpSubCommands}}`
	before, rest, _ := strings.Cut(template, "{{if .HasAvailableInheritedFlags}}")
	_, after, _ := strings.Cut(rest, "{{if .HasHelpSubCommands}}")
	after = strings.Replace(after, "for more information about a command", "for more about a command", 1) // in 80 columns
	return strings.NewReplacer(
		".HasAvailableLocalFlags", ".LocalNonPersistentFlags.HasAvailableFlags",
		".LocalFlags.FlagUsages", ".LocalNonPersistentFlags.FlagUsagesWrapped 80",
	).Replace(before) + global + after
}

func newOptions(streams genericiooptions.IOStreams) *cobra.Command {
	return &cobra.Command{
		Use:   "options",
		Short: "List the flags of all verbs: which cluster, namespace and user",
		Args:  cobra.NoArgs,
		Run: func(c *cobra.Command, _ []string) {
			fmt.Fprintf(streams.Out, "These flags are of all verbs; simulate and audit read no cluster, and need none:\n\n%s", c.InheritedFlags().FlagUsagesWrapped(lines.Width))
		},
	}
}

// addVerbosity adds -v as kubectl has it: from 6 on, each request is logged.
func addVerbosity(flags *pflag.FlagSet) {
	logging := flag.NewFlagSet("", flag.PanicOnError)
	klog.InitFlags(logging)
	v := pflag.PFlagFromGoFlag(logging.Lookup("v"))
	v.Shorthand = "v"
	flags.AddFlag(v)
}
