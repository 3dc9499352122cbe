// A lane: one job in a namespace and a pool of its own, with an operator of its own,
// through one recovery after another.

package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/controllers/supervisors"
	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/supervision"
)

const (
	gpus        = 8
	gpuResource = "nvidia.com/gpu"
	// awaitTimeout bounds a wait for something that takes seconds, in most lanes; no test measures it.
	awaitTimeout = 2 * time.Minute
	// silence is how long no call is made before the operator counts as idle. What it
	// still had to do would be done within milliseconds of the event that asks for it.
	silence = 300 * time.Millisecond
)

type lane struct {
	t    *testing.T
	ctx  context.Context
	pool cluster.Topology
	job  *v1alpha1.TrainingJob

	// config is how an operator reaches the API server.
	config *rest.Config
	wire   wire
	clock  stoppable
	life   *life
	log    tail

	// supervisors says where they find the operator, through the proxy if there is one, and kubelet runs them; off and nil for a job without.
	supervisors supervisors.Options
	proxy       *supervision.Proxy
	kubelet     *kubelet
	// elected reports whether operators have to be the leader.
	elected bool
	// fleet reports whether operators look after nodes, too.
	fleet bool
	// timeout bounds each wait.
	timeout time.Duration
	// strikes is how often something was broken.
	strikes int
}

// newLane opens a lane beside others.
func newLane(t *testing.T, name string, racks, nodesPerRack int, options ...func(*lane)) *lane {
	t.Helper()
	t.Parallel()
	return openLane(t, name, racks, nodesPerRack, options...)
}

// openLane makes a pool of nodes and a namespace of the same name, and starts an operator for them.
func openLane(t *testing.T, name string, racks, nodesPerRack int, options ...func(*lane)) *lane {
	t.Helper()
	l := &lane{t: t, ctx: context.WithoutCancel(t.Context()), pool: cluster.Topology{
		Name: name, Racks: racks, NodesPerRack: nodesPerRack, GPUsPerNode: gpus, Tiers: []int{racks}, Members: cluster.LabelMembers,
	}, config: managerConfig, supervisors: supervisors.Options{BindAddress: supervisors.Off}, timeout: awaitTimeout}
	l.must(testCluster.AddTopology(l.ctx, l.pool), "add the topology")
	l.must(testCluster.Client().Create(l.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}), "create the namespace")
	l.awaitAny("the namespace has a service account", func(ctx context.Context) (bool, error) {
		err := testCluster.Client().Get(ctx, client.ObjectKey{Namespace: name, Name: "default"}, &corev1.ServiceAccount{})
		return err == nil, client.IgnoreNotFound(err)
	})
	for _, o := range options {
		o(l)
	}
	l.begin()
	t.Cleanup(l.close)
	return l
}

// begin starts an operator, with nothing remembered of an earlier one.
func (l *lane) begin() {
	l.t.Helper()
	var err error
	l.life, err = begin(l.setting())
	l.must(err, "start the operator")
}

func (l *lane) setting() setting {
	return setting{
		config: l.config, wire: &l.wire, clock: &l.clock, namespace: l.pool.Name, pool: l.pool.NodeSelector(), log: &l.log, supervisors: l.supervisors,
		elected: l.elected, fleet: l.fleet,
	}
}

// restart ends the operator, where it has not died by itself, and starts another.
func (l *lane) restart() {
	l.t.Helper()
	l.must(l.life.end(), "stop the operator")
	l.begin()
}

// close takes all of the lane away, so that the others have the machine to themselves.
func (l *lane) close() {
	if l.t.Failed() {
		l.t.Logf("at the end:\n%s", l.dump())
	}
	l.life.crash()
	if l.t.Failed() {
		return
	}
	if err := testCluster.RemoveTopology(l.ctx, l.pool.Name); err != nil {
		l.t.Error(err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: l.pool.Name}}
	if err := testCluster.Client().Delete(l.ctx, namespace); err != nil {
		l.t.Error(err)
	}
}

// trainingJob is a gang of workers that take a whole node each.
func (l *lane) trainingJob(replicas int32, change ...func(*v1alpha1.TrainingJob)) *v1alpha1.TrainingJob {
	job := &v1alpha1.TrainingJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: l.pool.Name, Name: "job"},
		Spec: v1alpha1.TrainingJobSpec{
			NetworkTopology: &v1alpha1.NetworkTopology{Mode: v1alpha1.TopologyHard, HighestTierAllowed: ptr.To[int32](2)},
			// Every recovery of a lane is one more: none may fail or wait for that.
			RestartPolicy: &v1alpha1.RestartPolicy{
				Budget: &v1alpha1.Budget{MaxRestarts: ptr.To[int32](1000)}, Backoff: &v1alpha1.Backoff{InitialSeconds: new(int32(0))},
			},
			Tasks: []v1alpha1.Task{{Name: "worker", Replicas: replicas, Template: corev1.PodTemplateSpec{
				Spec: corev1.PodSpec{
					NodeSelector:                  l.pool.NodeSelector(),
					RestartPolicy:                 corev1.RestartPolicyNever,
					TerminationGracePeriodSeconds: ptr.To[int64](0),
					Containers: []corev1.Container{{
						Name: "main", Image: "trainer",
						Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{gpuResource: resource.MustParse(fmt.Sprint(gpus))}},
					}},
				},
			}}},
		},
	}
	for _, f := range change {
		f(job)
	}
	return job
}

