// Every kind of write in a whole life of a job goes wrong, once, in every way: it is made, resized, fails for good, and is removed in the end.

package chaos

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

func TestEveryWriteOfALifeGoesWrongOnce(t *testing.T) {
	for name, f := range faults {
		t.Run(name, func(t *testing.T) {
			l := newLane(t, "life-"+name, 1, 3)
			calls := l.wholeLife(target{}, fault{})
			l.eachRight(calls, notYet, f, func(right string, f fault) { l.wholeLife(target{right: right}, f) })
		})
	}
}

// wholeLife goes through the life of one job, of which a call breaks, and returns its calls.
func (l *lane) wholeLife(at target, f fault) []call {
	l.t.Helper()
	l.wire.arm(at, f)
	l.strikes++
	l.run(l.trainingJob(2, func(j *v1alpha1.TrainingJob) {
		j.Name = fmt.Sprintf("job-%d", l.strikes)
		j.Spec.TTLSecondsAfterFinished = ptr.To[int32](1)
		j.Spec.Tasks[0].MinReplicas, j.Spec.Tasks[0].MaxReplicas = ptr.To[int32](2), ptr.To[int32](3)
		j.Spec.RestartPolicy.Rules = []v1alpha1.Rule{{
			Name:  "final",
			Match: v1alpha1.Match{Events: []v1alpha1.EventType{v1alpha1.AnyEvent}},
			Steps: []v1alpha1.Step{{Action: v1alpha1.FailJob}},
		}}
	}))
	patch := client.MergeFrom(l.job.DeepCopy())
	l.job.Spec.Tasks[0].Replicas = 3
	l.must(testCluster.Client().Patch(l.ctx, l.job, patch), "ask for a third rank")
	l.await("three ranks run", func() bool { return l.job.Status.State == v1alpha1.StateRunning && l.job.Status.Ready == "3/3" })

	l.must(testCluster.FailPod(l.ctx, keyOf(l.ranks()[1]), 1), "fail a rank")
	l.removed()
	calls := l.wire.seen()
	l.wire.arm(target{}, fault{})
	if held := l.held(); len(held) > 0 {
		l.t.Errorf("the job is gone, and nodes %v are held", held)
	}
	return calls
}

// removed waits until nothing is left of the job.
func (l *lane) removed() {
	l.t.Helper()
	l.awaitAny("the job is gone", func(ctx context.Context) (bool, error) {
		if l.life.over() {
			l.restart()
		}
		err := testCluster.Client().Get(ctx, client.ObjectKeyFromObject(l.job), &v1alpha1.TrainingJob{})
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
	l.awaitAny("all that it owned is gone", func(ctx context.Context) (bool, error) {
		pods, jobs := &corev1.PodList{}, &batch.JobList{}
		if err := testCluster.Client().List(ctx, pods, client.InNamespace(l.pool.Name)); err != nil {
			return false, err
		}
		err := testCluster.Client().List(ctx, jobs, client.InNamespace(l.pool.Name))
		return len(pods.Items)+len(jobs.Items) == 0, err
	})
}
