// The scenario: one job in a pool of its own, and the questions that tests ask of it.

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

const (
	namespace   = "default"
	gpus        = 8
	gpuResource = "nvidia.com/gpu"
	// awaitTimeout bounds a wait for something that takes seconds; no test measures it.
	awaitTimeout = 2 * time.Minute
	// manyNodes is the size of a pool from which on waits are longer, and look less often.
	manyNodes = 100
)

// scenario is a pool of nodes and one job in it.
type scenario struct {
	t    *testing.T
	ctx  context.Context
	pool cluster.Topology
	job  *v1alpha1.TrainingJob
	// longest bounds waits for what takes longer than awaitTimeout; zero for none.
	longest time.Duration
}

// newScenario makes a pool of 8-GPU nodes for a test, and takes it away after.
func newScenario(t *testing.T, name string, racks, nodesPerRack int, tiers ...int) *scenario {
	t.Helper()
	t.Parallel()
	return newScenarioAlone(t, name, racks, nodesPerRack, tiers...)
}

// newScenarioAlone is the same for a test that no other may run beside.
func newScenarioAlone(t *testing.T, name string, racks, nodesPerRack int, tiers ...int) *scenario {
	t.Helper()
	// Not the test's own context, which is over before its cleanup runs.
	s := &scenario{t: t, ctx: context.WithoutCancel(t.Context()), pool: cluster.Topology{
		Name: name, Racks: racks, NodesPerRack: nodesPerRack, GPUsPerNode: gpus, Tiers: tiers,
	}}
	s.must(testCluster.AddTopology(s.ctx, s.pool), "add the topology")
	t.Cleanup(func() {
		if t.Failed() && s.job != nil {
			t.Logf("the job at the end:\n%s", s.dump())
		}
		// Tests that run alone count all jobs and nodes, those of a failed test, too.
		s.remove()
	})
	return s
}

// remove takes the job and its pool away, so that the other tests have the machine to themselves.
func (s *scenario) remove() {
	s.t.Helper()
	if s.job != nil {
		s.must(client.IgnoreNotFound(testCluster.Client().Delete(s.ctx, s.job)), "delete the job")
		s.awaitAny("its pods are gone", func(ctxT) (bool, error) { return len(s.pods()) == 0, nil })
	}
	s.must(testCluster.RemoveTopology(s.ctx, s.pool.Name), "remove the topology")
}

