// Package queues runs a gang that fills a cluster while jobs wait in its queue and in two others, and has it recover:
// Volcano counts its queue as over its share all the while.
package queues

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/history"
	"github.com/lockstep-dev/lockstep/test/operator"
)

const (
	nodes = 6
	gpus  = 8
	// recoveries is how often the gang recovers in each test.
	recoveries   = 10
	awaitTimeout = 2 * time.Minute
	gpu          = corev1.ResourceName("nvidia.com/gpu")
)

var (
	testCluster *cluster.Cluster
	auditLog    history.Log
)

func TestMain(m *testing.M) { os.Exit(runAll(m)) }

func runAll(m *testing.M) int {
	ctrl.SetLogger(zap.New())
	ctx := context.Background()
	stop, err := start(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "queues: start the cluster:", err)
		return 1
	}
	oracle, err := testCluster.WatchFit(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "queues: switch the oracle on:", err)
		return 1
	}
	code := m.Run()
	if err := oracle.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "queues:", err)
		code = 1
	}
	if err := auditLog.Check(); err != nil {
		fmt.Fprintln(os.Stderr, "queues:", err)
		code = 1
	}
	if err := stop(); err != nil {
		fmt.Fprintln(os.Stderr, "queues: stop the cluster:", err)
		return 1
	}
	return code
}

func start(ctx context.Context) (stop func() error, err error) {
	scheme := cluster.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "lockstep-queues-")
	if err != nil {
		return nil, err
	}
	options := cluster.Options{
		Name: "queues", Scheme: scheme, CRDs: []string{"../../config/crd"}, Progress: os.Stderr,
		NodeMonitorGracePeriod: 2 * time.Minute, // incidents are counted, and a heartbeat that is late beside load would be one
	}
	if auditLog, err = history.Of(&options, dir, ""); err != nil {
		return nil, err
	}
	if testCluster, err = cluster.Start(ctx, options); err != nil {
		return nil, err
	}
	binary, err := operator.Build(ctx, dir)
	if err != nil {
		return nil, err
	}
	kubeconfig, err := operator.Kubeconfig(ctx, testCluster)
	if err != nil {
		return nil, err
	}
	if err := testCluster.AddTopology(ctx, cluster.Topology{Name: "full", Racks: 1, NodesPerRack: nodes, GPUsPerNode: gpus}); err != nil {
		return nil, err
	}
	for _, name := range []string{"training", "research", "batch"} {
		queue := &scheduling.Queue{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: scheduling.QueueSpec{Weight: 1}}
		if err := testCluster.Client().Create(ctx, queue); err != nil {
			return nil, err
		}
	}
	_, err = testCluster.Run(ctx, cluster.Command{Name: operator.Name, Path: binary, Args: []string{
		"--metrics-bind-address=0", "--health-probe-bind-address=0", "--kubeconfig=" + kubeconfig,
	}})
	return func() error {
		defer os.RemoveAll(dir)
		return testCluster.Stop()
	}, err
}

// A gang recovers ten times, in one pod or as a whole, and every rank comes back to its node.
func TestARecoveringGangKeepsItsNodes(t *testing.T) {
	for _, hold := range []v1alpha1.HoldPolicy{v1alpha1.HoldOnRecovery, v1alpha1.HoldAlways} {
		for _, action := range []v1alpha1.Action{v1alpha1.RestartPod, v1alpha1.RestartJob} {
			t.Run(fmt.Sprintf("%s/%s", hold, action), func(t *testing.T) { recoverOften(t, hold, action) })
		}
	}
}

