package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/check"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
)

// errProblems is what check ends with where it has found problems. They have been printed.
var errProblems = errors.New("problems were found")

// exitProblems is the exit code of errProblems.
const exitProblems = 2

// judge prints a report as print does. It returns errProblems for a bad one.
func (f *format) judge(c *cobra.Command, report any, bad bool, text func() error) error {
	if err := f.print(c.OutOrStdout(), report, text); err != nil || !bad {
		return err
	}
	c.SilenceErrors = true
	return errProblems
}

func newCheck(streams genericiooptions.IOStreams, config *genericclioptions.ConfigFlags) *cobra.Command {
	var output format
	c := &cobra.Command{
		Use:         "check",
		Annotations: needs("lockstep-check"),
		Short:       "Find what is wrong with an installation, and say what to do",
		Long: `Find what is wrong with an installation of Lockstep, and say what to do about it: versions, CRDs, the
configuration of Volcano's scheduler, webhooks, HyperNodes, queues, the manager and its rights, the way of supervisors
to it, health agents, and taints that were left behind. Nothing is written to the cluster.

A problem is something that does not work, or will not when it is needed. A warning is something that works less
well than it could, or waits for a person. A check that cannot be made, as for lack of rights, is a problem.

Exit codes:
  0  no problem was found; there may be warnings
  1  the check itself failed, as when the API server does not answer
  2  problems were found`,
		Example: `  # Everything, with what to do about each finding
  kubectl lockstep check

  # In a script: the exit code says whether there are problems
  kubectl lockstep check --context production >report.txt || cat report.txt

  # The subjects of all problems
  kubectl lockstep check -o json |
    jq -r '.checks[].findings[]? | select(.severity=="Problem") | .subject'`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			installation, err := readInstallation(cmd.Context(), config)
			if err != nil {
				return err
			}
			report := check.Run(installation)
			return output.judge(cmd, report, report.Problems > 0, func() error { return printReport(streams.Out, report) })
		},
	}
	output.addFlag(c)
	return c
}

func readInstallation(ctx context.Context, config *genericclioptions.ConfigFlags) (*check.Cluster, error) {
	api, err := newCluster(config)
	if err != nil {
		return nil, err
	}
	if err := apiextensionsv1.AddToScheme(api.Scheme()); err != nil {
		return nil, err
	}
	discovery, err := config.ToDiscoveryClient()
	if err != nil {
		return nil, err
	}
	served, err := discovery.ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("ask the API server for its version: %w", err)
	}
	c, err := check.Read(ctx, api)
	c.Version, c.Now = served.GitVersion, api.clock.Now() // leases and reports are compared with it
	return c, err
}

func printReport(out io.Writer, r check.Report) error {
	t := tabwriter.NewWriter(out, 0, 8, 3, ' ', 0)
	fmt.Fprintln(t, "CHECK\tRESULT\tOF")
	for i := range r.Checks {
		result, of := verdict(&r.Checks[i])
		fmt.Fprintf(t, "%s\t%s\t%s\n", r.Checks[i].Check, result, of)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, c := range r.Checks {
		for _, f := range c.Findings {
			printFinding(out, f)
		}
	}
	problems, warnings := lines.Count(r.Problems, "problem"), lines.Count(r.Warnings, "warning")
	fmt.Fprintf(out, "\n%d checks, %d skipped: %s, %s.\n", len(r.Checks), r.Skipped, problems, warnings)
	return nil
}

// verdict sums a check up, and says what of. What could not be read is printed in full below the table. What runs elsewhere, and leaves no
// trace in the cluster, was not looked at.
func verdict(c *check.Result) (result, of string) {
	problems, warnings := c.Number(check.Problem), c.Number(check.Warning)
	switch {
	case len(c.Lacks) > 0:
		of, _, _ = strings.Cut("needs "+string(c.Lacks[0]), ".")
		if more := len(c.Lacks) - 1; more > 0 {
			of += fmt.Sprintf(" and %d more", more)
		}
		return "skipped", of
	case problems > 0:
		return lines.Count(problems, "problem"), c.Saw
	case warnings > 0:
		return lines.Count(warnings, "warning"), c.Saw
	case strings.HasPrefix(c.Saw, "elsewhere:"):
		return "not seen", c.Saw
	}
	return "ok", c.Saw
}

func printFinding(out io.Writer, f check.Finding) {
	const indent = "  "
	fmt.Fprintf(out, "\n%s: %s\n", f.Severity, f.Subject)
	for _, text := range []string{f.What, "To do: " + f.Fix} {
		for _, line := range lines.Wrap(text, lines.Width-len(indent)) {
			fmt.Fprintln(out, indent+line)
		}
	}
	if f.Command != "" {
		fmt.Fprintf(out, "    %s\n", f.Command) // in one line, to be copied
	}
}
