// The reconciler of Workloads: one for each TrainingJob that names a queue of Kueue.

package kueue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/controllers/writes"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// asksAgain is after how long a prebuilt Workload is looked for again: no event of it names the job.
const asksAgain = 5 * time.Second

// Reconciler keeps the Workloads of TrainingJobs.
type Reconciler struct {
	// Client reads from a cache of the jobs of this manager, and of Workloads.
	client.Client
	// Live reads classes of priorities, of which the cache has none.
	Live client.Reader
	// Elsewhere reads the jobs that MultiKueue runs in other clusters: these get their Workloads here.
	Elsewhere client.Reader
	Events    events.EventRecorder
	Clock     clock.PassiveClock
}

// Reconcile takes the Workloads of one job one step further.
func (r *Reconciler) Reconcile(ctx context.Context, key ctrl.Request) (ctrl.Result, error) {
	job, err := r.read(ctx, key)
	if err != nil {
		return ctrl.Result{}, err
	}
	all := &WorkloadList{}
	if err := r.List(ctx, all, client.InNamespace(key.Namespace), client.MatchingFields{indexJob: key.Name}); err != nil {
		return ctrl.Result{}, fmt.Errorf("list Workloads: %w", err)
	}
	var own *Workload
	for i := range all.Items {
		if w := &all.Items[i]; job != nil && job.DeletionTimestamp.IsZero() && IsQueued(job) && w.Name == NameFor(job) && ownedBy(w, job) {
			own = w
		} else if err := r.dismiss(ctx, w, job); err != nil {
			return ctrl.Result{}, err
		}
	}
	switch {
	case job == nil || !IsQueued(job) || !job.DeletionTimestamp.IsZero():
		return ctrl.Result{}, nil
	case own == nil:
		return r.provide(ctx, job)
	}
	return r.advance(ctx, own, job)
}

// read is a job of this manager, or one that MultiKueue runs elsewhere; nil where there is neither.
func (r *Reconciler) read(ctx context.Context, key ctrl.Request) (*v1alpha1.TrainingJob, error) {
	for _, from := range []client.Reader{r.Client, r.Elsewhere} {
		job := &v1alpha1.TrainingJob{}
		err := from.Get(ctx, key.NamespacedName, job)
		if err == nil {
			return job, nil
		}
		if !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("get the job: %w", err)
		}
	}
	return nil, nil
}

func ownedBy(w *Workload, job *v1alpha1.TrainingJob) bool {
	uid, _ := w.owner()
	return uid == string(job.UID)
}

// dismiss deletes a Workload that its job does not ask for any more. The quota of one whose job is gone stays taken until its pods are.
func (r *Reconciler) dismiss(ctx context.Context, w *Workload, job *v1alpha1.TrainingJob) error {
	isOf := job != nil && ownedBy(w, job)
	if w.DeletionTimestamp.IsZero() {
		if isOf {
			return r.remove(ctx, w)
		}
		return nil
	}
	uid, _ := w.owner()
	running, err := r.running(ctx, w.Namespace, uid)
	if needsQuota := running && (!isOf || IsQueued(job)); err != nil || needsQuota {
		return err
	}
	return r.write(ctx, w, letGo)
}

func letGo(w *Workload) {
	w.Finalizers = slices.DeleteFunc(w.Finalizers, func(f string) bool { return f == Finalizer })
}

func (r *Reconciler) remove(ctx context.Context, w *Workload) error {
	if err := r.Delete(ctx, w, client.Preconditions{UID: &w.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete Workload %s: %w", w.Name, err)
	}
	return nil
}

// running reports whether pods of a job run here, or a Volcano Job may yet make some.
func (r *Reconciler) running(ctx context.Context, namespace, uid string) (bool, error) {
	is, err := r.runningBy(ctx, r.Client, namespace, uid)
	if err == nil && !is {
		is, err = r.runningBy(ctx, r.Live, namespace, uid) // the cache may have yet to show what has just been made
	}
	return is, err
}

func (r *Reconciler) runningBy(ctx context.Context, from client.Reader, namespace, uid string) (bool, error) {
	of := []client.ListOption{client.InNamespace(namespace), client.MatchingLabels{v1alpha1.LabelUID: uid}, client.UnsafeDisableDeepCopy}
	pods, jobs := &corev1.PodList{}, &batch.JobList{}
	if err := from.List(ctx, pods, of...); err != nil {
		return false, fmt.Errorf("list pods: %w", err)
	}
	if err := from.List(ctx, jobs, of...); err != nil {
		return false, fmt.Errorf("list Volcano Jobs: %w", err)
	}
	return slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool { return !hasEnded(&p) }) ||
		slices.ContainsFunc(jobs.Items, func(v batch.Job) bool { return !isOver(&v) }), nil
}

