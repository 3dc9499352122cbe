package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/stacks"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/why"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/supervisor/ras"
)

const (
	// askedAtOnce is how many ranks are asked at once, and answersWithin how long one has to answer.
	askedAtOnce   = 16
	answersWithin = 30 * time.Second
)

// stacksOptions is what stacks is asked for. The other flags are those of kubectl exec.
type stacksOptions struct {
	app
	flags      *pflag.FlagSet
	force, ras bool
}

func newStacks(a app) *cobra.Command {
	o := stacksOptions{app: a}
	c := &cobra.Command{
		Use:   "stacks JOB [RANK]",
		Short: "Print where the processes of each rank are",
		Long: `Ask the supervisor of each rank, by kubectl exec, what its processes do: their states, where their threads wait in the kernel, and of Python programs the stack of each thread.
Ranks that do the same are one group, and the largest comes first, so that the rank that hangs by itself is among the last.

After that comes what NCCL RAS says of all ranks, where a service of it answers (NCCL 2.24 or newer): which ranks have launched fewer collective operations, and which are silent.
Some versions of NCCL crash when they are asked, so a job that has not stalled is asked only with --ras (github.com/NVIDIA/nccl, issues 1762 and 2346).

A program is asked by a signal, and goes on. One that computes outside of Python, as with NCCL's kernels, does not answer. With --force it does, but a thread that
computes in Python beside may then end it: use that where the gang is to be restarted anyway.

The exit code is 0 where each rank has answered, and 1 where not.`,
		Example: `  # Where a gang hangs
  kubectl lockstep stacks llama`,
		Args:        cobra.RangeArgs(1, 2),
		Annotations: needs(roleEdit),
		RunE:        a.on(o.run),
	}
	o.flags = c.Flags()
	o.flags.BoolVar(&o.force, "force", false, "ask programs that compute outside of Python, too, which may end them")
	o.flags.BoolVar(&o.ras, "ras", false, "ask NCCL RAS even if the job has not stalled; some versions of NCCL crash when they are asked")
	return c
}

func (o *stacksOptions) run(ctx context.Context, c *cluster, args []string) error {
	job, err := c.job(ctx, args[0])
	if err != nil {
		return err
	}
	if job.Spec.Supervisor == nil {
		return fmt.Errorf("TrainingJob %s has no supervisors, which would say it: set spec.supervisor", job.Name)
	}
	var asked []stacks.Of
	gang.EachRank(gang.Effective(job, &job.Status), func(r gang.Rank) {
		if programOf(job, r) != "" {
			asked = append(asked, stacks.Of{Rank: r})
		}
	})
	if len(args) > 1 {
		sub, err := why.Find(job, args[1])
		if err != nil {
			return err
		}
		if programOf(job, sub.Rank) == "" {
			return fmt.Errorf("%s has no supervisor: it is a spare, or its task is independent", args[1])
		}
		if err := isPresent(job, sub); err != nil {
			return err
		}
		asked = []stacks.Of{{Rank: sub.Rank}}
	}
	var group errgroup.Group
	group.SetLimit(askedAtOnce)
	for i := range asked {
		one := &asked[i]
		group.Go(func() error {
			*one = stacks.Read(one.Rank)(o.ask(ctx, job, one.Rank, o.how()...))
			return nil
		})
	}
	_ = group.Wait()
	stacks.Print(o.Out, asked)
	if o.ras || gang.IsTrue(&job.Status, v1alpha1.ConditionStalled) {
		o.printRAS(ctx, job, asked)
	}
	if slices.ContainsFunc(asked, func(one stacks.Of) bool { return !one.Known() }) {
		return fmt.Errorf("not every rank has answered: `kubectl lockstep why %s` says what became of them", job.Name)
	}
	return nil
}

func (o *stacksOptions) how() []string {
	if o.force {
		return []string{"--force"}
	}
	return nil
}

// printRAS prints what NCCL RAS says of all ranks, as the first one hears it that answers: of the first ranks of each task, or of the only one. All of them have as
// long as one has.
func (o *stacksOptions) printRAS(ctx context.Context, job *v1alpha1.TrainingJob, asked []stacks.Of) {
	ctx, cancel := context.WithTimeout(ctx, answersWithin)
	defer cancel()
	for _, one := range asked {
		if !one.Known() || (one.Rank.Index >= ras.Ranks && len(asked) > 1) {
			continue
		}
		if report, err := o.ask(ctx, job, one.Rank, "--ras"); err == nil { // of NCCL before 2.24 there is none, and older supervisors do not ask
			stacks.PrintRAS(o.Out, one.Rank, report)
			return
		}
	}
}

// programOf is the container of a rank that runs its program; empty for a spare.
func programOf(job *v1alpha1.TrainingJob, r gang.Rank) string {
	for i := range job.Spec.Tasks {
		if t := &job.Spec.Tasks[i]; t.Name == r.Task && !t.Independent {
			return t.Template.Spec.Containers[0].Name
		}
	}
	return ""
}

// ask has kubectl run lockstep-run stacks in the container of a rank.
func (o *stacksOptions) ask(ctx context.Context, job *v1alpha1.TrainingJob, r gang.Rank, flags ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, answersWithin)
	defer cancel()
	asks := []string{"--", v1alpha1.SupervisorFolder + "/lockstep-run", "stacks"}
	kubectl := exec.CommandContext(ctx, "kubectl", slices.Concat(
		[]string{"exec", gang.PodNameOf(job, &job.Status, r), "--container=" + programOf(job, r)}, passedOn(o.flags), asks, flags)...)
	kubectl.WaitDelay = time.Second // it may be a script, which leaves another process behind
	out, said := &bounded{stop: cancel}, &bounded{stop: cancel}
	kubectl.Stdout, kubectl.Stderr = out, said
	err := kubectl.Run()
	switch {
	case out.full || said.full:
		return "", fmt.Errorf("it prints more than %d bytes", maxPrinted)
	case ctx.Err() != nil:
		return "", fmt.Errorf("no answer within %s", answersWithin)
	case err != nil && said.text.Len() > 0:
		return "", errors.New(strings.TrimSpace(said.text.String()))
	case err != nil:
		return "", fmt.Errorf("kubectl exec: %w", err)
	}
	return out.text.String(), nil
}

// bounded is what a program prints. One that prints without end, as a hostile one might, is stopped.
type bounded struct {
	text bytes.Buffer
	stop func()
	full bool
}

const maxPrinted = 1 << 20

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	if b.text.Len()+len(p) > maxPrinted {
		b.full = true
		b.stop()
		return len(p), nil
	}
	return b.text.Write(p)
}
