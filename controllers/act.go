// Act: the plan, carried out. Each action is safe to repeat, and one that finds
// the world changed under it leaves the rest to the next pass.

package controllers

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	bus "volcano.sh/apis/pkg/apis/bus/v1alpha1"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/controllers/volcano"
	"github.com/lockstep-dev/lockstep/controllers/writes"
	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/incident"
	"github.com/lockstep-dev/lockstep/policies/placement"
)

// actor carries out the plan for one job.
type actor struct {
	*TrainingJobReconciler
	job     *v1alpha1.TrainingJob // at the size that it has now
	attempt int32
	seen    *gang.Observation
	held    []v1alpha1.NodeHold
	lifted  liftedPods
}

// act carries out a plan. Nothing is deleted where a hold is missing that may be put in a moment.
func (r *TrainingJobReconciler) act(ctx context.Context, job *v1alpha1.TrainingJob, o *gang.Observation, status *v1alpha1.TrainingJobStatus) error {
	plan := policies.PlanFor(o, status)
	a := actor{TrainingJobReconciler: r, job: gang.Effective(job, status), attempt: status.Attempt, seen: o, held: status.Holds}
	waiting, err := a.holdNodes(ctx, plan.Hold)
	plan.DeletePods, plan.Evictable = allowed(plan.DeletePods, waiting), allowed(plan.Evictable, waiting)
	if len(waiting) > 0 {
		plan.DeleteVolcanoJobs = nil // their pods go with them
	}
	a.order(&plan)
	errs := []error{
		err,
		writes.Each(ctx, r.Writers, plan.Evictable, func(d policies.PodDeletion) error { return a.letEvict(ctx, d) }),
		writes.Each(ctx, r.Writers, plan.DeletePods, func(d policies.PodDeletion) error { return a.deletePod(ctx, d) }),
		writes.Each(ctx, r.Writers, plan.DeleteVolcanoJobs, func(name string) error { return a.deleteVolcanoJob(ctx, name) }),
	}
	if plan.Stop != "" {
		errs = append(errs, a.stop(ctx, plan.Stop))
	}
	if plan.Create {
		errs = append(errs, a.create(ctx))
	}
	if plan.Resize != nil {
		errs = append(errs, a.resize(ctx, plan.Resize))
	}
	if plan.Sync {
		errs = append(errs, a.sync(ctx))
	}
	if plan.Admit {
		errs = append(errs, a.admit(ctx))
	}
	if plan.Protect != nil {
		errs = append(errs, a.protect(ctx, plan.Protect))
	}
	if plan.Refresh.Step != "" {
		errs = append(errs, a.refresh(ctx, plan.Refresh))
	}
	errs = append(errs,
		writes.Each(ctx, r.Writers, plan.Lift, func(l policies.Lift) error { return a.lift(ctx, l) }),
		writes.Each(ctx, r.Writers, plan.Tolerate, func(t placement.Toleration) error { return a.tolerate(ctx, t) }),
		a.bind(ctx, plan.Bind),
		writes.Each(ctx, r.Writers, plan.Relabel, func(l policies.Relabel) error { return a.relabel(ctx, l) }),
		writes.Each(ctx, r.Writers, plan.Release, func(node string) error { return a.release(ctx, node) }),
	)
	r.checkpoints.keep(client.ObjectKeyFromObject(job), incident.Requests(job, status))
	for _, ask := range plan.Ask {
		r.checkpoints.send(client.ObjectKeyFromObject(job), ask, ask.Deadline.Sub(o.Now))
	}
	return errors.Join(errs...)
}

