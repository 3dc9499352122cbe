// The operator is moved to an API server that is held back, in the middle of a recovery: what it sees is older than what it has done.

package chaos

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// views are what an API server that is held back may have an older view of: by keys of etcd, and by a list in which that shows.
var views = map[string]struct {
	keys []string
	list client.ObjectList
}{
	"pods":    {[]string{"/pods/"}, &corev1.PodList{}},
	"nodes":   {[]string{"/minions/"}, &corev1.NodeList{}},
	"jobs":    {[]string{"/trainingjobs/"}, &v1alpha1.TrainingJobList{}},
	"volcano": {[]string{"/batch.volcano.sh/jobs/", "/podgroups/"}, &batch.JobList{}},
	"all":     {[]string{"/registry/"}, &v1alpha1.TrainingJobList{}},
}

// moves are the recoveries in which the operator is moved, the write after which it is, the views that are older by then, and how many
// pods are made in each.
var moves = []struct {
	scenario, after string
	views           []string
	pods            int
}{
	{"step", "update lockstep.dev trainingjobs/status", []string{"jobs", "all"}, 2},
	{"step", "delete pods", []string{"pods", "jobs", "all"}, 2},
	{"node", "delete pods", []string{"pods", "nodes", "jobs", "all"}, 1},
	{"gang", "create batch.volcano.sh jobs", []string{"pods", "volcano", "all"}, 2},
}

func TestTheOperatorIsMovedToAnOlderView(t *testing.T) {
	var behind *cluster.HeldBack
	there := rest.CopyConfig(managerConfig)
	l := newLane(t, "older", 2, 4, func(l *lane) {
		var err error
		behind, err = testCluster.AddHeldBack(l.ctx, auditLog.Others[0])
		l.must(err, "start an API server that can be held back")
		l.t.Cleanup(func() {
			if err := behind.Stop(); err != nil {
				l.t.Error(err)
			}
		})
		there.Host = behind.URL
		l.config = there // it begins to watch a custom resource when it is first asked for one
	})
	l.config = managerConfig
	l.restart()
	l.sweepsNothing(func() { behind.Hold(views["jobs"].keys...); l.config = there }, behind.Release)
	for _, move := range moves {
		r := recoveries[move.scenario]
		l.run(l.trainingJob(r.replicas, func(j *v1alpha1.TrainingJob) {
			j.Name = move.scenario
			if r.job != nil {
				r.job(j)
			}
		}))
		for _, view := range move.views {
			l.recoverMoved(r, move.after, move.pods, views[view].list, func() {
				behind.Hold(views[view].keys...)
				l.config = there
			}, behind.Release)
			if t.Failed() {
				t.Fatalf("%s, where after %s the view of %s is older", move.scenario, move.after, view)
			}
		}
		l.must(testCluster.Client().Delete(l.ctx, l.job), "delete the job")
		l.removed()
		l.awaitAny("no node is held", func(context.Context) (bool, error) { return len(l.held()) == 0, nil })
	}
}

// sweepsNothing has an operator look at nodes that a job holds which is newer than what it sees of jobs.
func (l *lane) sweepsNothing(hold, release func()) {
	l.t.Helper()
	hold()
	l.run(l.trainingJob(2, recoveries["gang"].job))
	held := l.held()
	l.restart()
	l.replay()
	if diff := cmp.Diff(held, l.held()); diff != "" || len(held) == 0 {
		l.t.Fatalf("the nodes that are held (-want +got):\n%s", diff)
	}
	release()
	l.idle()
	l.must(testCluster.Client().Delete(l.ctx, l.job), "delete the job")
	l.removed()
	l.config = managerConfig
	l.restart()
	l.awaitAny("no node is held", func(context.Context) (bool, error) { return len(l.held()) == 0, nil })
}

// recoverMoved goes through one recovery in which so many pods are made. After a write the operator dies, and another one begins at an
// API server that has been held back since before the failure. It looks at everything, and what was done stays done.
func (l *lane) recoverMoved(r recovery, after string, pods int, list client.ObjectList, hold, release func()) {
	l.t.Helper()
	before := l.before()
	made := l.watchPods()
	hold()
	l.wire.arm(target{right: after}, faults["crashafter"])
	l.strikes++
	r.strike(l, l.strikes)
	l.await("the operator was moved", func() bool { return l.life.config == l.config })

	if l.sees(list.DeepCopyObject().(client.ObjectList)) {
		l.t.Errorf("the view is not older")
	}
	for range 3 {
		l.replay()
	}
	release()
	l.recovered(before)
	want := r.want
	want.State = v1alpha1.StateRunning
	if diff := cmp.Diff(want, l.outcome(before)); diff != "" {
		l.t.Errorf("the outcome differs (-want +got):\n%s", diff)
	}
	if n := made(); n != pods {
		l.t.Errorf("%d pods were made, want %d: one was deleted twice", n, pods)
	}
	l.config = managerConfig
	l.restart()
	l.idle()
}

// sees reports whether the operator's cache has what the API server has of the lane.
func (l *lane) sees(list client.ObjectList) bool {
	l.t.Helper()
	where := []client.ListOption{client.InNamespace(l.pool.Name)}
	if _, ok := list.(*corev1.NodeList); ok {
		where = []client.ListOption{client.MatchingLabels(l.pool.NodeSelector())}
	}
	var seen [2][]string
	for i, from := range []client.Reader{testCluster.Client(), l.life.jobs} {
		l.must(from.List(l.ctx, list, where...), "list what there is")
		l.must(meta.EachListItem(list, func(obj runtime.Object) error {
			o := obj.(client.Object)
			seen[i] = append(seen[i], o.GetName()+"@"+o.GetResourceVersion())
			return nil
		}), "read a list")
		slices.Sort(seen[i])
	}
	return slices.Equal(seen[0], seen[1])
}

// watchPods counts from now on the pods of the lane that are made, until the count is asked for.
func (l *lane) watchPods() (made func() int) {
	l.t.Helper()
	list := &corev1.PodList{}
	l.must(testCluster.Client().List(l.ctx, list, client.InNamespace(l.pool.Name)), "list the pods")
	w, err := testCluster.Client().Watch(l.ctx, &corev1.PodList{}, client.InNamespace(l.pool.Name),
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}})
	l.must(err, "watch the pods")
	added := make(chan int)
	go func() {
		n := 0
		for event := range w.ResultChan() {
			if event.Type == watch.Added {
				n++
			}
		}
		added <- n
	}()
	return func() int {
		w.Stop()
		return <-added
	}
}