func recoverOften(t *testing.T, hold v1alpha1.HoldPolicy, action v1alpha1.Action) {
	job := gang("gang", "training", nodes)
	job.Spec.Hold = &v1alpha1.Hold{Policy: hold}
	job.Spec.RestartPolicy = always(action)
	create(t, job)
	await(t, "the gang runs", func() bool { return stateOf(t, job) == v1alpha1.StateRunning })
	if hold == v1alpha1.HoldAlways {
		await(t, "the gang holds its nodes", func() bool { return len(read(t, job).Status.Holds) == nodes })
	}
	waiting := []*v1alpha1.TrainingJob{gang("same-queue", "training", 2), gang("research", "research", 2), gang("batch", "batch", 2)}
	for _, other := range waiting {
		create(t, other)
	}
	await(t, "the others are created", func() bool {
		return !slices.ContainsFunc(waiting, func(other *v1alpha1.TrainingJob) bool { return stateOf(t, other) == "" })
	})

	before := nodesOf(t, job)
	var took []time.Duration
	for n := range recoveries {
		began := time.Now()
		must(t, testCluster.RestartContainers(t.Context(), keyOf(pods(t, job)[n%nodes]), cluster.Termination{ExitCode: 1}))
		await(t, fmt.Sprintf("recovery %d is over", n+1), func() bool { return recovered(read(t, job)) == n+1 })
		took = append(took, time.Since(began).Round(10*time.Millisecond))
		if after := nodesOf(t, job); !slices.Equal(after, before) {
			t.Fatalf("the ranks were on %v, and are on %v", before, after)
		}
		for _, other := range waiting {
			if placed := nodesOf(t, other); len(placed) > 0 {
				t.Fatalf("pods of %s, which waits, are on %v", other.Name, placed)
			}
		}
	}
	slices.Sort(took)
	t.Logf("%d recoveries, each within %s to %s", recoveries, took[0], took[recoveries-1])

	remove(t, job)
	for _, other := range waiting {
		await(t, other.Name+" runs, now that there is room", func() bool { return stateOf(t, other) == v1alpha1.StateRunning })
	}
	for _, other := range waiting {
		remove(t, other)
	}
}

// A recovery leaves no quota reserved for pods that are gone: what Volcano counts for the queue is what the pods that run request, and what a
// suspended job gives up is another job's at once.
func TestARecoveryGivesItsQuotaBack(t *testing.T) {
	for _, action := range []v1alpha1.Action{v1alpha1.RestartPod, v1alpha1.RestartJob} {
		t.Run(string(action), func(t *testing.T) {
			queue := &scheduling.Queue{
				ObjectMeta: metav1.ObjectMeta{Name: "quota-" + strings.ToLower(string(action))},
				Spec:       scheduling.QueueSpec{Weight: 1, Capability: corev1.ResourceList{gpu: *resource.NewQuantity(2*gpus, resource.DecimalSI)}},
			}
			must(t, testCluster.Client().Create(t.Context(), queue))
			counts := func(ranks int64) {
				t.Helper()
				await(t, fmt.Sprintf("the queue counts %d ranks", ranks), func() bool {
					must(t, testCluster.Client().Get(t.Context(), client.ObjectKeyFromObject(queue), queue))
					allocated := queue.Status.Allocated[gpu]
					return allocated.Value() == ranks*gpus
				})
			}
			job, other := gang("quota", queue.Name, 2), gang("quota-waits", queue.Name, 1)
			job.Spec.RestartPolicy = always(action)
			create(t, job)
			counts(2)
			for n := range 3 {
				must(t, testCluster.RestartContainers(t.Context(), keyOf(pods(t, job)[n%2]), cluster.Termination{ExitCode: 1}))
				await(t, fmt.Sprintf("recovery %d is over", n+1), func() bool { return recovered(read(t, job)) == n+1 })
				counts(2)
			}
			// Not before: Volcano counts no pod that is being deleted, so that it lets in a job that waits while another recovers.
			create(t, other)
			await(t, "Volcano finds that the quota has no room for the other job", func() bool { return refusedForQuota(t, other) })
			if placed := nodesOf(t, other); len(placed) > 0 {
				t.Fatalf("a pod that the quota has no room for is on %v", placed)
			}
			suspend(t, job, true)
			await(t, "the other job runs on what the first gave up", func() bool { return stateOf(t, other) == v1alpha1.StateRunning })
			counts(1)
			remove(t, other)
			suspend(t, job, false)
			await(t, "the first job runs again", func() bool { return stateOf(t, job) == v1alpha1.StateRunning })
			counts(2)
			remove(t, job)
			counts(0)
		})
	}
}