// deletePod deletes a pod. The cache may not show for a while that this process has deleted it.
func (a *actor) deletePod(ctx context.Context, d policies.PodDeletion) error {
	m := a.memoryOf(a.job)
	if !d.Force && m.deleted.of(d.UID) {
		return nil
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: a.job.Namespace, Name: d.Name}}
	var options []client.DeleteOption
	seen := client.Preconditions{UID: new(types.UID(d.UID)), ResourceVersion: &d.Version}
	if d.Force {
		if err := a.confirmNode(ctx, a.seen, d.Node); err != nil {
			return fmt.Errorf("delete pod %s, whose node is dead: %w", d.Name, err)
		}
		options = append(options, client.GracePeriodSeconds(0))
		seen.ResourceVersion = nil
	}
	err := a.Delete(ctx, pod, append(options, seen)...)
	if err != nil && !d.Force { // it may have changed since it was seen, and have ended before its node was held
		m.vacated.note(d.Node, a.held)
	}
	if apierrors.IsConflict(err) {
		seen.ResourceVersion = nil
		err = a.Delete(ctx, pod, append(options, seen)...)
	}
	if writes.Overtaken(err) != nil {
		return fmt.Errorf("delete pod %s: %w", d.Name, err)
	}
	if err == nil {
		m.deleted.note(d.UID, true)
	}
	return nil
}

func (a *actor) deleteVolcanoJob(ctx context.Context, name string) error {
	v := &batch.Job{ObjectMeta: metav1.ObjectMeta{Namespace: a.job.Namespace, Name: name}}
	if err := writes.Overtaken(a.Delete(ctx, v, client.PropagationPolicy(metav1.DeletePropagationBackground))); err != nil {
		return fmt.Errorf("delete Volcano Job %s: %w", name, err)
	}
	return nil
}

// create makes the Volcano Job of the attempt. Why it was refused, if it was, is
// kept for the condition that tells the user.
func (a *actor) create(ctx context.Context) error {
	if a.job.Spec.Supervisor != nil && a.Supervision == nil {
		a.memoryOf(a.job).refused = noSupervision
		return refusedError{errors.New(noSupervision)}
	}
	v := volcano.Render(a.job, a.attempt, a.supervision())
	err := a.Create(ctx, v)
	if apierrors.IsAlreadyExists(err) {
		return a.adopted(ctx, v.Name)
	}
	m := a.memoryOf(a.job)
	if isDenied(err) {
		m.refused = refusal(err)
		return refusedError{fmt.Errorf("create Volcano Job %s: %w", v.Name, err)}
	}
	if err != nil {
		return fmt.Errorf("create Volcano Job %s: %w", v.Name, err)
	}
	m.refused = ""
	return nil
}

// noSupervision is why a job with a supervisor does not start where the manager has no part in that.
const noSupervision = "spec.supervisor needs a manager that supervisors can reach: start it with --supervisors-bind-address and --supervisor-image (supervisors.enabled=true in its chart), or create the job without supervisor"

// maxRefusal is how much is told of a refusal, in bytes.
const maxRefusal = 1024

// refusal is why a Volcano Job was refused, as a webhook says it, without the name of the webhook before it and what Volcano's puts
// after it.
func refusal(err error) string {
	why := err.Error()
	if _, after, byWebhook := strings.Cut(why, " denied the request: "); byWebhook {
		why = strings.TrimRight(after, "; ")
	}
	why = strings.ReplaceAll(why, "spec.task[", "spec.tasks[") // as the TrainingJob has it
	return "the Volcano Job is refused: " + cut(why, maxRefusal) + refusalAdvice(why)
}

// refusalAdvice says what to do about a refusal, as far as that can be known.
func refusalAdvice(why string) string {
	switch {
	case strings.Contains(why, "LOCKSTEP_"):
		return ". Lockstep sets the variables LOCKSTEP_* itself: delete the TrainingJob, and create it again without them"
	case strings.Contains(why, "spec.tasks["):
		return ". A template cannot be changed: delete the TrainingJob, and create it again"
	}
	return ""
}

