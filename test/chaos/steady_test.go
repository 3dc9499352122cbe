// Where nothing changes, nothing is written.

package chaos

import (
	"context"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

func TestNewOperatorWritesNothing(t *testing.T) {
	l := newLane(t, "steady", 2, 4)
	l.run(l.trainingJob(3, func(j *v1alpha1.TrainingJob) { j.Spec.Hold = &v1alpha1.Hold{Policy: v1alpha1.HoldAlways} }))
	l.writesNothing()

	l.suspend(true)
	l.await("the job is suspended", func() bool { return l.job.Status.State == v1alpha1.StateSuspended })
	l.awaitAny("its pods are gone", func(context.Context) (bool, error) { return len(l.pods()) == 0, nil })
	l.idle()
	l.writesNothing()

	l.suspend(false)
	l.await("the job runs again", func() bool { return l.job.Status.State == v1alpha1.StateRunning })
	l.idle()
	l.writesNothing()

	for _, p := range l.ranks() {
		l.must(testCluster.SucceedPods(l.ctx, keyOf(p)), "let a pod succeed")
	}
	l.await("the job is completed", func() bool { return l.job.Status.State == v1alpha1.StateCompleted })
	l.idle()
	l.writesNothing()
}

func (l *lane) suspend(value bool) {
	l.t.Helper()
	patch := client.MergeFrom(l.job.DeepCopy())
	l.job.Spec.Suspend = value
	l.must(testCluster.Client().Patch(l.ctx, l.job, patch), "set suspend")
}

// writesNothing starts a new operator over a job that is as it should be: every
// object is seen again, and none is written.
func (l *lane) writesNothing() {
	l.t.Helper()
	l.restart()
	l.wire.arm(target{}, fault{})
	l.idle()
	l.replay()
	if w := l.wire.writes(); len(w) > 0 {
		l.t.Errorf("a new operator wrote over a job in state %s: %v", l.job.Status.State, w)
	}
}