// run applies a job and waits until it runs and nothing more is done about it.
func (l *lane) run(job *v1alpha1.TrainingJob) {
	l.t.Helper()
	l.job = job
	l.must(testCluster.Client().Create(l.ctx, job), "create the job")
	l.await("the job runs", func() bool { return l.job.Status.State == v1alpha1.StateRunning })
	l.idle()
}

// await waits until a condition on the job, as it is by then, holds. An operator
// that has crashed meanwhile is followed by another.
func (l *lane) await(what string, holds func() bool) {
	l.t.Helper()
	l.awaitAny(what, func(ctx context.Context) (bool, error) {
		if l.life.over() {
			l.restart()
		}
		job := &v1alpha1.TrainingJob{}
		if err := testCluster.Client().Get(ctx, client.ObjectKeyFromObject(l.job), job); err != nil {
			return false, err
		}
		l.job = job
		return holds(), nil
	})
}

func (l *lane) awaitAny(what string, condition wait.ConditionWithContextFunc) {
	l.t.Helper()
	var last error // an API server that is too busy for one answer has another later
	err := wait.PollUntilContextTimeout(l.ctx, 100*time.Millisecond, l.timeout, true, func(ctx context.Context) (holds bool, _ error) {
		holds, last = condition(ctx)
		return holds && last == nil, nil
	})
	if err != nil {
		l.t.Fatalf("waiting until %s: %v", what, errors.Join(err, last))
	}
}

// idle waits until the operator knows all that there is to know and makes no call for a while.
func (l *lane) idle() {
	l.t.Helper()
	var known time.Time
	l.await("the operator is idle", func() bool {
		switch {
		case time.Since(l.wire.quietSince()) < silence:
			known = time.Time{}
		case known.IsZero() && l.caughtUp():
			known = time.Now()
		case !known.IsZero() && time.Since(known) > silence:
			known = time.Time{} // look again where it is not idle after all
			return l.caughtUp()
		}
		return false
	})
}

// caughtUp reports whether the operator's cache is what the API server has, a new life has looked
// at what was there when it began, and all supervisors are connected.
func (l *lane) caughtUp() bool {
	l.t.Helper()
	same := func(list client.ObjectList, versions func() []string, opts ...client.ListOption) bool {
		l.must(testCluster.Client().List(l.ctx, list, opts...), "list what there is")
		there := fmt.Sprint(versions())
		if err := l.life.jobs.List(l.ctx, list, opts...); err != nil {
			return false // it has died
		}
		return fmt.Sprint(versions()) == there
	}
	pods, nodes, jobs := &corev1.PodList{}, &corev1.NodeList{}, &v1alpha1.TrainingJobList{}
	return same(pods, func() []string { return versions(pods.Items) }, client.InNamespace(l.pool.Name)) &&
		same(jobs, func() []string { return versions(jobs.Items) }, client.InNamespace(l.pool.Name)) &&
		same(nodes, func() []string { return versions(nodes.Items) }, client.MatchingLabels(l.pool.NodeSelector())) &&
		(len(jobs.Items) == 0 || l.life.clock.looks.Load() > 0) && (l.kubelet == nil || l.kubelet.connected())
}

// replay makes the operator look again at everything, as it does when a watch begins again. One that is over, as a leader is that could
// not renew its Lease in time, is followed by another.
func (l *lane) replay() {
	l.t.Helper()
	for {
		if l.life.over() {
			l.restart()
			l.idle()
		}
		if err := l.look(); err == nil || !l.life.over() {
			l.must(err, "look at everything again")
			return
		}
	}
}

// look has the operator look at the job and at all nodes.
func (l *lane) look() error {
	_, err := l.life.jobs.Reconcile(l.ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(l.job)})
	if err != nil {
		return fmt.Errorf("the job: %w", err)
	}
	for name := range l.nodes() {
		if _, err := l.life.holds.Reconcile(l.ctx, ctrl.Request{NamespacedName: client.ObjectKey{Name: name}}); err != nil {
			return fmt.Errorf("node %s: %w", name, err)
		}
	}
	return nil
}

func (l *lane) must(err error, what string) {
	l.t.Helper()
	if err != nil {
		l.t.Fatalf("%s: %v", what, err)
	}
}

// dump shows what there is when a test has failed.
func (l *lane) dump() string {
	var b bytes.Buffer
	var last *v1alpha1.TrainingJobStatus
	for _, c := range l.wire.seen() {
		fmt.Fprintln(&b, "call:", c)
		if job, ok := c.obj.(*v1alpha1.TrainingJob); ok && c.write() && !c.failed {
			if last != nil {
				fmt.Fprintln(&b, cmp.Diff(last, &job.Status))
			}
			last = &job.Status
		}
	}
	if l.job != nil {
		status, err := yaml.Marshal(l.job.Status)
		fmt.Fprintln(&b, string(status), err)
		for name, p := range l.pods() {
			fmt.Fprintf(&b, "%s node=%s phase=%s gates=%v deleting=%v\n", name, p.Spec.NodeName, p.Status.Phase, p.Spec.SchedulingGates, p.DeletionTimestamp)
		}
	}
	if l.kubelet != nil {
		fmt.Fprintf(&b, "wrong with the programs: %q\nthe supervisors: %+v\n", l.kubelet.wrong(), l.kubelet.states())
	}
	fmt.Fprintf(&b, "the end of the operator's log:\n%s", l.log.String())
	return b.String()
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	t.text = t.text[max(0, len(t.text)-8192):]
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}
