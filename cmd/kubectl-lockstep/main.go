// Command kubectl-lockstep is a kubectl plugin: kubectl lockstep.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
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
	logging := flag.NewFlagSet("", flag.PanicOnError)
	klog.InitFlags(logging)
	c.PersistentFlags().AddGoFlag(logging.Lookup("v")) // as kubectl has it: from 6 on, each request is logged
	a := app{streams, flags}
	cobra.CheckErr(c.RegisterFlagCompletionFunc("namespace", a.complete(namespaceNames)))
	cobra.CheckErr(c.RegisterFlagCompletionFunc("context", a.completeContexts))
	c.AddCommand(
		newAck(streams, flags), newAdopt(streams), newAudit(streams), newCheck(streams, flags), newDescribe(streams, flags), newList(a), newLogs(a), newMap(a),
		newMigrate(streams, flags), newNodes(a), newRestart(streams, flags), newResume(streams, flags), simulate.New(streams),
		newStacks(a), newSubmit(streams, flags), newSuspend(streams, flags), newTimeline(a), newTop(a), newWhy(streams, flags),
	)
	for _, verb := range c.Commands() {
		a.prepare(verb, roleExplain)
	}
	c.AddCommand(newOptions(streams), &cobra.Command{
		Use: "version", Short: "Print the version, as --version does", Hidden: true, Args: cobra.NoArgs,
		Run: func(*cobra.Command, []string) { fmt.Fprintln(streams.Out, "kubectl lockstep", version.String()) },
	})
	return c
}

// otherWords are what people try in place of a verb: cobra then suggests that.
var otherWords = map[string][]string{"describe": {"status"}, "list": {"get"}, "why": {"explain"}}

// prepare wraps the help of a verb, and of those below it, completes their arguments, and has them say what to do about an error of a
// cluster: a role has the rights.
func (a app) prepare(c *cobra.Command, role string) {
	role = cmp.Or(c.Annotations[roleAnnotation], role)
	c.SuggestFor = otherWords[c.Name()]
	c.Long = wrapHelp(c.Long)
	if sources := arguments[c.Name()]; sources != nil {
		c.ValidArgsFunction = a.complete(sources...)
	}
	if run := c.RunE; run != nil {
		c.RunE = func(c *cobra.Command, args []string) error { return explain(run(c, args), role) }
	}
	for _, below := range c.Commands() {
		a.prepare(below, role)
	}
}

// wrapHelp breaks the paragraphs of a help text. Those with lines that are indented stay as they are.
func wrapHelp(text string) string {
	paragraphs := strings.Split(text, "\n\n")
	for i, p := range paragraphs {
		if !strings.Contains("\n"+p, "\n ") {
			paragraphs[i] = strings.Join(lines.Wrap(p, lines.Width), "\n")
		}
	}
	return strings.Join(paragraphs, "\n\n")
}

// usage is the template of cobra, but it leaves the flags of the whole program to the verb options, as kubectl does.
func usage(template string) string {
	const global = `

Use "kubectl lockstep options" for the flags of all verbs, such as --namespace.{{if .HasHelpSubCommands}}`
	before, rest, _ := strings.Cut(template, "{{if .HasAvailableInheritedFlags}}")
	_, after, _ := strings.Cut(rest, "{{if .HasHelpSubCommands}}")
	return strings.NewReplacer(
		".HasAvailableLocalFlags", ".LocalNonPersistentFlags.HasAvailableFlags",
		".LocalFlags.FlagUsages", ".LocalNonPersistentFlags.FlagUsagesWrapped 80",
		"for more information about a command", "for more about a command", // in 80 columns
	).Replace(before + global + after)
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