// refusedForQuota reports whether the scheduler has left a job in its queue, since that has no quota for it.
func refusedForQuota(t *testing.T, job *v1alpha1.TrainingJob) bool {
	t.Helper()
	events := &corev1.EventList{}
	must(t, testCluster.Client().List(t.Context(), events, client.InNamespace(job.Namespace)))
	return slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
		of := e.InvolvedObject
		return of.Kind == "PodGroup" && strings.HasPrefix(of.Name, job.Name+"-") && !e.LastTimestamp.Before(&job.CreationTimestamp) && strings.Contains(e.Message, "quota")
	})
}

// always is a policy that answers any failure by an action, at once.
func always(action v1alpha1.Action) *v1alpha1.RestartPolicy {
	return &v1alpha1.RestartPolicy{
		Rules: []v1alpha1.Rule{{
			Name: "all", Match: v1alpha1.Match{Events: []v1alpha1.EventType{v1alpha1.AnyEvent}}, Steps: []v1alpha1.Step{{Action: action}},
		}},
		Budget: &v1alpha1.Budget{MaxRestarts: new(int32(1000)), WindowSeconds: 60}, Backoff: &v1alpha1.Backoff{InitialSeconds: new(int32(0))},
	}
}

func suspend(t *testing.T, job *v1alpha1.TrainingJob, suspended bool) {
	t.Helper()
	patch := fmt.Sprintf(`{"spec": {"suspend": %t}}`, suspended)
	must(t, testCluster.Client().Patch(t.Context(), job.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch))))
}

// gang is a job whose ranks take a whole node each.
func gang(name, queue string, replicas int32) *v1alpha1.TrainingJob {
	return &v1alpha1.TrainingJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Spec: v1alpha1.TrainingJobSpec{
			Queue: queue,
			Tasks: []v1alpha1.Task{{Name: "worker", Replicas: replicas, Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy:                 corev1.RestartPolicyOnFailure,
				TerminationGracePeriodSeconds: new(int64(1)),
				Containers: []corev1.Container{{
					Name: "main", Image: "trainer",
					Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{gpu: *resource.NewQuantity(gpus, resource.DecimalSI)}},
				}},
			}}}},
		},
	}
}

func create(t *testing.T, job *v1alpha1.TrainingJob) {
	t.Helper()
	must(t, testCluster.Client().Create(t.Context(), job))
}

func remove(t *testing.T, job *v1alpha1.TrainingJob) {
	t.Helper()
	must(t, testCluster.Client().Delete(t.Context(), job))
	await(t, "the pods of "+job.Name+" are gone", func() bool { return len(pods(t, job)) == 0 })
}

func read(t *testing.T, job *v1alpha1.TrainingJob) *v1alpha1.TrainingJob {
	t.Helper()
	out := &v1alpha1.TrainingJob{}
	must(t, testCluster.Client().Get(t.Context(), client.ObjectKeyFromObject(job), out))
	return out
}

func stateOf(t *testing.T, job *v1alpha1.TrainingJob) v1alpha1.State {
	t.Helper()
	return read(t, job).Status.State
}

// recovered counts the incidents that are over; none where one is open. IDs count up, and closed incidents are forgotten.
func recovered(job *v1alpha1.TrainingJob) int {
	highest := 0
	for _, inc := range job.Status.Incidents {
		if inc.Outcome == "" {
			return -1
		}
		highest = max(highest, int(inc.ID))
	}
	return highest
}

// pods are those of a job, by name.
func pods(t *testing.T, job *v1alpha1.TrainingJob) []corev1.Pod {
	t.Helper()
	list := &corev1.PodList{}
	must(t, testCluster.Client().List(t.Context(), list, client.InNamespace(job.Namespace), client.MatchingLabels{v1alpha1.LabelJob: job.Name}))
	slices.SortFunc(list.Items, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return list.Items
}

// nodesOf are the nodes of a job's pods, in their order.
func nodesOf(t *testing.T, job *v1alpha1.TrainingJob) []string {
	t.Helper()
	var out []string
	for _, pod := range pods(t, job) {
		if pod.Spec.NodeName != "" {
			out = append(out, pod.Spec.NodeName)
		}
	}
	return out
}

func keyOf(pod corev1.Pod) client.ObjectKey { return client.ObjectKeyFromObject(&pod) }

func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, awaitTimeout, true, func(context.Context) (bool, error) { return holds(), nil })
	if err != nil {
		t.Fatalf("waiting until %s: %v\n%s", what, err, testCluster.Log(operator.Name))
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
