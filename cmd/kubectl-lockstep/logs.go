package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/why"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// logging is what logs is asked for. The other flags are those of kubectl logs, which prints.
type logging struct {
	app
	flags       *pflag.FlagSet
	all, follow bool
}

func newLogs(a app) *cobra.Command {
	l := logging{app: a}
	c := &cobra.Command{
		Use:   "logs JOB [RANK]",
		Short: "Print the logs of a rank, or of all ranks",
		Long: `Print the log of a rank, which is named like worker-3, or by its pod; without one, that of the first rank of the first task.
With --all the logs of all ranks are printed, each line with its pod. The logs are printed by kubectl logs, and the other flags are its own.

With --previous it is the log of the run before of a container that was restarted in its pod. The logs of a pod go with it.

With -f the log is followed until its container ends, and those of all ranks come as they are written. The exit code is 0 where
each log could be read, and 1 where not; with --all -f a log that cannot be read is only reported.`,
		Example: `  # The log of a rank
  kubectl lockstep logs llama worker-3

  # What it said before it was restarted
  kubectl lockstep logs llama worker-3 --previous

  # The last lines of all ranks, and those to come
  kubectl lockstep logs llama --all --tail 10 -f`,
		Annotations: needs(roleView),
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errNoName
			}
			if l.all && len(args) > 1 {
				return fmt.Errorf("--all: give either that or the rank %s", args[1])
			}
			return cobra.MaximumNArgs(2)(c, args)
		},
		RunE: a.on(l.run),
	}
	f := c.Flags()
	l.flags = f
	f.BoolVar(&l.all, "all", false, "print the logs of all ranks, each line with its pod")
	f.BoolVarP(&l.follow, "follow", "f", false, "go on with the lines to come")
	f.BoolP("previous", "p", false, "print the log of the run before")
	f.StringP("container", "c", "", "the container; default: the first, or that of the annotation kubectl.kubernetes.io/default-container")
	f.Int64("tail", -1, "how many of the last lines are printed; -1 for all")
	f.Duration("since", 0, "print only lines that are younger, such as 10m. Default: all")
	f.Bool("timestamps", false, "begin each line with the time at which it was written")
	f.Int("max-log-requests", 50, "how many logs are followed at once, at most")
	cobra.CheckErr(c.RegisterFlagCompletionFunc("container", a.complete(ofFirstJob(containers))))
	return c
}

func (l *logging) run(ctx context.Context, c *cluster, args []string) error {
	job, err := c.job(ctx, args[0])
	if err != nil {
		return err
	}
	if l.all && l.follow {
		selector := fmt.Sprintf("%s=%s,%s=%d", v1alpha1.LabelUID, job.UID, v1alpha1.LabelAttempt, job.Status.Attempt)
		if s := job.Spec.Supervisor; s == nil || s.TakeOver == nil {
			selector += "," + v1alpha1.LabelSpare + "!=true" // they only sleep
		}
		return l.kubectl(ctx, job, "--prefix", "--ignore-errors", "--selector", selector)
	}
	if len(args) > 1 {
		sub, err := why.Find(job, args[1])
		if err != nil {
			return err
		}
		return l.kubectl(ctx, job, sub.Pod)
	}
	pods, err := c.pods(ctx, job)
	switch {
	case err != nil:
		return err
	case len(pods) == 0: // one error says it for all ranks
		return fmt.Errorf("TrainingJob %s has no pods: `kubectl lockstep why %s` says why", job.Name, job.Name)
	}
	var ranks []gang.Rank
	gang.EachRank(gang.Effective(job, &job.Status), func(r gang.Rank) { ranks = append(ranks, r) })
	if !l.all {
		if len(ranks) > 1 {
			fmt.Fprintf(l.ErrOut, "TrainingJob %s has %d ranks: this is %s; --all prints all.\n", job.Name, len(ranks), why.Name(ranks[0]))
		}
		return l.kubectl(ctx, job, gang.PodNameOf(job, &job.Status, ranks[0]))
	}
	var errs []error
	for _, rank := range ranks { // the others, too, where one fails
		errs = append(errs, l.kubectl(ctx, job, "--prefix", gang.PodNameOf(job, &job.Status, rank)))
	}
	return errors.Join(errs...)
}

// kubectl has kubectl print logs. It ends without an error if it is interrupted.
func (l *logging) kubectl(ctx context.Context, job *v1alpha1.TrainingJob, what ...string) error {
	kubectl := exec.CommandContext(ctx, "kubectl", slices.Concat([]string{"logs"}, what, passedOn(l.flags))...)
	kubectl.Stdin, kubectl.Stdout, kubectl.Stderr = l.In, l.Out, l.ErrOut
	if err := kubectl.Run(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("kubectl logs %s: %w: logs go with their pods, and `kubectl lockstep why %s` says what became of these",
			strings.Join(what, " "), err, job.Name)
	}
	return nil
}

// ownFlags are those of logs and stacks, which kubectl does not know.
var ownFlags = []string{"all", "force", "ras"}

// passedOn are the flags for kubectl: those that were given, which may be of the connection, and those with another default.
func passedOn(flags *pflag.FlagSet) []string {
	var out []string
	flags.VisitAll(func(f *pflag.Flag) {
		values := []string{f.Value.String()}
		if list, is := f.Value.(pflag.SliceValue); is {
			values = list.GetSlice()
		}
		for _, value := range values {
			if (f.Changed && !slices.Contains(ownFlags, f.Name)) || f.Name == "tail" || f.Name == "max-log-requests" {
				out = append(out, "--"+f.Name+"="+value)
			}
		}
	})
	return out
}
