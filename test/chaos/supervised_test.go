// Lanes of jobs with supervisors.

package chaos

import (
	"context"
	"fmt"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/controllers/supervisors"
	"github.com/lockstep-dev/lockstep/test/supervision/simulated"
)

// supervised is for a lane of a job with supervisors.
func supervised(l *lane) {
	address := l.freeAddress()
	l.supervisors = supervisors.Options{BindAddress: address, Address: address, Namespace: l.pool.Name}
	l.kubelet = &kubelet{
		lane: l, dir: l.t.TempDir(), oracle: simulated.NewOracle(), containers: map[types.UID]*container{}, managerTimeout: managerTimeout,
		stopping: func(ctx context.Context, _ string) { sleep(ctx, stopTime) },
	}
	l.must(l.kubelet.start(l.ctx), "watch the pods")
	l.t.Cleanup(l.kubelet.end)
}

func (l *lane) freeAddress() string {
	l.t.Helper()
	port, err := testCluster.Port()
	l.must(err, "find a port")
	return fmt.Sprintf("%s:%d", localhost, port)
}

// supervise gives a job supervisors.
func supervise(j *v1alpha1.TrainingJob) {
	j.Spec.Supervisor = &v1alpha1.Supervisor{}
	j.Spec.Tasks[0].Template.Spec.Containers[0].Command = []string{"train"}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// judge says what the programs have done that they must not, and which of them do not run in the job's epoch.
func (l *lane) judge() {
	l.t.Helper()
	if l.kubelet == nil {
		return
	}
	for _, what := range l.kubelet.wrong() {
		l.t.Error(what)
	}
	if diff := cmp.Diff(l.epochs(), l.kubelet.oracle.Running()); diff != "" {
		l.t.Errorf("the epochs of the programs that run (-want +got):\n%s", diff)
	}
}

// epochs are those in which the programs of all ranks should run.
func (l *lane) epochs() map[string]int64 {
	out := map[string]int64{}
	for i := range l.job.Spec.Tasks[0].Replicas {
		out[fmt.Sprintf("worker-%d", i)] = l.job.Status.Epoch
	}
	return out
}
