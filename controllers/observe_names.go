// Pods that the cache does not show, and names of pods that are taken.

package controllers

import (
	"context"
	"fmt"
	"math"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/controllers/writes"
	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// observeMissing looks at the API server for pods that the cache does not show, and that would count as deleted. The cache of a
// process that has just started may be older than the status.
func (r *TrainingJobReconciler) observeMissing(ctx context.Context, o *gang.Observation) error {
	names := policies.MissingPods(o)
	found := make([]corev1.Pod, len(names))
	lookups := make([]int, len(names))
	for i := range lookups {
		lookups[i] = i
	}
	err := writes.Each(ctx, r.Writers, lookups, func(i int) error {
		return client.IgnoreNotFound(r.Live.Get(ctx, client.ObjectKey{Namespace: o.Job.Namespace, Name: names[i]}, &found[i]))
	})
	if err != nil {
		return fmt.Errorf("get pods that the cache does not show: %w", err)
	}
	for i := range found {
		if isPodOf(&found[i], o.Job) {
			o.Pods = append(o.Pods, podFor(o.Job, &found[i]))
			gang.Place(o.Pods[len(o.Pods)-1:], &o.Job.Status)
		}
	}
	return nil
}

func isPodOf(pod *corev1.Pod, job *v1alpha1.TrainingJob) bool {
	return pod.Labels[v1alpha1.LabelUID] == string(job.UID)
}

// observeTaken finds the last attempt of an earlier TrainingJob of this name that still has pods. Those on a node that does not
// answer may stay for long.
func (r *TrainingJobReconciler) observeTaken(ctx context.Context, o *gang.Observation) error {
	if o.Job.Status.Attempt > 0 {
		return nil
	}
	list := &corev1.PodList{}
	err := r.List(ctx, list, client.InNamespace(o.Job.Namespace), client.MatchingLabels{v1alpha1.LabelJob: o.Job.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return fmt.Errorf("list pods of an earlier job of this name: %w", err)
	}
	for i := range list.Items {
		pod := &list.Items[i]
		attempt := numberOf(pod.Labels[v1alpha1.LabelAttempt])
		isNamed := strings.HasPrefix(pod.Name, gang.VolcanoJobName(o.Job, attempt)+"-")
		if !isPodOf(pod, o.Job) && isNamed && attempt < math.MaxInt32/2 {
			o.TakenAttempt = max(o.TakenAttempt, attempt)
		}
	}
	return nil
}

// takenName returns which pod has the name of one that the gang lacks; empty for none. Volcano passes over such a pod without an
// event (createJobPod in 1.14.1).
func (r *TrainingJobReconciler) takenName(ctx context.Context, o *gang.Observation) (string, error) {
	has := map[string]bool{}
	for i := range o.Pods {
		has[o.Pods[i].Name] = true
	}
	var lacking []string
	gang.EachRank(gang.Effective(o.Job, &o.Job.Status), func(rank gang.Rank) {
		name := gang.PodNameOf(o.Job, &o.Job.Status, rank)
		if len(lacking) < maxEventLookups && !has[name] {
			lacking = append(lacking, name)
		}
	})
	for _, name := range lacking {
		pod := &corev1.Pod{}
		if err := r.Live.Get(ctx, client.ObjectKey{Namespace: o.Job.Namespace, Name: name}, pod); err != nil {
			if client.IgnoreNotFound(err) != nil {
				return "", fmt.Errorf("get pod %s: %w", name, err)
			}
			continue
		}
		if !isPodOf(pod, o.Job) {
			return fmt.Sprintf("a pod named %s exists on node %q and is not this TrainingJob's: delete it, or choose another name", name, pod.Spec.NodeName), nil
		}
	}
	return "", nil
}
