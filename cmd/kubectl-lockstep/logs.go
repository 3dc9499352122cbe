package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/ranklogs"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/why"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// logging is what logs is asked for.
type logging struct {
	ranklogs.Options
	all, follow bool
	tail        int64
	since       time.Duration
	timestamps  bool
	maxRequests int
}

func newLogs(streams genericiooptions.IOStreams, flags *genericclioptions.ConfigFlags) *cobra.Command {
	var l logging
	c := &cobra.Command{
		Use:   "logs JOB [RANK]",
		Short: "Print the logs of a rank, or of all ranks",
		Long: `Print the log of a rank, which is named like worker-3, or by its pod; without one, that of the first rank of the first task.
With --all the logs of all ranks are printed: one after the other, or with -f as their lines come. Each line then begins with its
rank.

With --previous it is the log of the run before: of the container, where that was restarted in its pod, and else
of the pod that the rank had in the attempt before, as long as that exists. The logs of a pod go with it.

With -f the log is followed until its container ends. The exit code is 0 where all logs that were asked for could be read, and 1 where
one could not; the others are printed all the same.`,
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
			if l.tail < -1 {
				return fmt.Errorf("--tail: %d is negative: give a number of lines, or -1 for all", l.tail)
			}
			if l.since < 0 {
				return fmt.Errorf("--since: %s is negative: give a time such as 10m", l.since)
			}
			return cobra.MaximumNArgs(2)(c, args)
		},
		ValidArgsFunction: completer{flags}.jobAndRank,
		RunE: func(c *cobra.Command, args []string) error {
			return l.run(c.Context(), streams, flags, args)
		},
	}
	f := c.Flags()
	f.BoolVar(&l.all, "all", false, "print the logs of all ranks, each line with its rank")
	f.BoolVarP(&l.follow, "follow", "f", false, "go on with the lines to come")
	f.BoolVarP(&l.Previous, "previous", "p", false, "print the log of the run before")
	f.StringVarP(&l.Container, "container", "c", "", "the container; default: the first, or that of the annotation kubectl.kubernetes.io/default-container")
	f.Int64Var(&l.tail, "tail", -1, "how many of the last lines are printed; -1 for all")
	f.DurationVar(&l.since, "since", 0, "print only lines that are younger, such as 10m. Default: all")
	f.BoolVar(&l.timestamps, "timestamps", false, "begin each line with the time at which it was written")
	f.IntVar(&l.maxRequests, "max-log-requests", 50, "how many logs are followed at once, at most")
	if err := c.RegisterFlagCompletionFunc("container", completer{flags}.containers); err != nil {
		panic(err) // the flag is defined above
	}
	return c
}

func (l *logging) run(ctx context.Context, streams genericiooptions.IOStreams, flags *genericclioptions.ConfigFlags, args []string) error {
	c, err := newCluster(flags)
	if err != nil {
		return err
	}
	job, err := c.job(ctx, args[0])
	if err != nil {
		return err
	}
	ranks, err := l.ranks(job, args[1:], streams.ErrOut)
	if err != nil {
		return err
	}
	if l.follow && len(ranks) > l.maxRequests {
		return fmt.Errorf("--max-log-requests: there are %d logs to follow, and %d may be: raise it, or name a rank", len(ranks), l.maxRequests)
	}
	pods := &corev1.PodList{}
	if err := c.List(ctx, pods, client.InNamespace(job.Namespace), client.MatchingLabels{v1alpha1.LabelUID: string(job.UID)}); err != nil {
		return fmt.Errorf("list the pods of TrainingJob %s: %w", job.Name, err)
	}
	config, err := flags.ToRESTConfig()
	if err != nil {
		return err
	}
	api, err := corev1client.NewForConfig(config)
	if err != nil {
		return err
	}
	var sources []ranklogs.Source
	var errs []error
	for _, rank := range ranks {
		source, err := ranklogs.Find(job, &rank, pods.Items, l.Options)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		sources = append(sources, source)
	}
	reader := &logReader{pods: api.Pods(job.Namespace), nodes: c, job: job.Name}
	return errors.Join(append(errs, l.print(ctx, streams.Out, reader, sources))...)
}

// logReader reads logs, and why they cannot be read.
type logReader struct {
	pods  corev1client.PodInterface
	nodes client.Reader
	job   string
}

// open begins to read a log.
func (r *logReader) open(ctx context.Context, s *ranklogs.Source, o *corev1.PodLogOptions) (io.ReadCloser, error) {
	log, err := r.pods.GetLogs(s.Pod, o).Stream(ctx)
	if failed := apierrors.APIStatus(nil); s.Node != "" && errors.As(err, &failed) && failed.Status().Code >= http.StatusInternalServerError {
		node := &corev1.Node{}
		if r.nodes.Get(ctx, client.ObjectKey{Name: s.Node}, node) != nil {
			node = nil
		}
		err = ranklogs.Unanswered(s, r.job, node, err)
	}
	if err != nil {
		return nil, fmt.Errorf("rank %s: %w", s.Rank, err)
	}
	return log, nil
}

// ranks are those whose logs are asked for. Spares only sleep: their logs are not among all.
func (l *logging) ranks(job *v1alpha1.TrainingJob, names []string, errOut io.Writer) ([]why.Subject, error) {
	if len(names) > 0 {
		sub, err := findRank(job, names[0])
		return []why.Subject{sub}, err
	}
	var all []why.Subject
	gang.EachRank(job, func(r gang.Rank) { all = append(all, why.Subject{Rank: r, Attempt: job.Status.Attempt}) })
	if !l.all && len(all) > 1 {
		fmt.Fprintf(errOut, "TrainingJob %s has %d ranks: this is %s; --all prints all.\n", job.Name, len(all), ranklogs.Name(all[0].Rank))
		all = all[:1]
	}
	return all, nil
}

// print prints logs one after the other, or all at once where they are followed. One that cannot be read does not end the others.
func (l *logging) print(ctx context.Context, out io.Writer, logs *logReader, sources []ranklogs.Source) error {
	var streams errgroup.Group
	streams.SetLimit(1)
	if l.follow {
		streams.SetLimit(len(sources) + 1)
	}
	merger := ranklogs.NewMerger(out)
	errs := make([]error, len(sources))
	for i := range sources {
		streams.Go(func() error {
			errs[i] = l.stream(ctx, merger, logs, &sources[i])
			return nil
		})
	}
	return errors.Join(streams.Wait(), errors.Join(errs...))
}

func (l *logging) stream(ctx context.Context, merger *ranklogs.Merger, logs *logReader, s *ranklogs.Source) error {
	options := &corev1.PodLogOptions{Container: s.Container, Previous: s.Previous, Follow: l.follow, Timestamps: l.timestamps}
	if l.tail >= 0 {
		options.TailLines = &l.tail
	}
	if l.since > 0 {
		options.SinceSeconds = new(int64(math.Ceil(l.since.Seconds())))
	}
	log, err := logs.open(ctx, s, options)
	if err != nil {
		return err
	}
	defer log.Close()
	prefix := ""
	if l.all {
		prefix = "[" + s.Rank + "] "
	}
	if err := merger.Copy(prefix, log); err != nil && ctx.Err() == nil {
		return fmt.Errorf("rank %s: its log has broken off: %w", s.Rank, err)
	}
	return nil
}