// adopted is nil where the Volcano Job of that name is ours, and the cache had just not seen it.
func (a *actor) adopted(ctx context.Context, name string) error {
	v := &batch.Job{}
	if err := a.Live.Get(ctx, client.ObjectKey{Namespace: a.job.Namespace, Name: name}, v); err != nil {
		return fmt.Errorf("get Volcano Job %s: %w", name, err)
	}
	if ownedBy(v, a.job) {
		a.memoryOf(a.job).refused = ""
		return nil
	}
	message := fmt.Sprintf("a Volcano Job named %s exists and is not this TrainingJob's: delete it, or choose another name", name)
	a.memoryOf(a.job).refused = message
	return refusedError{errors.New(message)}
}

// resize changes how many pods the Volcano Job asks for: all that its admission lets change.
func (a *actor) resize(ctx context.Context, size *gang.Size) error {
	v := &batch.Job{}
	name := gang.VolcanoJobName(a.job, a.attempt)
	if err := a.Get(ctx, client.ObjectKey{Namespace: a.job.Namespace, Name: name}, v); err != nil {
		return client.IgnoreNotFound(err)
	}
	before := v.DeepCopy()
	v.Spec.MinAvailable = size.MinAvailable
	for i := range v.Spec.Tasks {
		v.Spec.Tasks[i].Replicas = size.Replicas[v.Spec.Tasks[i].Name]
	}
	volcano.ShareGang(&v.Spec, a.job)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := writes.Overtaken(a.Patch(ctx, v, patch)); err != nil {
		return fmt.Errorf("resize Volcano Job %s: %w", name, err)
	}
	return nil
}

// stop asks Volcano to stop the job and keep the pods that have ended, and their logs.
func (a *actor) stop(ctx context.Context, how policies.Stop) error {
	action := bus.CompleteJobAction
	if how == policies.StopFailed {
		action = bus.TerminateJobAction
	}
	_, err := a.command(ctx, "stop", action, string(how))
	return err
}

// sync asks Volcano to look at its Job again, which it has forgotten.
func (a *actor) sync(ctx context.Context) error {
	made, err := a.command(ctx, "sync", bus.SyncJobAction, v1alpha1.ReasonPodsNotCreated)
	if err == nil {
		a.memoryOf(a.job).lack.noteSync(a.seen.Now, made)
	}
	return err
}

// command gives Volcano a command for the Volcano Job of the attempt. Volcano deletes a command before it obeys it, so
// that one which is still there need not be given again: none is made.
func (a *actor) command(ctx context.Context, suffix string, action bus.Action, reason string) (made bool, err error) {
	v := &batch.Job{}
	name := gang.VolcanoJobName(a.job, a.attempt)
	if err := a.Get(ctx, client.ObjectKey{Namespace: a.job.Namespace, Name: name}, v); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	owner := metav1.NewControllerRef(v, batch.SchemeGroupVersion.WithKind("Job"))
	command := &bus.Command{
		ObjectMeta:   metav1.ObjectMeta{Namespace: v.Namespace, Name: v.Name + "-" + suffix, OwnerReferences: []metav1.OwnerReference{*owner}},
		Action:       string(action),
		TargetObject: owner,
		Reason:       reason,
	}
	err = a.Create(ctx, command)
	if client.IgnoreAlreadyExists(err) != nil {
		return false, fmt.Errorf("%s Volcano Job %s: %w", suffix, name, err)
	}
	return err == nil, nil
}

// admit puts the gang's PodGroup back in the place in the queue that it had: its
// CRD has no status subresource, so the status goes with an ordinary patch.
func (a *actor) admit(ctx context.Context) error {
	pg := &scheduling.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: a.job.Namespace, Name: a.seen.PodGroup.Name}}
	patch := fmt.Appendf(nil, `{"status":{"phase":%q}}`, scheduling.PodGroupInqueue)
	if err := writes.Overtaken(a.Patch(ctx, pg, client.RawPatch(types.MergePatchType, patch))); err != nil {
		return fmt.Errorf("admit PodGroup %s: %w", pg.Name, err)
	}
	return nil
}
