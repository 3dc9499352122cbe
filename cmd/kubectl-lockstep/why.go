package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/why"
)

func newWhy(streams genericiooptions.IOStreams, flags *genericclioptions.ConfigFlags) *cobra.Command {
	var output format
	c := &cobra.Command{
		Use:   "why JOB [RANK] | pod/NAME",
		Short: "Answer why a job waits, or why a rank is where it is",
		Long: `Answer in sentences why a TrainingJob is in its state; or, for a rank of it, why the rank is on its node, why the pod
before was deleted, and what the pod waits for. A rank is named like worker-3, or by its pod. The pod need not exist
any more.

Each sentence is one fact and ends with what it was read from: the status of the TrainingJob, its PodGroup and Queue,
pods, nodes and their NodeHealths, HyperNodes and events. What is not recorded is not told. A source that may not be read, or is not there,
is named at the end. The exit code is 0 where there is an answer, and 1 where there is none, as for a rank that the job
does not have.`,
		Example: `  # Why a job waits, recovers, runs where it does, or has failed
  kubectl lockstep why llama

  # Why a rank is on its node, and why its last pod was deleted
  kubectl lockstep why llama worker-3

  # The same for a pod, which need not exist any more
  kubectl lockstep why pod/llama-1-worker-3`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errNoName
			}
			return cobra.MaximumNArgs(2)(c, args)
		},
		ValidArgsFunction: completer{flags}.jobAndRank,
		RunE: func(c *cobra.Command, args []string) error {
			return runWhy(c.Context(), streams.Out, flags, output, args)
		},
	}
	output.addFlag(c)
	return c
}

func runWhy(ctx context.Context, out io.Writer, flags *genericclioptions.ConfigFlags, output format, args []string) error {
	c, err := newCluster(flags)
	if err != nil {
		return err
	}
	r := &whyReader{c}
	job, sub, err := r.find(ctx, args)
	if err != nil {
		return err
	}
	s := r.snapshot(ctx, job, sub, c.clock.Now())
	if sub != nil && !s.Knows(*sub) {
		return fmt.Errorf("there is no pod %s, and nothing that is recorded tells of one: TrainingJob %s has %s, in attempt %d%s",
			sub.Pod, job.Name, why.Ranks(job), job.Status.Attempt, didYouMean(sub.Pod, why.PodNames(job), ""))
	}
	answer := why.Ask(s, sub)
	return output.print(out, answer, func() error {
		printAnswer(out, job, &answer)
		return nil
	})
}

// jobTitle names a job, with its state.
func jobTitle(job *v1alpha1.TrainingJob) string {
	state := string(job.Status.State)
	if state == "" {
		state = "no state yet"
	}
	return fmt.Sprintf("TrainingJob %s/%s: %s", job.Namespace, job.Name, state)
}

// printAnswer prints facts, one after the other, each with what it was read from.
func printAnswer(out io.Writer, job *v1alpha1.TrainingJob, answer *why.Answer) {
	title := jobTitle(job)
	if answer.Rank != "" {
		title = "Rank " + answer.Rank + " of " + title
	}
	fmt.Fprintln(out, title)
	for _, f := range answer.Facts {
		text := f.Text
		if f.Source != "" {
			text += " [" + f.Source + "]"
		}
		fmt.Fprintln(out, strings.Join(lines.Item(text), "\n"))
	}
}
