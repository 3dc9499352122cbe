// Refresh: Volcano looks again on which nodes a gang runs when the subGroupPolicy of its PodGroup changes.

package controllers

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/controllers/writes"
	"github.com/lockstep-dev/lockstep/policies"
)

// refreshPolicy is the name of a subGroupPolicy that selects no pod. Volcano's job controller keeps to those that are named
// after tasks, and a task's name has no dot (updatePgSubGroupPolicy in volcano pkg/controllers/job/job_controller_actions.go).
const refreshPolicy = "lockstep.dev/refresh"

// annotationRefreshedTime is on a PodGroup: what the last refresh is remembered by (Refresh.Time), RFC 3339 with nanoseconds.
const annotationRefreshedTime = "lockstep.dev/refreshed-time"

func isRefreshPolicy(p scheduling.SubGroupPolicySpec) bool { return p.Name == refreshPolicy }

func refreshing(pg *scheduling.PodGroup) bool {
	return slices.ContainsFunc(pg.Spec.SubGroupPolicy, isRefreshPolicy)
}

// refreshedTime is what the last refresh is remembered by; zero where there was none.
func refreshedTime(pg *scheduling.PodGroup) time.Time {
	at, err := time.Parse(time.RFC3339, pg.Annotations[annotationRefreshedTime])
	if err != nil {
		return time.Time{}
	}
	return at
}

// refresh takes one step of a refresh. The PodGroup's event brings the job back for the next.
func (a *actor) refresh(ctx context.Context, r policies.Refresh) error {
	pg := &scheduling.PodGroup{}
	if err := a.Get(ctx, client.ObjectKey{Namespace: a.job.Namespace, Name: a.seen.PodGroup.Name}, pg); err != nil {
		return client.IgnoreNotFound(err)
	}
	before := pg.DeepCopy()
	pg.Spec.SubGroupPolicy = slices.DeleteFunc(pg.Spec.SubGroupPolicy, isRefreshPolicy)
	if r.Step == policies.RefreshBegin {
		pg.Spec.SubGroupPolicy = append(pg.Spec.SubGroupPolicy, scheduling.SubGroupPolicySpec{
			Name:          refreshPolicy,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{v1alpha1.LabelUID: "none"}},
		})
		metav1.SetMetaDataAnnotation(&pg.ObjectMeta, annotationRefreshedTime, r.Time.UTC().Format(time.RFC3339Nano))
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := writes.Overtaken(a.Patch(ctx, pg, patch)); err != nil {
		return fmt.Errorf("have Volcano look at PodGroup %s again: %w", pg.Name, err)
	}
	return nil
}
