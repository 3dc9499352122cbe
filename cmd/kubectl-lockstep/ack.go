package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/acks"
)

func newAck(streams genericiooptions.IOStreams, flags *genericclioptions.ConfigFlags) *cobra.Command {
	c := &cobra.Command{
		Use:   "ack node NODE... | breaker",
		Short: "Acknowledge faults of nodes, or the open breaker",
		Long: `Acknowledge what somebody has looked at: the faults of a node, so that they are cleared and a node that has failed
too often may come back; or the open breaker, so that the ill nodes which it holds back are acted upon.`,
		Example: `  # The faults of a node that was repaired
  kubectl lockstep ack node gpu-17

  # So many nodes really are ill: act on them
  kubectl lockstep ack breaker`,
		Annotations: needs(roleHealthAdmin),
		Args:        cobra.ArbitraryArgs,
		RunE: func(*cobra.Command, []string) error {
			return errors.New("say what is acknowledged: `kubectl lockstep ack node NODE` or `kubectl lockstep ack breaker`")
		},
	}
	c.AddCommand(newAckNode(streams, flags), newAckBreaker(streams, flags))
	return c
}

// acknowledgement is what the verbs of ack are asked for.
type acknowledgement struct {
	untilNow bool
	dryRun   dryRun
}

func newAckNode(streams genericiooptions.IOStreams, flags *genericclioptions.ConfigFlags) *cobra.Command {
	var a acknowledgement
	c := &cobra.Command{
		Use:   "node NODE...",
		Short: "Acknowledge the faults of nodes, which are then cleared",
		Long: `Show what is known to be wrong with a node, and acknowledge that: spec.acknowledgedTime of its NodeHealth becomes
the time of the last fault or failure that is shown. The faults are cleared unless they are found again, a GPU that
is lost is no longer expected, and a node that has failed too often may leave quarantine.

A fault that nobody has reported yet is not acknowledged. With --until-now all that began until now is, even if
nothing is shown. The exit code is 0 where nothing of the nodes is left to acknowledge, and 1 where it could not be
acknowledged.`,
		Example: `  # The faults of a node that was repaired
  kubectl lockstep ack node gpu-17

  # What there is to acknowledge, without doing it
  kubectl lockstep ack node gpu-17 --dry-run=client

  # Whatever began until now, reported or not
  kubectl lockstep ack node gpu-17 --until-now`,
		Args: func(_ *cobra.Command, names []string) error {
			if len(names) == 0 {
				return errors.New("the name of a node is missing: `kubectl lockstep nodes --unhealthy` lists those with faults")
			}
			return nil
		},
		ValidArgsFunction: completer{flags}.nodeHealths,
		RunE: func(c *cobra.Command, names []string) error {
			cluster, err := newCluster(flags)
			if err != nil {
				return err
			}
			var errs []error
			for _, name := range names {
				errs = append(errs, a.node(c.Context(), streams.Out, cluster, name))
			}
			return errors.Join(errs...)
		},
	}
	c.Flags().BoolVar(&a.untilNow, "until-now", false, "acknowledge all that began until now, by the clock of the API server")
	a.dryRun.addFlag(c)
	return c
}

func newAckBreaker(streams genericiooptions.IOStreams, flags *genericclioptions.ConfigFlags) *cobra.Command {
	var a acknowledgement
	c := &cobra.Command{
		Use:   "breaker",
		Short: "Acknowledge the open breaker: the nodes that it holds back are ill",
		Long: `Show which breakers are open and which nodes they hold back, and acknowledge that these are ill:
spec.breaker.acknowledgedTime of the HealthPolicy becomes the time of the API server. What was held back until then is
acted upon: nodes are tainted and pods are moved. The windows in which ill nodes, and moves of a job's pods, are
counted begin again.

Moves of a job that wait for an acknowledgement go on, too, so that there may be something to acknowledge although no breaker of the
cluster or of a HyperNode is open: kubectl lockstep why JOB has these. Where there is neither, nothing is changed.`,
		Example: `  # Act on the nodes that are held back
  kubectl lockstep ack breaker

  # Which those are
  kubectl lockstep ack breaker --dry-run=client`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			cluster, err := newCluster(flags)
			if err != nil {
				return err
			}
			return a.breaker(c.Context(), streams.Out, cluster)
		},
	}
	a.dryRun.addFlag(c)
	return c
}

func (a *acknowledgement) node(ctx context.Context, out io.Writer, c *cluster, name string) error {
	health := &v1alpha1.NodeHealth{}
	err := c.Get(ctx, client.ObjectKey{Name: name}, health)
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%w: nothing was ever reported of a node of that name. `kubectl get nodehealths` lists those with reports", err)
	}
	if err != nil {
		return err
	}
	for _, line := range acks.Node(health) {
		fmt.Fprintln(out, line)
	}
	until := acks.Until(health)
	if a.untilNow {
		until = latest(until, now(c))
	}
	if acked := health.Spec.AcknowledgedTime; until.IsZero() || (acked != nil && !until.After(acked.Time)) {
		fmt.Fprintf(out, "nodehealth.lockstep.dev/%s not changed: nothing is left to acknowledge\n", name)
		return nil
	}
	if err := c.patch(ctx, health, fmt.Sprintf(`{"spec":{"acknowledgedTime":%q}}`, until.UTC().Format(time.RFC3339)), a.dryRun); err != nil {
		return err
	}
	fmt.Fprintf(out, "nodehealth.lockstep.dev/%s acknowledged: faults up to %s UTC%s\n", name, until.UTC().Format(time.DateTime), a.dryRun.suffix())
	a.explain(out, acks.Quarantine(health))
	return nil
}

func (a *acknowledgement) breaker(ctx context.Context, out io.Writer, c *cluster) error {
	policy := &v1alpha1.HealthPolicy{}
	err := c.Get(ctx, client.ObjectKey{Name: v1alpha1.HealthPolicyName}, policy)
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%w: the manager creates it when it starts. `kubectl lockstep check` finds out what is wrong with it", err)
	}
	if err != nil {
		return err
	}
	jobs := &v1alpha1.TrainingJobList{}
	if err := c.List(ctx, jobs); err != nil {
		return err
	}
	open := acks.Breakers(policy, acks.Waiting(jobs.Items))
	for _, line := range open {
		fmt.Fprintln(out, line)
	}
	if len(open) == 0 {
		fmt.Fprintf(out, "healthpolicy.lockstep.dev/%s not changed: no breaker is open, and nothing is left to acknowledge\n", policy.Name)
		return nil
	}
	until := now(c)
	merge := fmt.Sprintf(`{"spec":{"breaker":{"acknowledgedTime":%q}}}`, until.UTC().Format(time.RFC3339))
	if err := c.patch(ctx, policy, merge, a.dryRun); err != nil {
		return err
	}
	fmt.Fprintf(out, "healthpolicy.lockstep.dev/%s acknowledged: faults up to %s UTC%s\n", policy.Name, until.UTC().Format(time.DateTime), a.dryRun.suffix())
	a.explain(out, acks.Next())
	return nil
}

// explain prints what follows an acknowledgement that was written.
func (a *acknowledgement) explain(out io.Writer, next []string) {
	if a.dryRun.suffix() != "" {
		return
	}
	for _, line := range next {
		fmt.Fprintln(out, line)
	}
}

// now is the time of the API server. It tells whole seconds, so that this is up to one second later.
func now(c *cluster) time.Time { return c.clock.Now().Add(time.Second) }

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
