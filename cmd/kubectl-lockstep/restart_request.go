// The request that restart and migrate write, and what becomes of it.

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/capacity"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/why"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/incident"
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
	wait, force bool
	timeout     time.Duration
	dryRun      dryRun
	// node is the node whose ranks are moved; empty where they are named.
	node string
	// choose decides on the action, and on the ranks that it is about. The arguments name some.
	choose func(job *v1alpha1.TrainingJob, named []gang.Rank) ([]gang.Rank, error)
}

func oneOrMoreNames(_ *cobra.Command, names []string) error {
	if len(names) == 0 {
		return errNoName
	}
	return nil
}

// setUp gives a command what restart and migrate have in common.
func (r *restartRequest) setUp(c *cobra.Command, streams genericiooptions.IOStreams, flags *genericclioptions.ConfigFlags) {
	c.Annotations = needs(roleEdit)
	c.Args = oneOrMoreNames
	c.RunE = func(c *cobra.Command, args []string) error { return r.ask(c.Context(), streams.Out, flags, args) }
	c.Flags().StringVar(&r.Reason, "reason", "", "why, for people: the incident and its events repeat it; 256 characters at most")
	c.Flags().StringVar(&r.ID, "id", "", "the id of the request: the same id is not carried out twice in a row, so that a script may repeat the command. Default: a new one")
	c.Flags().BoolVar(&r.wait, "wait", false, "wait until all ranks are ready again")
	c.Flags().DurationVar(&r.timeout, "timeout", 30*time.Minute, "how long --wait waits, and the manager has to answer: that no more than 15s")
	r.dryRun.addFlag(c)
}

// ask writes a request, and prints what the manager makes of it.
func (r *restartRequest) ask(ctx context.Context, out io.Writer, flags *genericclioptions.ConfigFlags, args []string) error {
	c, err := newCluster(flags)
	if err != nil {
		return err
	}
	job, err := c.job(ctx, args[0])
	if err != nil {
		return err
	}
	if err := isOurs(job); err != nil {
		return err
	}
	var ranks []gang.Rank
	for _, name := range args[1:] {
		sub, err := why.Find(job, name)
		if err == nil {
			err = isPresent(job, sub)
		}
		if err != nil {
			return err
		}
		ranks = append(ranks, sub.Rank)
	}
	if ranks, err = r.choose(job, ranks); err != nil {
		return err
	}
	for _, rank := range ranks {
		if p := (v1alpha1.RequestedPod{Task: rank.Task, Index: rank.Index}); !slices.Contains(r.Pods, p) {
			r.Pods = append(r.Pods, p)
		}
	}
	r.ID = cmp.Or(r.ID, string(uuid.NewUUID()))
	if err := r.checkID(job); err != nil {
		return err
	}
	if !answered(job, r.ID) { // else it was asked for before
		if err := r.send(ctx, c, job, ranks); err != nil {
			return err
		}
		if r.dryRun != dryRunNone {
			fmt.Fprintf(out, "%s: %s requested%s\n", resourceName(job), r.story(), r.dryRun.suffix())
			return nil
		}
	}
	return r.follow(ctx, out, c, job.Name)
}

// answered reports whether the status has an answer to a request.
func answered(job *v1alpha1.TrainingJob, id string) bool {
	return job.Status.RestartRequest != nil && job.Status.RestartRequest.ID == id
}

// checkID returns an error where another request had the same id, as far as the job still has it in its spec or as an incident. A request
// that is made again is about the ranks that it was about at first.
func (r *restartRequest) checkID(job *v1alpha1.TrainingJob) error {
	used := func(was string) error {
		return fmt.Errorf("--id: %q was the id of %s: give %s an id of its own", r.ID, was, r.story())
	}
	switch was := job.Spec.RestartRequest; {
	case was != nil && was.ID == r.ID:
		if !r.repeats(was) {
			return used(story(was))
		}
		r.Pods = was.Pods
	case answered(job, r.ID):
		inc := incidentOf(job, job.Status.RestartRequest.Incident)
		if inc != nil && inc.RequestedAction != v1alpha1.Action(r.Action) {
			return used(string(inc.RequestedAction))
		}
	case r.node != "" && len(r.Pods) == 0:
		return fmt.Errorf("--node: no rank of TrainingJob %s is on node %q: `kubectl lockstep map %s` shows where they are", job.Name, r.node, job.Name)
	}
	return nil
}

// repeats reports whether the request is one that was made before: the same action for the same ranks, in any order. Of the ranks of a node,
// some or all may have moved since.
func (r *restartRequest) repeats(was *v1alpha1.RestartRequest) bool {
	ranks, before := sets.New(r.Pods...), sets.New(was.Pods...)
	return r.Action == was.Action && before.IsSuperset(ranks) && (r.node != "" || len(ranks) == len(before))
}