func hasEnded(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// isOver reports whether a Volcano Job makes no more pods.
func isOver(v *batch.Job) bool {
	switch v.Status.State.Phase {
	case batch.Aborted, batch.Completed, batch.Terminated, batch.Failed:
		return true
	}
	return false
}

// provide makes the Workload of a job, or takes the one that was made for it.
func (r *Reconciler) provide(ctx context.Context, job *v1alpha1.TrainingJob) (ctrl.Result, error) {
	if gang.Finished(&job.Status) || job.Spec.Suspend {
		return ctrl.Result{}, nil
	}
	if prebuilt(job) != "" {
		return r.adopt(ctx, job)
	}
	w := workloadFor(job)
	if err := r.prioritize(ctx, w, job); err != nil {
		return r.refused(job, err)
	}
	err := r.Create(ctx, w)
	if apierrors.IsAlreadyExists(err) {
		err = r.isOwn(ctx, job)
	}
	if err != nil {
		return r.refused(job, fmt.Errorf("create Workload %s: %w", w.Name, err))
	}
	return ctrl.Result{}, nil
}

// errTaken is that another owner has the Workload of a name.
var errTaken = errors.New("another owner has one of the name")

// isOwn returns an error where the Workload of a job's name is not its own. The cache may have yet to show one that is.
func (r *Reconciler) isOwn(ctx context.Context, job *v1alpha1.TrainingJob) error {
	w := &Workload{}
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: job.Namespace, Name: NameFor(job)}, w)
	if err == nil && !ownedBy(w, job) {
		return errTaken
	}
	return client.IgnoreNotFound(err)
}

// refused says why a job has no Workload, and has it tried again.
func (r *Reconciler) refused(job *v1alpha1.TrainingJob, err error) (ctrl.Result, error) {
	if apierrors.IsConflict(err) || apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err) {
		return ctrl.Result{}, err
	}
	r.Events.Eventf(job, nil, corev1.EventTypeWarning, "WorkloadRefused", "Queue", "%s", truncate(err.Error()))
	return ctrl.Result{RequeueAfter: triesAgain}, nil
}

// triesAgain is after how long something is tried again that was refused.
const triesAgain = 30 * time.Second

// maxNote is the most that an event takes, in bytes.
const maxNote = 1000

func truncate(text string) string { return text[:min(len(text), maxNote)] }

// adopt takes the Workload that was made for a job, unless it is another's.
func (r *Reconciler) adopt(ctx context.Context, job *v1alpha1.TrainingJob) (ctrl.Result, error) {
	w := &Workload{}
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: job.Namespace, Name: prebuilt(job)}, w) // the cache has no pods of Workloads without an owner
	if apierrors.IsNotFound(err) {
		return ctrl.Result{RequeueAfter: asksAgain}, nil
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("get Workload %s: %w", prebuilt(job), err)
	}
	if ownedBy(w, job) {
		return ctrl.Result{}, nil // the cache has yet to show it
	}
	if !w.isFree(job) {
		return r.refused(job, fmt.Errorf("take Workload %s, which the job names: it has an owner, has ended, or is for other pods", w.Name))
	}
	return ctrl.Result{}, r.write(ctx, w, func(w *Workload) {
		if !slices.Contains(w.Finalizers, Finalizer) {
			w.Finalizers = append(w.Finalizers, Finalizer)
		}
		w.OwnerReferences = append(w.OwnerReferences, ownerOf(job))
		w.Labels = join(w.Labels, map[string]string{LabelJobUID: string(job.UID)})
	})
}

// advance takes the Workload of a job one step further. One whose quota is for fewer pods, or others, goes, and the job gets another.
func (r *Reconciler) advance(ctx context.Context, w *Workload, job *v1alpha1.TrainingJob) (ctrl.Result, error) {
	if w.DeletionTimestamp.IsZero() && !w.is(ConditionFinished) && !gang.Finished(&job.Status) && prebuilt(job) == "" {
		if err := r.correct(ctx, w, job); err != nil {
			return ctrl.Result{}, err
		}
	}
	stopped, due, err := r.stopped(ctx, w, job)
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: due}, r.write(ctx, w, func(w *Workload) { w.advance(job, stopped, r.Clock.Now()) })
}