// trainingJob is a gang of workers that take a whole node each.
func (s *scenario) trainingJob(replicas int32, change ...func(*v1alpha1.TrainingJob)) *v1alpha1.TrainingJob {
	job := &v1alpha1.TrainingJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: s.pool.Name},
		Spec: v1alpha1.TrainingJobSpec{
			NetworkTopology: &v1alpha1.NetworkTopology{Mode: v1alpha1.TopologyHard, HighestTierAllowed: ptr.To[int32](1)},
			Tasks: []v1alpha1.Task{{Name: "worker", Replicas: replicas, Template: corev1.PodTemplateSpec{
				Spec: corev1.PodSpec{
					NodeSelector:                  s.pool.NodeSelector(),
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

// tier allows HyperNodes up to a tier.
func tier(n int32) func(*v1alpha1.TrainingJob) {
	return func(j *v1alpha1.TrainingJob) { j.Spec.NetworkTopology.HighestTierAllowed = &n }
}

// run applies a job and waits until it runs.
func (s *scenario) run(job *v1alpha1.TrainingJob) {
	s.t.Helper()
	s.job = job
	s.must(testCluster.Client().Create(s.ctx, job), "create the job")
	s.await("the job runs", func() bool { return s.job.Status.State == v1alpha1.StateRunning })
}

// await waits until a condition on the job, as it is by then, holds.
func (s *scenario) await(what string, holds func() bool) {
	s.t.Helper()
	s.awaitAny(what, func(context.Context) (bool, error) {
		job := &v1alpha1.TrainingJob{}
		if err := testCluster.Client().Get(s.ctx, client.ObjectKeyFromObject(s.job), job); err != nil {
			return false, err
		}
		s.job = job
		return holds(), nil
	})
}

func (s *scenario) awaitAny(what string, condition wait.ConditionWithContextFunc) {
	s.t.Helper()
	interval, timeout := s.patience()
	var last error // an API server that is too busy for one answer has another later
	err := wait.PollUntilContextTimeout(s.ctx, interval, timeout, true, func(ctx context.Context) (holds bool, _ error) {
		holds, last = condition(ctx)
		return holds && last == nil, nil
	})
	if err != nil {
		s.t.Fatalf("waiting until %s: %v", what, errors.Join(err, last))
	}
}

// patience returns how often a wait looks, and how long it takes at most.
func (s *scenario) patience() (interval, timeout time.Duration) {
	if s.longest > 0 {
		return time.Second, s.longest
	}
	if nodes := s.pool.Racks * s.pool.NodesPerRack; nodes > manyNodes {
		return time.Second, time.Duration(nodes) * awaitTimeout / manyNodes
	}
	return 50 * time.Millisecond, awaitTimeout
}

// recovered waits until n incidents have been recovered from and none is open.
func (s *scenario) recovered(n int) {
	s.t.Helper()
	s.await(fmt.Sprintf("%d incidents are over", n), func() bool {
		closed := 0
		for _, inc := range s.job.Status.Incidents {
			if inc.Outcome == v1alpha1.OutcomeRecovered {
				closed++
			}
		}
		return closed >= n && s.job.Status.State == v1alpha1.StateRunning
	})
}

// replaced waits until other pods than these of before run in their places, and no incident is open. The news of pods that fail
// together may come before and after the first of them has recovered.
func (s *scenario) replaced(before map[string]corev1.Pod, names ...string) {
	s.t.Helper()
	s.awaitAny(fmt.Sprintf("%d pods are replaced, and all run", len(names)), func(ctxT) (bool, error) {
		now := s.pods()
		for _, p := range now {
			left := slices.Contains(names, p.Name) && before[p.Name].UID == p.UID
			if left || p.Status.Phase != corev1.PodRunning || p.DeletionTimestamp != nil {
				return false, nil
			}
		}
		return len(now) == len(before), nil
	})
	s.await("no incident is open", func() bool { return s.job.Status.State == v1alpha1.StateRunning })
}

// pods are the job's pods, by name.
func (s *scenario) pods() map[string]corev1.Pod {
	s.t.Helper()
	list := &corev1.PodList{}
	s.must(testCluster.Client().List(s.ctx, list, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.LabelJob: s.job.Name}), "list the pods")
	out := map[string]corev1.Pod{}
	for _, p := range list.Items {
		out[p.Name] = p
	}
	return out
}

// pod is the job's pod of a rank, in its present attempt.
func (s *scenario) pod(index int) corev1.Pod {
	s.t.Helper()
	name := fmt.Sprintf("%s-%d-worker-%d", s.job.Name, s.job.Status.Attempt, index)
	p, ok := s.pods()[name]
	if !ok {
		s.t.Fatalf("no pod %s", name)
	}
	return p
}

func keyOf(pod corev1.Pod) client.ObjectKey { return client.ObjectKeyFromObject(&pod) }

// rackOf is the rack of a node.
func (s *scenario) rackOf(node string) int {
	for r := range s.pool.Racks {
		if slices.Contains(s.pool.RackNodes(r), node) {
			return r
		}
	}
	s.t.Fatalf("node %s is in no rack of pool %s", node, s.pool.Name)
	return -1
}

// atHome checks that every pod runs in the rack that the job's status calls home.
func (s *scenario) atHome(rack int) {
	s.t.Helper()
	for name, p := range s.pods() {
		if r := s.rackOf(p.Spec.NodeName); r != rack {
			s.t.Errorf("pod %s is in rack %d, home is rack %d", name, r, rack)
		}
	}
}

// untouched checks that every pod of before is still there, but the named ones.
func (s *scenario) untouched(before map[string]corev1.Pod, but ...string) {
	s.t.Helper()
	after := s.pods()
	for name, p := range before {
		if !slices.Contains(but, name) && after[name].UID != p.UID {
			s.t.Errorf("pod %s was touched", name)
		}
	}
	for _, name := range but {
		if after[name].UID == before[name].UID {
			s.t.Errorf("pod %s was not replaced", name)
		}
	}
}

func (s *scenario) must(err error, what string) {
	s.t.Helper()
	if err != nil {
		s.t.Fatalf("%s: %v", what, err)
	}
}

type ctxT = context.Context

func (s *scenario) poolNodes() client.ListOption { return client.MatchingLabels(s.pool.NodeSelector()) }

// keys are the keys of all the job's pods.
func (s *scenario) keys() []client.ObjectKey {
	s.t.Helper()
	var out []client.ObjectKey
	for _, p := range s.pods() {
		out = append(out, keyOf(p))
	}
	return out
}

// nodesOfRanks are the nodes of the ranks of the present attempt, in order.
func (s *scenario) nodesOfRanks() []string {
	s.t.Helper()
	var out []string
	for i := range s.job.Spec.Tasks[0].Replicas {
		out = append(out, s.pod(int(i)).Spec.NodeName)
	}
	return out
}

// sameNodes checks that each rank is back on its own node.
func (s *scenario) sameNodes(before []string) {
	s.t.Helper()
	if after := s.nodesOfRanks(); !slices.Equal(before, after) {
		s.t.Errorf("ranks went from nodes %v to %v", before, after)
	}
}

// volcanoJobKey is the key of the Volcano Job of the present attempt.
func (s *scenario) volcanoJobKey() client.ObjectKey {
	return client.ObjectKey{Namespace: namespace, Name: fmt.Sprintf("%s-%d", s.job.Name, s.job.Status.Attempt)}
}

// deleteVolcanoJob deletes the Volcano Job of the present attempt, as a stranger would.
func (s *scenario) deleteVolcanoJob() {
	s.t.Helper()
	key := s.volcanoJobKey()
	v := &batch.Job{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	s.must(testCluster.Client().Delete(s.ctx, v, client.PropagationPolicy(metav1.DeletePropagationBackground)), "delete the Volcano Job")
}