// story is what the request asks for.
func (r *restartRequest) story() string {
	if r.node != "" && len(r.Pods) == 0 {
		return fmt.Sprintf("%s of the ranks that were on node %s", r.Action, r.node)
	}
	return story(&r.RestartRequest)
}

// incidentOf is the incident of a job with an id; nil where its status does not have it any more.
func incidentOf(job *v1alpha1.TrainingJob, id int32) *v1alpha1.Incident {
	for i := range job.Status.Incidents {
		if job.Status.Incidents[i].ID == id {
			return &job.Status.Incidents[i]
		}
	}
	return nil
}

// story is what a request asks for.
func story(request *v1alpha1.RestartRequest) string {
	var names []string
	for _, p := range request.Pods {
		name := fmt.Sprintf("%s-%d", p.Task, p.Index)
		if request.Action == v1alpha1.RequestedAction(v1alpha1.RestartTask) {
			name = "task " + p.Task
		}
		names = append(names, name)
	}
	return fmt.Sprintf("%s of %s", request.Action, cmp.Or(strings.Join(names, ", "), "the whole job"))
}

func (r *restartRequest) send(ctx context.Context, c *cluster, job *v1alpha1.TrainingJob, ranks []gang.Rank) error {
	if err := r.check(ctx, c, job, ranks); err != nil {
		return err
	}
	was := job.DeepCopy()
	job.Spec.RestartRequest = &r.RestartRequest
	merge, err := client.MergeFromWithOptions(was, client.MergeFromWithOptimisticLock{}).Data(job)
	if err != nil {
		return err
	}
	job.Spec.RestartRequest = nil // the answer fills it
	err = c.patch(ctx, job, string(merge), r.dryRun)
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

// check returns an error where a job takes no request now, or where the request would gain nothing and --force is not given.
func (r *restartRequest) check(ctx context.Context, c *cluster, job *v1alpha1.TrainingJob, ranks []gang.Rank) error {
	pending := job.Spec.RestartRequest
	switch {
	case gang.Finished(&job.Status):
		return fmt.Errorf("TrainingJob %s has ended (%s): create a new one to train again", job.Name, job.Status.State)
	case job.Spec.Suspend:
		return fmt.Errorf("TrainingJob %s is suspended: `kubectl lockstep resume %s` creates all of its pods again", job.Name, job.Name)
	case pending != nil && pending.ID != r.ID && !answered(job, pending.ID):
		return fmt.Errorf("TrainingJob %s has a request that the manager has not seen yet (%s): `kubectl lockstep check` finds out whether the manager runs",
			job.Name, story(pending))
	case r.force:
		return nil
	}
	switch v1alpha1.Action(r.Action) {
	case v1alpha1.MigratePod:
		return c.checkRoom(ctx, job, ranks)
	case v1alpha1.RestartPod, v1alpha1.RelocateJob:
		return nil
	}
	for i := range job.Status.Incidents {
		if inc := &job.Status.Incidents[i]; inc.Outcome == "" && phaseOf(inc, c.clock.Now()) == incident.WaitForRoom {
			return fmt.Errorf("incident %d waits for a node, and until it has one the gang cannot train: %s would only restart ranks that are well. --force does it all the same; `kubectl lockstep why %s` says what is missing",
				inc.ID, r.Action, job.Name)
		}
	}
	return nil
}

// phaseOf is the phase in which an open incident is: WaitForRoom.
func phaseOf(inc *v1alpha1.Incident, now time.Time) incident.Phase {
	phases := incident.PhasesAt(inc, now)
	if len(phases) == 0 {
		return ""
	}
	return phases[len(phases)-1].Phase
}

// checkRoom refuses to move ranks that run where no other node of their home has room for one: they would wait, and their gang with
// them. A spare is such room for ranks of its own task. Who may not read nodes, or the pods of all namespaces, is not told.
func (c *cluster) checkRoom(ctx context.Context, job *v1alpha1.TrainingJob, ranks []gang.Rank) error {
	var tasks, left, names []string
	for _, rank := range ranks {
		if !hasSpare(job, rank.Task) {
			tasks, left, names = append(tasks, rank.Task), append(left, gang.NodeOf(job.Status.Placement, rank)), append(names, why.Name(rank))
		}
	}
	if len(names) == 0 {
		return nil
	}
	known := c.capacity(ctx, job)
	usage, err := c.usage(ctx, nil)
	if err != nil || len(known.Nodes) == 0 || len(capacity.Elsewhere(job, tasks, left, known, usage)) > 0 {
		return nil //nolint:nilerr // The request does not need to know.
	}
	home := "the cluster"
	if p := job.Status.Placement; p != nil && p.HyperNode != "" {
		home = "HyperNode " + p.HyperNode
	}
	return fmt.Errorf("no other node of %s has room for %s now: it would wait for one, and the gang with it. --force moves it all the same, and --all the whole job to another HyperNode",
		home, strings.Join(names, ", "))
}

// hasSpare reports whether a spare of a task holds a node.
func hasSpare(job *v1alpha1.TrainingJob, task string) bool {
	return slices.ContainsFunc(job.Spec.Tasks, func(t v1alpha1.Task) bool {
		return t.Name == task && gang.ReadySpares(&job.Status, &t) > 0
	})
}

// ranksOn are the ranks of a job that are on a node, by its status.
func ranksOn(job *v1alpha1.TrainingJob, node string) []gang.Rank {
	var out []gang.Rank
	gang.EachRank(gang.Effective(job, &job.Status), func(r gang.Rank) {
		if gang.NodeOf(job.Status.Placement, r) == node {
			out = append(out, r)
		}
	})
	return out
}

// isPresent returns an error for a pod of another attempt than the job's: what was seen of it says nothing of the pod that its rank has now.
func isPresent(job *v1alpha1.TrainingJob, sub why.Subject) error {
	if now := max(1, job.Status.Attempt); sub.Attempt != now {
		return fmt.Errorf("pod %s is of attempt %d, and TrainingJob %s is in attempt %d: its rank is %s", sub.Pod, sub.Attempt, job.Name, now, why.Name(sub.Rank))
	}
	return nil
}

// follow prints which incident carries the request out, and with --wait how that ends.
func (r *restartRequest) follow(ctx context.Context, out io.Writer, c *cluster, name string) error {
	timeout := min(r.timeout, answerTimeout)
	job, err := r.await(ctx, c, name, timeout, func(job *v1alpha1.TrainingJob) bool { return answered(job, r.ID) })
	if ctx.Err() == nil && wait.Interrupted(err) {
		return fmt.Errorf("the manager has not answered for %s. The request stays, and is carried out once it does: `kubectl lockstep check` finds out whether the manager runs", timeout)
	}
	if err != nil {
		return err
	}
	answer := job.Status.RestartRequest
	if answer.Message != "" {
		return fmt.Errorf("%s is refused: %s", r.story(), answer.Message)
	}
	fmt.Fprintf(out, "%s: %s is incident %d\n", resourceName(job), r.story(), answer.Incident)
	if job.Annotations[v1alpha1.DryRun] == "true" {
		fmt.Fprintf(out, "It is only recorded: the job has the annotation %s.\n", v1alpha1.DryRun)
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
	var inc *v1alpha1.Incident
	_, err := r.await(ctx, c, name, r.timeout, func(job *v1alpha1.TrainingJob) bool {
		if inc = incidentOf(job, id); inc == nil || inc.Outcome != "" {
			return true
		}
		if now := fmt.Sprintf("%s, %s", job.Status.State, phaseOf(inc, c.clock.Now())); now != stage {
			stage = now
			fmt.Fprintf(out, "%s, %s ready\n", stage, job.Status.Ready)
		}
		return false
	})
	switch {
	case ctx.Err() == nil && wait.Interrupted(err):
		return fmt.Errorf("it was not over after %s (--timeout): `kubectl lockstep timeline %s` shows how far it is", r.timeout, name)
	case err != nil:
		return err
	case inc == nil:
		return fmt.Errorf("incident %d of TrainingJob %s is over, and how it ended is not known: its status keeps the last incidents only", id, name)
	}
	outcome := fmt.Sprintf("%s after %s", inc.Outcome, inc.EndTime.Sub(inc.StartTime.Time).Round(100*time.Millisecond))
	if inc.Outcome != v1alpha1.OutcomeRecovered {
		return fmt.Errorf("incident %d: %s: %s", inc.ID, outcome, lines.Plain(inc.Message))
	}
	if inc.Checkpoint != nil {
		outcome += ", " + incident.CheckpointStory(inc.Checkpoint)
	}
	fmt.Fprintln(out, outcome)
	return nil
}

// await reads a job until it is as wanted, also if the API server does not answer meanwhile. The error is one of wait.Interrupted where that takes too long, or the command is interrupted.
func (r *restartRequest) await(ctx context.Context, c *cluster, name string, timeout time.Duration, wanted func(*v1alpha1.TrainingJob) bool) (job *v1alpha1.TrainingJob, err error) {
	var unread error
	err = wait.PollUntilContextTimeout(ctx, pollInterval, timeout, true, func(ctx context.Context) (bool, error) {
		job, err = c.job(ctx, name)
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
			return false, err
		}
		if ctx.Err() == nil {
			unread = err
		}
		return err == nil && wanted(job), nil
	})
	if wait.Interrupted(err) && unread != nil && ctx.Err() == nil {
		err = unread
	}
	return job, err
}
