// The job is deleted at every call of a recovery: nothing is left of it, on no node either.

package chaos

import (
	"context"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

func TestTheJobIsDeletedAtEveryCall(t *testing.T) {
	for _, scenario := range []string{"node", "gang", "step"} {
		t.Run(scenario, func(t *testing.T) {
			l, r := newLane(t, "deleted-"+scenario, 2, 4), recoveries[scenario]
			for k := 1; l.deletedAt(r, k); k++ {
				if t.Failed() {
					t.Fatalf("deleted at call %d", k)
				}
			}
		})
	}
}

// deletedAt has a job of its own deleted at the k-th call of a recovery, and reports whether there was one.
func (l *lane) deletedAt(r recovery, k int) bool {
	l.t.Helper()
	l.strikes++
	l.run(l.trainingJob(r.replicas, func(j *v1alpha1.TrainingJob) {
		j.Name = fmt.Sprintf("job-%d", l.strikes)
		if r.job != nil {
			r.job(j)
		}
	}))
	key, deleted := client.ObjectKeyFromObject(l.job), make(chan struct{})
	before := l.before()
	l.wire.arm(target{k: k}, fault{name: "deleted", times: 1, strike: func(_ *life, _ int, _ call, do func() error) error {
		job := &v1alpha1.TrainingJob{}
		job.Namespace, job.Name = key.Namespace, key.Name
		if err := testCluster.Client().Delete(l.ctx, job); client.IgnoreNotFound(err) != nil {
			l.t.Errorf("delete the job: %v", err)
		}
		close(deleted)
		return do()
	}})
	r.strike(l, l.strikes)
	struck := l.overOrDeleted(before, deleted)
	if !struck {
		err := testCluster.Client().Delete(l.ctx, l.job)
		struck = apierrors.IsNotFound(err) // the call came when the recovery was over
		l.must(client.IgnoreNotFound(err), "delete the job")
	}
	l.removed()
	l.awaitAny("no node is held", func(context.Context) (bool, error) { return len(l.held()) == 0, nil })
	l.wire.arm(target{}, fault{})
	return struck
}

// overOrDeleted waits until a recovery is over, or its job is deleted before, and reports which.
func (l *lane) overOrDeleted(b before, deleted <-chan struct{}) bool {
	l.t.Helper()
	struck := false
	l.awaitAny("the job has recovered, or is deleted", func(ctx context.Context) (bool, error) {
		select {
		case <-deleted:
			struck = true
			return true, nil
		default:
		}
		job := &v1alpha1.TrainingJob{}
		if err := testCluster.Client().Get(ctx, client.ObjectKeyFromObject(l.job), job); err != nil {
			return false, client.IgnoreNotFound(err)
		}
		l.job = job
		n := len(job.Status.Incidents)
		return n > len(b.status.Incidents) && job.Status.Incidents[n-1].Outcome != "" && job.Status.State == v1alpha1.StateRunning, nil
	})
	return struck
}
