// The recoveries that are broken at every call, and what each has to lead to.

package chaos

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// recovery is a failure that can be repeated on one job.
type recovery struct {
	replicas int32
	lane     []func(*lane)
	job      func(*v1alpha1.TrainingJob)
	// strike breaks something, for the n-th time.
	strike func(l *lane, n int)
	want   outcome
}

// restartedTogether is what a program that fails leads to under supervisors.
var restartedTogether = outcome{
	Incidents: []string{"ProcessFailed by rule program-fails: RestartProcesses (0), Recovered, charged"},
	Epochs:    1,
	Restarts:  v1alpha1.Restarts{Total: 1, Process: 1, Charged: 1},
	Ranks:     []string{"untouched", "untouched", "untouched"},
	Lives:     []int32{0, 0, 0},
}

var recoveries = map[string]recovery{
	// The idle sibling rack would do under hard tier 2: home is better.
	"node": {
		replicas: 3,
		strike: func(l *lane, n int) {
			model := l.loseNode(l.ranks()[1].Spec.NodeName)
			l.bringNode(model, fmt.Sprintf("%s-x%d", model.Labels[cluster.RackLabel], n))
		},
		want: outcome{
			Incidents: []string{"NodeGone by rule everything-else: RestartPod (0), Recovered"},
			Restarts:  v1alpha1.Restarts{Total: 1, Pod: 1},
			Ranks:     []string{"untouched", "at home", "untouched"},
			Lives:     []int32{0, 1, 0},
			Excluded:  []int{1},
		},
	},
	// Volcano makes no more pods for a job of which every pod has failed: a new
	// attempt, back on nodes that a standing hold has kept.
	"gang": {
		replicas: 2,
		job:      func(j *v1alpha1.TrainingJob) { j.Spec.Hold = &v1alpha1.Hold{Policy: v1alpha1.HoldAlways} },
		strike:   (*lane).failGang,
		want: outcome{
			Incidents: []string{"PodFailed by rule everything-else: RestartJob (0), Recovered, charged"},
			Attempts:  1,
			Restarts:  v1alpha1.Restarts{Total: 1, Job: 1, Charged: 1},
			Ranks:     []string{"same node", "same node"},
			Lives:     []int32{1, 1},
			Holds:     []int{0, 1}, Taints: []int{0, 1},
		},
	},
	// One rank does not come back in place, and all are recreated: their nodes are
	// held before anything is deleted.
	"step": {
		replicas: 2,
		job: func(j *v1alpha1.TrainingJob) {
			j.Spec.Tasks[0].Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
			j.Spec.RestartPolicy.Rules = []v1alpha1.Rule{{
				Name:  "crash",
				Match: v1alpha1.Match{Events: []v1alpha1.EventType{v1alpha1.AnyEvent}},
				Steps: []v1alpha1.Step{{Action: v1alpha1.RestartJob, AfterSeconds: 1}},
			}}
		},
		strike: func(l *lane, _ int) {
			l.must(testCluster.RestartContainers(l.ctx, keyOf(l.ranks()[1]), cluster.Termination{ExitCode: 1}), "crash a container")
		},
		want: outcome{
			Incidents: []string{"PodNotReady by rule crash: RestartJob (0), Recovered, charged"},
			Restarts:  v1alpha1.Restarts{Total: 1, Job: 1, Charged: 1},
			Ranks:     []string{"same node", "same node"},
			Lives:     []int32{1, 1},
		},
	},
	// No pod is touched.
	"program": {
		replicas: 3,
		lane:     []func(*lane){supervised},
		job:      supervise,
		strike:   func(l *lane, _ int) { l.kubelet.fail(l.job.Status.Epoch, l.ranks()[1]) },
		want:     restartedTogether,
	},
	// The same, and the programs of the others abort.
	"programs": {
		replicas: 3,
		lane:     []func(*lane){supervised},
		job:      supervise,
		strike: func(l *lane, _ int) {
			ranks := l.ranks()
			l.kubelet.fail(l.job.Status.Epoch, ranks[1], ranks[2], ranks[0])
		},
		want: restartedTogether,
	},
	// The programs of the others wait for the pod that is replaced, in theirs.
	"peer": {
		replicas: 3,
		lane:     []func(*lane){supervised},
		job:      supervise,
		strike: func(l *lane, n int) {
			lost := l.ranks()[1]
			l.kubelet.kill(lost.UID)
			model := l.loseNode(lost.Spec.NodeName)
			l.bringNode(model, fmt.Sprintf("%s-x%d", model.Labels[cluster.RackLabel], n))
		},
		want: outcome{
			Incidents: []string{"NodeGone by rule everything-else: RestartPod (0), Recovered"},
			Epochs:    1,
			Restarts:  v1alpha1.Restarts{Total: 1, Pod: 1},
			Ranks:     []string{"untouched", "at home", "untouched"},
			Lives:     []int32{0, 1, 0},
			Excluded:  []int{1},
		},
	},
	"volcanojob": {
		replicas: 2,
		strike:   (*lane).deleteVolcanoJob,
		want: outcome{
			Incidents: []string{"VolcanoJobDeleted by rule everything-else: RestartJob (0), Recovered"},
			Attempts:  1,
			Restarts:  v1alpha1.Restarts{Total: 1, Job: 1},
			Ranks:     []string{"same node", "same node"},
			Lives:     []int32{1, 1},
		},
	},
}

// failGang fails every rank while the clock stands still, so that the operator sees
// them fall at once: seen one by one, the first would be restarted by itself.
func (l *lane) failGang(int) {
	l.t.Helper()
	l.clock.stopped.Lock()
	defer l.clock.stopped.Unlock()
	var keys []client.ObjectKey
	for _, p := range l.ranks() {
		keys = append(keys, keyOf(p))
	}
	l.must(testCluster.FailPods(l.ctx, 1, keys...), "fail every pod")
	l.awaitAny("the operator could see that all have failed", func(ctx context.Context) (bool, error) {
		v := l.volcanoJob()
		if err := l.life.jobs.Get(ctx, client.ObjectKeyFromObject(v), v); err != nil {
			return false, err
		}
		return v.Status.State.Phase == batch.Failed && l.caughtUp(), nil
	})
}

// deleteVolcanoJob deletes the Volcano Job of the present attempt, as a stranger
// would. The operator hears of that before it misses the pods.
func (l *lane) deleteVolcanoJob(int) {
	l.t.Helper()
	l.clock.stopped.Lock()
	defer l.clock.stopped.Unlock()
	v := l.volcanoJob()
	l.must(testCluster.Client().Delete(l.ctx, v, client.PropagationPolicy(metav1.DeletePropagationBackground)), "delete the Volcano Job")
	l.awaitAny("the operator could see that it is deleted", func(ctx context.Context) (bool, error) {
		err := l.life.jobs.Get(ctx, client.ObjectKeyFromObject(v), v)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
}

func (l *lane) volcanoJob() *batch.Job {
	return &batch.Job{ObjectMeta: metav1.ObjectMeta{
		Namespace: l.pool.Name, Name: gang.VolcanoJobName(l.job, l.job.Status.Attempt),
	}}
}