// stopped reports whether no pod of a job runs, nor will without another admission. Where only time tells, that is when to look again. A job that has quota is asked the API server
// about: the cache may still say that it is suspended.
func (r *Reconciler) stopped(ctx context.Context, w *Workload, job *v1alpha1.TrainingJob) (is bool, again time.Duration, err error) {
	if job.Spec.ManagedBy != "" {
		is, again = w.stoppedElsewhere(job, r.Clock.Now())
		return is, again, nil
	}
	rests := func(job *v1alpha1.TrainingJob) bool {
		return job.Status.State == v1alpha1.StateSuspended || gang.Finished(&job.Status)
	}
	if !rests(job) {
		return false, 0, nil
	}
	if !w.is(ConditionQuotaReserved) {
		return true, 0, nil
	}
	if running, err := r.running(ctx, job.Namespace, string(job.UID)); err != nil || running {
		return false, 0, err
	}
	live := &v1alpha1.TrainingJob{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(job), live); err != nil {
		return false, 0, fmt.Errorf("get the job from the API server: %w", err)
	}
	return live.UID == job.UID && rests(live), 0, nil
}

// correct makes a Workload ask for what its job does now.
func (r *Reconciler) correct(ctx context.Context, w *Workload, job *v1alpha1.TrainingJob) error {
	if w.is(ConditionQuotaReserved) {
		if w.isFor(job) {
			return nil
		}
		return r.remove(ctx, w)
	}
	changed := w.DeepCopy()
	changed.Spec.QueueName = job.Labels[LabelQueue]
	if !w.isFor(job) || !w.counts(job) {
		changed.Spec.PodSets = podSets(job)
	}
	if class := classOf(job); class == nil || w.Spec.PriorityClassRef == nil || *class != *w.Spec.PriorityClassRef {
		if err := r.prioritize(ctx, changed, job); err != nil {
			return err
		}
	}
	return r.write(ctx, w, func(w *Workload) { w.Spec = changed.Spec })
}

// write writes what changes in a Workload, unless somebody else has written it since it was read: then its event comes.
func (r *Reconciler) write(ctx context.Context, w *Workload, change func(*Workload)) error {
	changed := w.DeepCopy()
	change(changed)
	patch := client.MergeFromWithOptions(w.DeepCopy(), client.MergeFromWithOptimisticLock{})
	if !equality.Semantic.DeepEqual(w.Status, changed.Status) {
		if err := r.Status().Patch(ctx, changed, patch); writes.Overtaken(err) != nil {
			return fmt.Errorf("patch the status of Workload %s: %w", w.Name, err)
		}
		return nil // the rest follows the event
	}
	if !equality.Semantic.DeepEqual(w.Spec, changed.Spec) || !equality.Semantic.DeepEqual(w.ObjectMeta, changed.ObjectMeta) {
		if err := r.Patch(ctx, changed, patch); writes.Overtaken(err) != nil {
			return fmt.Errorf("patch Workload %s: %w", w.Name, err)
		}
	}
	return nil
}

// classOf is the class of a job's priority; nil for none.
func classOf(job *v1alpha1.TrainingJob) *PriorityClassRef {
	if name := job.Labels[LabelPriority]; name != "" {
		return &PriorityClassRef{Group: GroupVersion.Group, Kind: "WorkloadPriorityClass", Name: name}
	}
	if job.Spec.PriorityClassName != "" {
		return &PriorityClassRef{Group: schedulingv1.GroupName, Kind: "PriorityClass", Name: job.Spec.PriorityClassName}
	}
	return nil
}

// prioritize gives a Workload the priority of its job's class.
func (r *Reconciler) prioritize(ctx context.Context, w *Workload, job *v1alpha1.TrainingJob) error {
	w.Spec.PriorityClassRef, w.Spec.Priority = classOf(job), nil
	if w.Spec.PriorityClassRef == nil {
		return nil
	}
	key := client.ObjectKey{Name: w.Spec.PriorityClassRef.Name}
	if w.Spec.PriorityClassRef.Group == GroupVersion.Group {
		class := &WorkloadPriorityClass{}
		err := r.Live.Get(ctx, key, class)
		w.Spec.Priority = &class.Value
		return err
	}
	class := &schedulingv1.PriorityClass{}
	err := r.Live.Get(ctx, key, class)
	w.Spec.Priority = &class.Value
	return err
}
