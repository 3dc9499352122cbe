// The request that restart and migrate write, and what becomes of it.

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/restarts"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

const (
	// answerTimeout is how long the manager has to answer a request. It watches jobs, so that it answers within a second.
	answerTimeout = 15 * time.Second
	// pollInterval is how often the answer is looked for.
	pollInterval = 250 * time.Millisecond
)

// restartRequest is what restart and migrate ask the manager for.
type restartRequest struct {
	v1alpha1.RestartRequest
	wait    bool
	timeout time.Duration
	dryRun  dryRun
	// check looks at the cluster before the request is sent; nil for nothing to look at.
	check func(context.Context, *cluster, *v1alpha1.TrainingJob, []gang.Rank) error
}

// ask writes a request, and tells what the manager makes of it. Choose decides on the action and on the ranks that it is about.
func (r *restartRequest) ask(
	ctx context.Context, out io.Writer, flags *genericclioptions.ConfigFlags, args []string, choose func(*v1alpha1.TrainingJob, []gang.Rank) ([]gang.Rank, error),
) error {
	c, err := newCluster(flags)
	if err != nil {
		return err
	}
	job, err := c.job(ctx, args[0])
	if err != nil {
		return err
	}
	if err := r.fill(job, args[1:], choose); err != nil {
		return err
	}
	if !restarts.Answered(job, r.ID) { // else it was asked for before
		if err := r.send(ctx, c, job); err != nil || r.dryRun != dryRunNone {
			if err == nil {
				fmt.Fprintf(out, "%s: %s of %s requested%s\n", resourceName(job), r.Action, restarts.Names(job, &r.RestartRequest), r.dryRun.suffix())
			}
			return err
		}
	}
	return r.follow(ctx, out, c, job.Name)
}

func (r *restartRequest) fill(job *v1alpha1.TrainingJob, names []string, choose func(*v1alpha1.TrainingJob, []gang.Rank) ([]gang.Rank, error)) error {
	var ranks []gang.Rank
	for _, name := range names {
		sub, err := findRank(job, name)
		if err != nil {
			return err
		}
		ranks = append(ranks, sub.Rank)
	}
	ranks, err := choose(job, ranks)
	if err != nil {
		return err
	}
	if r.ID == "" {
		r.ID = string(uuid.NewUUID())
	}
	r.Pods, err = restarts.Pods(ranks)
	return err
}

func (r *restartRequest) send(ctx context.Context, c *cluster, job *v1alpha1.TrainingJob) error {
	if err := restarts.Check(job); err != nil {
		return err
	}
	if r.check != nil {
		if err := r.check(ctx, c, job, restarts.Ranks(&r.RestartRequest)); err != nil {
			return err
		}
	}
	merge, err := restarts.Patch(job, &r.RestartRequest)
	if err != nil {
		return err
	}
	job.Spec.RestartRequest = nil // the answer fills it
	err = c.patch(ctx, job, merge, r.dryRun)
	switch {
	case apierrors.IsConflict(err):
		return fmt.Errorf("TrainingJob %s was changed by somebody else meanwhile: try again", job.Name)
	case err == nil && job.Spec.RestartRequest == nil && r.dryRun != dryRunClient:
		return errPruned
	}
	return err
}

// errPruned is what there is to say where the API server has dropped the request from the job, without an error.
var errPruned = errors.New("the cluster's CRD has no spec.restartRequest, for it is older than this plugin: nothing was requested. " +
	"Use the plugin of the manager's version: `kubectl lockstep check` compares them")

// follow tells which incident carries the request out, and with --wait how that ends.
func (r *restartRequest) follow(ctx context.Context, out io.Writer, c *cluster, name string) error {
	timeout := min(r.timeout, answerTimeout)
	job, err := r.await(ctx, c, name, timeout, func(job *v1alpha1.TrainingJob) bool { return restarts.Answered(job, r.ID) })
	if wait.Interrupted(err) {
		return fmt.Errorf("the manager has not answered for %s. The request stays, and is carried out once it does: `kubectl lockstep check` finds out whether the manager runs", timeout)
	}
	if err != nil {
		return err
	}
	answer := job.Status.RestartRequest
	if answer.Message != "" {
		return fmt.Errorf("%s of %s is refused: %s", r.Action, restarts.Names(job, &r.RestartRequest), answer.Message)
	}
	fmt.Fprintf(out, "%s: %s of %s is incident %d\n", resourceName(job), r.Action, restarts.Names(job, &r.RestartRequest), answer.Incident)
	if job.Annotations[v1alpha1.DryRun] == "true" {
		fmt.Fprintf(out, "It is only recorded: the job has the annotation %s.\n", v1alpha1.DryRun)
	}
	if r.Action == v1alpha1.RequestedAction(v1alpha1.RelocateJob) {
		fmt.Fprintf(out, "Once it has moved, the job stays away from the HyperNode that it has left for %s.\n", lines.Exactly(restarts.StaysAway(job)))
	}
	if !r.wait {
		fmt.Fprintf(out, "`kubectl lockstep timeline %s` shows how far it is.\n", name)
		return nil
	}
	return r.awaitEnd(ctx, out, c, name, answer.Incident)
}

// awaitEnd waits for the end of the incident that carries the request out. Other requests and incidents may come meanwhile.
func (r *restartRequest) awaitEnd(ctx context.Context, out io.Writer, c *cluster, name string, id int32) error {
	stage := ""
	job, err := r.await(ctx, c, name, r.timeout, func(job *v1alpha1.TrainingJob) bool {
		inc := restarts.Incident(job, id)
		if inc == nil || inc.Outcome != "" {
			return true
		}
		if now := restarts.Stage(job, inc, c.clock.Now()); now != stage {
			stage = now
			fmt.Fprintf(out, "%s, %s ready\n", stage, job.Status.Ready)
		}
		return false
	})
	if wait.Interrupted(err) {
		return fmt.Errorf("it was not over after %s (--timeout): `kubectl lockstep timeline %s` shows how far it is", r.timeout, name)
	}
	if err != nil {
		return err
	}
	inc := restarts.Incident(job, id)
	if inc == nil {
		return fmt.Errorf("incident %d of TrainingJob %s is over, and how it ended is not known: its status keeps the last incidents only", id, name)
	}
	told := fmt.Sprintf("%s after %s", inc.Outcome, inc.EndTime.Sub(inc.StartTime.Time).Round(100*time.Millisecond))
	if inc.Outcome != v1alpha1.OutcomeRecovered {
		return fmt.Errorf("incident %d: %s: %s", inc.ID, told, inc.Message)
	}
	fmt.Fprintln(out, told+restarts.WithoutCheckpoint(inc))
	return nil
}

// await reads a job until it is as wanted. The error is one of wait.Interrupted where that takes too long.
func (r *restartRequest) await(ctx context.Context, c *cluster, name string, timeout time.Duration, wanted func(*v1alpha1.TrainingJob) bool) (job *v1alpha1.TrainingJob, err error) {
	err = wait.PollUntilContextTimeout(ctx, pollInterval, timeout, true, func(ctx context.Context) (bool, error) {
		job, err = c.job(ctx, name)
		return err == nil && wanted(job), err
	})
	return job, err
}
