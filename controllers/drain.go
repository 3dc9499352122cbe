// Drains: the PodDisruptionBudget of a job that moves its ranks from cordoned nodes.

package controllers

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// budgetName is the name of the PodDisruptionBudget of a job.
func budgetName(job *v1alpha1.TrainingJob) string { return job.Name + "-lockstep" }

// observeBudget adds which pods the job's PodDisruptionBudget protects.
func (r *TrainingJobReconciler) observeBudget(ctx context.Context, o *gang.Observation) error {
	budget := &policy.PodDisruptionBudget{}
	err := r.Get(ctx, client.ObjectKey{Namespace: o.Job.Namespace, Name: budgetName(o.Job)}, budget)
	if err != nil || !ownedBy(budget, o.Job) || budget.Spec.Selector == nil {
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("get the PodDisruptionBudget: %w", err)
		}
		return nil
	}
	opens := false // one of an earlier version does not
	for _, e := range budget.Spec.Selector.MatchExpressions {
		switch e.Key {
		case v1alpha1.LabelEvictableSince:
			opens = true
		case v1alpha1.LabelTask:
			o.ProtectedTasks = slices.Sorted(slices.Values(e.Values))
		case batch.TaskIndex:
			o.UnprotectedIndexes = slices.Sorted(slices.Values(e.Values))
		}
	}
	if !opens {
		o.ProtectedTasks = nil
	}
	return nil
}

// protect has the job's PodDisruptionBudget keep some ranks from eviction, all of them, or no longer be there.
func (a *actor) protect(ctx context.Context, p *policies.Protection) error {
	budget := a.budget(p)
	if len(p.Tasks) == 0 {
		err := client.IgnoreNotFound(a.Delete(ctx, budget))
		return a.noteBudget(err, "drains may wait for ranks that no rule moves, since PodDisruptionBudget "+budget.Name+" cannot be deleted")
	}
	err := a.Create(ctx, budget)
	if apierrors.IsAlreadyExists(err) { // for other pods
		err = a.replaceBudget(ctx, budget)
	}
	return a.noteBudget(err, "drains may evict ranks before they have moved, since PodDisruptionBudget "+budget.Name+" cannot be written")
}

// budget is the PodDisruptionBudget that keeps some ranks from eviction, all of them.
func (a *actor) budget(p *policies.Protection) *policy.PodDisruptionBudget {
	selected := []metav1.LabelSelectorRequirement{
		{Key: v1alpha1.LabelTask, Operator: metav1.LabelSelectorOpIn, Values: p.Tasks},
		{Key: v1alpha1.LabelSpare, Operator: metav1.LabelSelectorOpNotIn, Values: []string{"true"}},
		{Key: v1alpha1.LabelEvictableSince, Operator: metav1.LabelSelectorOpDoesNotExist},
	}
	if len(p.Except) > 0 {
		selected = append(selected, metav1.LabelSelectorRequirement{Key: batch.TaskIndex, Operator: metav1.LabelSelectorOpNotIn, Values: p.Except})
	}
	return &policy.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: a.job.Namespace, Name: budgetName(a.job),
			Labels:          map[string]string{v1alpha1.LabelJob: a.job.Name, v1alpha1.LabelUID: string(a.job.UID)},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(a.job, v1alpha1.GroupVersion.WithKind("TrainingJob"))},
		},
		Spec: policy.PodDisruptionBudgetSpec{
			// A percentage would need a controller that Kubernetes knows. Of what is more than there are none may go.
			MinAvailable: new(intstr.FromInt32(math.MaxInt32)),
			// One that is not ready is broken, and its rank moves when it is restarted.
			UnhealthyPodEvictionPolicy: new(policy.AlwaysAllow),
			Selector: &metav1.LabelSelector{
				MatchLabels: map[string]string{v1alpha1.LabelUID: string(a.job.UID)}, MatchExpressions: selected,
			},
		},
	}
}

// evictableFrom is from when on a drain may evict a pod, as its label says; zero for a pod without.
func evictableFrom(pod *corev1.Pod) time.Time {
	seconds, err := strconv.ParseInt(pod.Labels[v1alpha1.LabelEvictableSince], 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.Unix(seconds, 0)
}

// letEvict lets a drain evict a pod from now on.
func (a *actor) letEvict(ctx context.Context, d policies.PodDeletion) error {
	return a.label(ctx, d.Name, d.UID, v1alpha1.LabelEvictableSince, strconv.FormatInt(a.seen.Now.Unix(), 10))
}

// noteBudget returns what went wrong with the job's PodDisruptionBudget, if anything did. It tells the job's users of a refusal now and then.
func (a *actor) noteBudget(err error, harm string) error {
	m := a.memoryOf(a.job)
	if err == nil {
		m.unprotected = time.Time{}
		return nil
	}
	err = fmt.Errorf("%s: %w", harm, err)
	if !isDenied(err) && !isRefused(err) {
		return err
	}
	if a.seen.Now.Sub(m.unprotected) >= refusalRepeated {
		m.unprotected = a.seen.Now
		a.tell(a.job, corev1.EventTypeWarning, "PodDisruptionBudgetRefused", "Protect",
			fmt.Sprintf("%s. Change that, or the job's rules for NodeCordoned. The manager tries again every %s", cut(err.Error(), maxRefusal/2), maxRetry))
	}
	return refusedError{err}
}

// replaceBudget gives the job's PodDisruptionBudget, or the one that an earlier job of the name has left, another specification. One of somebody else stays as it is.
func (a *actor) replaceBudget(ctx context.Context, budget *policy.PodDisruptionBudget) error {
	was := &policy.PodDisruptionBudget{}
	if err := a.Live.Get(ctx, client.ObjectKeyFromObject(budget), was); err != nil { // the cache has only the job's own
		return err
	}
	if was.Labels[v1alpha1.LabelJob] != a.job.Name {
		return refusedError{errors.New("it is not this TrainingJob's: delete it, or give it another name")}
	}
	budget.ResourceVersion = was.ResourceVersion
	return a.Update(ctx, budget)
}
