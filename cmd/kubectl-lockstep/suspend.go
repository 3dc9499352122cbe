package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// suspension sets spec.suspend of TrainingJobs.
type suspension struct {
	suspend bool
	// done says what a job is afterwards, already what it is if it was so before, and effect what happens to jobs that were changed.
	done, already, effect string
	// changed is whether any job was changed.
	changed bool
	dryRun  dryRun
}

func newSuspend(streams genericiooptions.IOStreams, flags *genericclioptions.ConfigFlags) *cobra.Command {
	s := &suspension{
		suspend: true, done: "suspended", already: "is suspended already",
		effect: "The pods are deleted, with their usual grace period, and the nodes are given back. The program is not asked for a " +
			"checkpoint, and goes on from its last one: kubectl lockstep resume starts it again.",
	}
	return s.command(streams, flags, &cobra.Command{
		Use:   "suspend JOB...",
		Short: "Stop TrainingJobs, and give their nodes back",
		Long: `Stop TrainingJobs until they are resumed: spec.suspend becomes true. Their pods are deleted, with the usual grace
period, and their nodes are given back to the cluster. What a job is recovering from is cancelled. The home of the job is
remembered.

The program is not asked for a checkpoint: what it trained since its last one is trained again, unless it saves
its state when it gets SIGTERM.`,
		Example: `  # Stop a job
  kubectl lockstep suspend llama

  # Ask the API server whether two jobs could be stopped, and stop none
  kubectl lockstep suspend llama mamba --dry-run=server`,
	})
}

func newResume(streams genericiooptions.IOStreams, flags *genericclioptions.ConfigFlags) *cobra.Command {
	s := &suspension{
		done: "resumed", already: "is not suspended",
		effect: "The job waits for its queue, and its pods are created in its former home if that has room: " +
			"kubectl lockstep list shows how far it is.",
	}
	return s.command(streams, flags, &cobra.Command{
		Use:   "resume JOB...",
		Short: "Start TrainingJobs that are suspended",
		Long: `Start TrainingJobs that are suspended: spec.suspend becomes false. They wait for their queues, and
their pods are created: in the home that a job had where there is room, and elsewhere if not. The
program finds LOCKSTEP_RESUME=true, and goes on from its last checkpoint.`,
		Example: `  # Start a job that is suspended
  kubectl lockstep resume llama`,
	})
}

func (s *suspension) command(streams genericiooptions.IOStreams, flags *genericclioptions.ConfigFlags, c *cobra.Command) *cobra.Command {
	c.Annotations = needs(roleEdit)
	c.Args = oneOrMoreNames
	c.RunE = func(c *cobra.Command, names []string) error {
		cluster, err := newCluster(flags)
		if err != nil {
			return err
		}
		var errs []error
		for _, name := range names { // the others, too, where one fails
			errs = append(errs, s.set(c.Context(), streams.Out, cluster, name))
		}
		if s.changed && s.dryRun == dryRunNone {
			lines.Print(streams.Out, s.effect, lines.Width)
		}
		return errors.Join(errs...)
	}
	s.dryRun.addFlag(c)
	return c
}

// set changes a job, unless it is as wanted.
func (s *suspension) set(ctx context.Context, out io.Writer, c *cluster, name string) error {
	job, err := c.job(ctx, name)
	if err == nil {
		err = isOurs(job)
	}
	switch {
	case err != nil:
		return err
	case gang.Finished(&job.Status):
		return fmt.Errorf("TrainingJob %s has ended (%s), and cannot be %s: create a new one to train again", job.Name, job.Status.State, s.done)
	case job.Spec.Suspend == s.suspend:
		fmt.Fprintf(out, "%s %s\n", resourceName(job), s.already)
		return nil
	}
	err = c.patch(ctx, job, fmt.Sprintf(`{"spec":{"suspend":%t}}`, s.suspend), s.dryRun)
	if err == nil {
		fmt.Fprintf(out, "%s %s%s\n", resourceName(job), s.done, s.dryRun.suffix())
		s.changed = true
	}
	return err
}

// resourceName is how kubectl names a TrainingJob.
func resourceName(job *v1alpha1.TrainingJob) string {
	return "trainingjob." + v1alpha1.GroupVersion.Group + "/" + job.Name
}
