package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/timeline"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/why"
	"github.com/lockstep-dev/lockstep/policies/instant"
)

func newWhy(streams genericiooptions.IOStreams, flags *genericclioptions.ConfigFlags) *cobra.Command {
	var output format
	all := false
	c := &cobra.Command{
		Use:   "why JOB [RANK] | pod/NAME",
		Short: "Answer why a job waits, or why a rank is where it is",
		Long: `Answer in sentences why a TrainingJob is in its state; or, for a rank of it, why the rank is on its node, why the pod
before was deleted, and what the pod waits for. A rank is named like worker-3, or by its pod. The pod need not exist
any more.

Each sentence is one fact and ends with what it was read from: the status of the TrainingJob, its PodGroup and Queue,
pods, nodes and their NodeHealths, HyperNodes and events. What is not recorded is not told. A source that may not be read, or is not there,
is named at the end. --all tells all of a job, as kubectl lockstep describe does.`,
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
			if all && len(args) > 1 {
				return fmt.Errorf("--all: give either that or the rank %s", args[1])
			}
			return cobra.MaximumNArgs(2)(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			cluster, err := newCluster(flags)
			if err != nil {
				return err
			}
			job, sub, err := cluster.find(c.Context(), args)
			if err != nil {
				return err
			}
			s := cluster.snapshot(c.Context(), job, sub)
			if sub != nil && !s.Knows(*sub) {
				return fmt.Errorf("there is no pod %s, and nothing that is recorded tells of one: TrainingJob %s has %s, in attempt %d",
					sub.Pod, job.Name, why.Ranks(job), job.Status.Attempt)
			}
			s.Whole, s.All = all && sub == nil, all
			answer := why.Ask(s, sub)
			return output.print(streams.Out, answer, func() error {
				why.Print(streams.Out, s, &answer)
				return nil
			})
		},
	}
	output.addFlag(c)
	c.Flags().BoolVar(&all, "all", false, "tell all of a job, as describe does, and list every rank")
	return c
}

// newDescribe is why, for all that is known of jobs.
func newDescribe(streams genericiooptions.IOStreams, flags *genericclioptions.ConfigFlags) *cobra.Command {
	j, all := &jobs{config: flags}, false
	c := &cobra.Command{
		Use:   "describe JOB...",
		Short: "Show all of a TrainingJob: facts, ranks, policy, events",
		Long: `Show all of a TrainingJob on one page: what kubectl lockstep why answers, the incidents, the last events, the tasks, which rank is
on which node, and the restart policy in force.

Ranks are listed by HyperNode: 48 of them, and with --all every one. A job in a file is described by its status alone.`,
		Example: `  # A job
  kubectl lockstep describe llama

  # A job with a thousand ranks, each with its node
  kubectl lockstep describe llama --all

  # A job that somebody has saved with kubectl get -o yaml
  kubectl lockstep describe -f llama.yaml`,
		RunE: func(c *cobra.Command, names []string) error {
			found, err := j.get(c.Context(), names)
			if err != nil {
				return err
			}
			var cluster *cluster
			if len(j.files) == 0 {
				if cluster, err = newCluster(flags); err != nil {
					return err
				}
			}
			for i, job := range found {
				now := instant.Latest(timeline.LastChange(&job.Status), job.CreationTimestamp.Time)
				if now.IsZero() { // it never ran
					now = time.Now()
				}
				s := &why.Snapshot{Now: now, Job: job, FromFile: true}
				if cluster != nil {
					s = cluster.snapshot(c.Context(), job, nil)
				}
				if i > 0 {
					fmt.Fprint(streams.Out, "\n\n")
				}
				s.Whole, s.All = true, all
				answer := why.Ask(s, nil)
				why.Print(streams.Out, s, &answer)
			}
			return nil
		},
	}
	j.addFlags(c)
	c.Flags().BoolVar(&all, "all", false, "list every rank with its node, however many there are")
	return c
}
