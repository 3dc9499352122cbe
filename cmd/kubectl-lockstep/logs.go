package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/why"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// logging is what logs is asked for. The other flags are those of kubectl logs, which prints.
type logging struct {
	app
	given                 *pflag.FlagSet
	all, follow, previous bool
	container             string
}

// ownFlags are the flags of logs that kubectl logs does not have, or not in the same sense.
var ownFlags = []string{"all", "previous"}

func newLogs(a app) *cobra.Command {
	l := logging{app: a}
	c := &cobra.Command{
		Use:   "logs JOB [RANK]",
		Short: "Print the logs of a rank, or of all ranks",
		Long: `Print the log of a rank, which is named like worker-3, or by its pod; without one, that of the first rank of the first task.
With --all the logs of all ranks are printed, each line with its pod. The logs are printed by kubectl logs, and the other flags are its own.

With --previous it is the log of the run before: of the container, where that was restarted in its pod, and else
of the pod that the rank had in the attempt before, as long as that exists. The logs of a pod go with it.

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
			if l.all && l.follow && l.previous {
				return errors.New("--previous: the run before writes no more lines: leave -f out")
			}
			return cobra.MaximumNArgs(2)(c, args)
		},
		RunE: a.on(l.run),
	}
	f := c.Flags()
	l.given = f
	f.BoolVar(&l.all, "all", false, "print the logs of all ranks, each line with its pod")
	f.BoolVarP(&l.follow, "follow", "f", false, "go on with the lines to come")
	f.BoolVarP(&l.previous, "previous", "p", false, "print the log of the run before")
	f.StringVarP(&l.container, "container", "c", "", "the container; default: the first, or that of the annotation kubectl.kubernetes.io/default-container")
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
		return l.kubectl(ctx, false, "--prefix", "--ignore-errors", "--selector", fmt.Sprintf("%s=%s,%s=%d,%s!=true", // spares only sleep
			v1alpha1.LabelUID, job.UID, v1alpha1.LabelAttempt, job.Status.Attempt, v1alpha1.LabelSpare))
	}
	pods, err := c.pods(ctx, job)
	if err != nil {
		return err
	}
	var ranks []why.Subject
	gang.EachRank(job, func(r gang.Rank) { ranks = append(ranks, why.Subject{Rank: r, Attempt: job.Status.Attempt}) })
	switch {
	case len(args) > 1:
		if ranks[0], err = findRank(job, args[1]); err != nil {
			return err
		}
		ranks = ranks[:1]
	case !l.all && len(ranks) > 1:
		fmt.Fprintf(l.ErrOut, "TrainingJob %s has %d ranks: this is %s; --all prints all.\n", job.Name, len(ranks), why.Name(ranks[0].Rank))
		ranks = ranks[:1]
	case len(pods) == 0:
		ranks = ranks[:1] // one says it for all
	}
	var errs []error
	for _, rank := range ranks { // the others, too, where one fails
		pod, previous, err := l.choose(job, &rank, pods)
		what := []string{pod}
		if l.all {
			what = []string{"--prefix", pod}
		}
		if err == nil && ctx.Err() == nil {
			err = l.kubectl(ctx, previous, what...)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// kubectl has kubectl print logs. It ends without an error where somebody interrupts it.
func (l *logging) kubectl(ctx context.Context, previous bool, what ...string) error {
	kubectl := exec.CommandContext(ctx, "kubectl", slices.Concat([]string{"logs"}, what, passedOn(l.given))...)
	if previous {
		kubectl.Args = append(kubectl.Args, "--previous")
	}
	kubectl.Stdin, kubectl.Stdout, kubectl.Stderr = l.In, l.Out, l.ErrOut
	if err := kubectl.Run(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("kubectl %s: %w", strings.Join(kubectl.Args[1:len(what)+2], " "), err)
	}
	return nil
}

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

// defaultContainer is the annotation by which kubectl, too, chooses a container.
const defaultContainer = "kubectl.kubernetes.io/default-container"

// choose chooses among the pods of a rank, up to an attempt. The pod of a later attempt has replaced that of an earlier one.
func (l *logging) choose(job *v1alpha1.TrainingJob, sub *why.Subject, pods []corev1.Pod) (name string, previous bool, err error) {
	rank := why.Name(sub.Rank)
	attempt := func(p corev1.Pod) int32 {
		n, _ := strconv.ParseInt(p.Labels[v1alpha1.LabelAttempt], 10, 32)
		return int32(n)
	}
	mine := slices.DeleteFunc(slices.Clone(pods), func(p corev1.Pod) bool {
		return attempt(p) > sub.Attempt || p.Name != gang.PodName(job, attempt(p), sub.Rank)
	})
	slices.SortFunc(mine, func(a, b corev1.Pod) int { return int(attempt(b) - attempt(a)) })
	switch {
	case len(mine) == 0 && job.Spec.Suspend:
		return "", false, fmt.Errorf("rank %s has no pod: the job is suspended, and the logs went with the pods: `kubectl lockstep resume %s` starts it", rank, job.Name)
	case len(mine) == 0:
		return "", false, fmt.Errorf("rank %s has no pod: `kubectl lockstep why %s %s` says why", rank, job.Name, rank)
	}
	pod := &mine[0]
	container := cmp.Or(l.container, pod.Annotations[defaultContainer], pod.Spec.Containers[0].Name)
	restarted := slices.ContainsFunc(slices.Concat(pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses), func(s corev1.ContainerStatus) bool {
		return s.Name == container && s.LastTerminationState.Terminated != nil
	})
	switch {
	case !l.previous || restarted:
		return pod.Name, l.previous, nil
	case len(mine) > 1:
		return mine[1].Name, false, nil
	}
	return "", false, fmt.Errorf("rank %s has no previous log: container %s of pod %s has not restarted, and no earlier pod of the rank is left: logs go with their pods",
		rank, container, pod.Name)
}
