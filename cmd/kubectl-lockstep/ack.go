package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/why"
	"github.com/lockstep-dev/lockstep/policies/incident"
	"github.com/lockstep-dev/lockstep/policies/instant"
	policynodes "github.com/lockstep-dev/lockstep/policies/nodes"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

func newAck(streams genericiooptions.IOStreams, flags *genericclioptions.ConfigFlags) *cobra.Command {
	c := &cobra.Command{
		Use:   "ack node NODE... | breaker",
		Short: "Acknowledge faults of nodes, or the open breaker",
		Long: `Acknowledge what you have looked at. With node, the faults of a node are cleared, and a node that has failed too often
may come back. With breaker, Lockstep acts upon the unhealthy nodes that the open breaker holds back.`,
		Example: `  # The faults of a node that was repaired
  kubectl lockstep ack node gpu-17

  # So many nodes really are unhealthy: act on them
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

// acknowledgement is what the verbs of ack are asked for, and what they work with.
type acknowledgement struct {
	*cluster
	out      io.Writer
	untilNow bool
	dryRun   dryRun
}

// command completes a verb of ack, which acknowledges what there is of each object that is named.
func (a *acknowledgement) command(
	streams genericiooptions.IOStreams, flags *genericclioptions.ConfigFlags, c *cobra.Command, ack func(context.Context, string) error,
) *cobra.Command {
	c.RunE = func(c *cobra.Command, names []string) (err error) {
		if a.cluster, err = newCluster(flags); err != nil {
			return err
		}
		a.out = streams.Out
		if len(names) == 0 {
			return ack(c.Context(), v1alpha1.HealthPolicyName)
		}
		var errs []error
		for _, name := range names {
			errs = append(errs, ack(c.Context(), name))
		}
		return errors.Join(errs...)
	}
	a.dryRun.addFlag(c)
	return c
}

func newAckNode(streams genericiooptions.IOStreams, flags *genericclioptions.ConfigFlags) *cobra.Command {
	a := &acknowledgement{}
	c := a.command(streams, flags, &cobra.Command{
		Use:   "node NODE...",
		Short: "Acknowledge the faults of nodes, which are then cleared",
		Long: `Show what is known to be wrong with a node, and acknowledge that: spec.acknowledgedTime of its NodeHealth becomes
the time of the last fault or failure that is shown. The faults are cleared unless they are found again, a GPU that
is lost is no longer expected, and a node that has failed too often may leave quarantine.

--until-now acknowledges all that began until now, even faults that no agent has reported yet.`,
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
	}, a.node)
	c.Flags().BoolVar(&a.untilNow, "until-now", false, "acknowledge all that began until now, by the clock of the API server")
	return c
}

func newAckBreaker(streams genericiooptions.IOStreams, flags *genericclioptions.ConfigFlags) *cobra.Command {
	a := &acknowledgement{}
	return a.command(streams, flags, &cobra.Command{
		Use:   "breaker",
		Short: "Acknowledge the open breaker: its nodes are unhealthy",
		Long: `Show which breakers are open and which nodes they hold back, and acknowledge that these are unhealthy:
spec.breaker.acknowledgedTime of the HealthPolicy becomes the time of the API server. Lockstep acts upon what was held
back until then: it taints nodes and moves pods. It begins to count unhealthy nodes, and moves of a job's pods, again.

Moves of a job go on, too, if they wait for an acknowledgement. They may wait although no breaker of the cluster or
of a HyperNode is open: kubectl lockstep why JOB has them. Where there is neither, nothing is changed.`,
		Example: `  # Act on the nodes that are held back
  kubectl lockstep ack breaker

  # Which those are
  kubectl lockstep ack breaker --dry-run=client`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}, a.breaker)
}

// getOr reads an object, and says what it means where there is none.
func (c *cluster) getOr(ctx context.Context, name string, into client.Object, absent string) error {
	err := c.Get(ctx, client.ObjectKey{Name: name}, into)
	if apierrors.IsNotFound(err) {
		err = fmt.Errorf("%w: %s", err, absent)
	}
	return err
}

func (a *acknowledgement) node(ctx context.Context, name string) error {
	health := &v1alpha1.NodeHealth{}
	err := a.getOr(ctx, name, health, "nothing was ever reported of a node of that name. `kubectl get nodehealths` lists those with reports")
	if err != nil {
		return err
	}
	for _, fact := range (&why.Snapshot{Now: a.clock.Now(), All: true}).Health(*health) {
		fmt.Fprintln(a.out, strings.Join(lines.Item(fact.Text), "\n"))
	}
	until := faultsUntil(health)
	if a.untilNow {
		until = instant.Latest(until, a.now())
	}
	if acked := health.Spec.AcknowledgedTime; until.IsZero() || (acked != nil && !until.After(acked.Time)) {
		fmt.Fprintf(a.out, "nodehealth.lockstep.dev/%s not changed: nothing is left to acknowledge\n", name)
		return nil
	}
	next := ""
	if v := health.Status.Verdict; v != nil && v.QuarantinedTime != nil {
		next = "Its quarantine ends when nothing of it has been Failed for quarantine.wellSeconds of the HealthPolicy, by default 10 minutes: " +
			"`kubectl lockstep nodes --unhealthy` says at what time."
	}
	return a.write(ctx, health, "nodehealth.lockstep.dev/"+name, `{"spec":{"acknowledgedTime":%q}}`, until, next)
}

// write acknowledges what began until a time, and says what follows.
func (a *acknowledgement) write(ctx context.Context, object client.Object, name, merge string, until time.Time, next string) error {
	if err := a.patch(ctx, object, fmt.Sprintf(merge, until.UTC().Format(time.RFC3339)), a.dryRun); err != nil {
		return err
	}
	fmt.Fprintf(a.out, "%s acknowledged: faults up to %s UTC%s\n", name, until.UTC().Format(time.DateTime), a.dryRun.suffix())
	if a.dryRun == dryRunNone && next != "" {
		printWrapped(a.out, next)
	}
	return nil
}

func printWrapped(out io.Writer, text string) { lines.Print(out, text, lines.Width) }

// faultsUntil returns up to when a node has to be acknowledged for all that is known of it; zero where there is nothing. An agent knows a
// fraction of a second more than its report says, so that this is the end of the last second.
func faultsUntil(h *v1alpha1.NodeHealth) time.Time {
	var last time.Time
	for _, r := range h.Status.Reports {
		last = instant.Latest(last, r.Since.Time)
	}
	if h.Status.Verdict != nil {
		for _, t := range h.Status.Verdict.FailureTimes {
			last = instant.Latest(last, t.Time)
		}
	}
	if last.IsZero() {
		return last
	}
	return last.Add(time.Second)
}

func (a *acknowledgement) breaker(ctx context.Context, name string) error {
	policy := &v1alpha1.HealthPolicy{}
	err := a.getOr(ctx, name, policy, "the manager creates it when it starts. `kubectl lockstep check` finds out what is wrong with it")
	if err != nil {
		return err
	}
	jobs := &v1alpha1.TrainingJobList{}
	if err := a.List(ctx, jobs); err != nil {
		return err
	}
	waiting := waitingForAck(jobs.Items)
	if len(waiting) > 0 {
		printWrapped(a.out, "Moves of these TrainingJobs are not made yet, and may wait for an acknowledgement: "+strings.Join(waiting, ", ")+".")
	}
	for _, b := range policy.Status.Breakers {
		printWrapped(a.out, fmt.Sprintf("Open since %s UTC: %s. `kubectl lockstep nodes --unhealthy` lists them.",
			b.OpenTime.UTC().Format(time.DateTime), policynodes.DescribeBreaker(b)))
	}
	resource := "healthpolicy.lockstep.dev/" + name
	if len(waiting) == 0 && len(policy.Status.Breakers) == 0 {
		fmt.Fprintln(a.out, resource+" not changed: no breaker is open, and nothing is left to acknowledge")
		return nil
	}
	return a.write(ctx, policy, resource, `{"spec":{"breaker":{"acknowledgedTime":%q}}}`, a.now(),
		"Within seconds the manager puts the nodes that failed into quarantine, and moves pods from unhealthy nodes as the rules of their jobs "+
			"say. It counts unhealthy nodes again from now on: `kubectl lockstep nodes --unhealthy` shows them.")
}

// waitingForAck names the jobs with moves for their health that have not been made, and may wait for an acknowledgement.
func waitingForAck(jobs []v1alpha1.TrainingJob) []string {
	var out []string
	for i := range jobs {
		mayWait := func(inc v1alpha1.Incident) bool {
			return inc.Outcome == "" && rules.OfHealth(inc.Trigger) && !incident.Restarted(&inc)
		}
		if jobs[i].Spec.ManagedBy == "" && slices.ContainsFunc(jobs[i].Status.Incidents, mayWait) {
			out = append(out, jobs[i].Namespace+"/"+jobs[i].Name)
		}
	}
	return out
}

// now is the time of the API server. It has whole seconds, so that this is up to one second later.
func (a *acknowledgement) now() time.Time { return a.clock.Now().Add(time.Second) }
