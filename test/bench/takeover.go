// Take-over: a large gang loses one node after the other, and spares take over the ranks there. Then its manager's leader dies.

package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	audit "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/bench/ranks"
	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/operator"
)

const (
	// takeOverLosses is how many nodes a gang loses, that of rank 0 first.
	takeOverLosses = 5
	takeOverSpares = takeOverLosses * fleetGPUs
	// leaderSettles is how long a new leader is left alone before it is judged.
	leaderSettles = 10 * time.Second
)

// takeOverBench is one gang of this part of a run.
type takeOverBench struct {
	*played
	results *takeOverResults
	pool    cluster.Topology
	job     *v1alpha1.TrainingJob
	pods    []*corev1.Pod // as Volcano makes them: the ranks, and then the spares
	ranks   *ranks.Process
}

// takeOverPools are the nodes of the gangs, full of ranks or of spares. No node of a rank has a spare.
func takeOverPools(sizes counts) (pools []cluster.Topology) {
	for _, size := range sizes {
		racks := ceil(ceil(size, fleetGPUs)+takeOverLosses, fleetRanks/fleetGPUs)
		pools = append(pools, cluster.Topology{
			Name: fmt.Sprintf("crowd%d", size), Racks: racks, NodesPerRack: fleetRanks / fleetGPUs, GPUsPerNode: fleetGPUs, Tiers: tiersOf(racks),
		})
	}
	return pools
}

// node is that of a pod, by its number.
func (t *takeOverBench) node(i int) string {
	at := i / fleetGPUs
	if i >= t.results.ranks {
		at = ceil(t.results.ranks, fleetGPUs) + (i-t.results.ranks)/fleetGPUs
	}
	return t.pool.Node(at/t.pool.NodesPerRack, at%t.pool.NodesPerRack)
}

// measureTakeOver takes the figures of a gang of so many ranks, and takes everything away.
func (p *played) measureTakeOver(ctx context.Context, size int) error {
	t := &takeOverBench{played: p, results: &takeOverResults{ranks: size}, pool: takeOverPools(counts{size})[0]}
	p.results.takeOver = append(p.results.takeOver, t.results)
	t.job = oneGPU(&gang{name: t.pool.Name + "-gang", pods: size, pool: t.pool})
	t.job.Spec.Supervisor.TakeOver = &v1alpha1.TakeOver{}
	t.job.Spec.Tasks[0].Spares = new(int32(takeOverSpares))
	if err := t.connect(ctx); err != nil {
		return err
	}
	defer func() { _ = t.ranks.Stop() }()
	for i := range takeOverLosses {
		if err := t.lose(ctx, i); err != nil {
			return fmt.Errorf("loss %d: %w", i+1, err)
		}
	}
	if err := t.changeLeader(ctx); err != nil {
		return fmt.Errorf("change of the leader: %w", err)
	}
	return t.clear(ctx)
}

// connect starts the gang, and its supervisors.
func (t *takeOverBench) connect(ctx context.Context) error {
	given, err := t.start(ctx, t.job, parallel, t.node)
	if err != nil {
		return err
	}
	of := &batch.Job{}
	if err := t.cluster.Client().Get(ctx, client.ObjectKey{Namespace: namespace, Name: t.job.Name + "-1"}, of); err != nil {
		return err
	}
	t.pods = podsOf(of)
	described := &ranks.Gang{ServerName: managerHost, Ranks: given, AtOnce: connectAtOnce}
	if described.Addresses, err = t.addresses(len(given)); err != nil {
		return err
	}
	if err := sleep(ctx, settle); err != nil {
		return err
	}
	t.results.alone = t.memory()
	began := time.Now()
	if t.ranks, err = ranks.Start(ctx, described, t.limit()); err != nil {
		return err
	}
	t.results.connecting = time.Since(began)
	if err := t.calm(ctx, &lockstep, t.job.Name); err != nil {
		return err
	}
	t.results.connected = t.memory()
	say("take-over: %d ranks and %d spares connected after %s s; the manager has %d MiB, and had %d", t.results.ranks, takeOverSpares,
		seconds(t.results.connecting), t.results.connected, t.results.alone)
	return nil
}

func (t *takeOverBench) limit() time.Duration { return timeoutOf(t.results.ranks) }

// lost are the ranks of the i-th node that is lost.
func (t *takeOverBench) lost(i int) []int {
	ranks := make([]int, fleetGPUs)
	for rank := range ranks {
		ranks[rank] = i*(t.results.ranks/fleetGPUs/takeOverLosses)*fleetGPUs + rank
	}
	return ranks
}

// lose has a node end with its ranks, and takes down what that leads to.
func (t *takeOverBench) lose(ctx context.Context, i int) error {
	r, lost := &takenOver{}, t.lost(i)
	mark, ours, theirs := t.audit.mark(), t.processor(operator.Name), processorOf(t.ranks.PID())
	r.failed = time.Now()
	if err := t.cluster.DeleteNode(ctx, t.node(lost[0])); err != nil {
		return err
	}
	// The streams of a node that is dead do not end before it counts as such.
	done, err := t.ranks.Lose(lost, t.limit(), func() error { return t.succeed(ctx, lost) })
	if err != nil {
		return err
	}
	r.waiting, r.running = done.Waiting, done.Running
	if want := int64(supervisedEpoch + 1 + i); done.Epoch != want {
		return fmt.Errorf("it has led to epoch %d, and not %d", done.Epoch, want)
	}
	if err := t.calm(ctx, &lockstep, t.job.Name); err != nil {
		return err
	}
	if r.writes, err = t.audit.writes(mark); err != nil {
		return err
	}
	if r.before, err = t.audit.until(mark, r.running); err != nil {
		return err
	}
	if r.before["create pods"]+r.before["create pods/binding"] > 0 {
		return fmt.Errorf("pods were made or bound before all ranks ran: %v", r.before)
	}
	r.processor, r.supervisors, r.memory = t.processor(operator.Name)-ours, processorOf(t.ranks.PID())-theirs, t.memory()
	t.results.losses = append(t.results.losses, r)
	calls, err := t.audit.since(mark, t.pool.Name)
	say("take-over, loss %d: all wait after %s ms and run after %s ms; %s; %s MiB", i+1, millis(r.toWait()), millis(r.toRun()), calls.timeline(r.failed), fmt.Sprint(r.memory))
	return err
}

// succeed makes the next pods of the lost names once these are gone, as Volcano does, which watches pods.
func (t *takeOverBench) succeed(ctx context.Context, lost []int) error {
	ctx, cancel := context.WithTimeout(ctx, t.limit())
	defer cancel()
	return parallel(len(lost), func(i int) error {
		pod := t.pods[lost[i]].DeepCopy()
		if err := t.awaitGone(ctx, pod); err != nil {
			return err
		}
		return t.cluster.Client().Create(ctx, pod)
	})
}

// awaitGone waits until the pod that has a pod's name is gone.
func (t *takeOverBench) awaitGone(ctx context.Context, pod *corev1.Pod) error {
	watched, err := t.cluster.Client().Watch(ctx, &corev1.PodList{}, client.InNamespace(pod.Namespace), client.MatchingFields{"metadata.name": pod.Name})
	if err != nil {
		return fmt.Errorf("watch pod %s: %w", pod.Name, err)
	}
	defer watched.Stop()
	if err := t.cluster.Client().Get(ctx, client.ObjectKeyFromObject(pod), &corev1.Pod{}); err != nil {
		return client.IgnoreNotFound(err) // it is gone already
	}
	for e := range watched.ResultChan() {
		if e.Type == apiwatch.Deleted {
			return nil
		}
	}
	return fmt.Errorf("the watch of pod %s ended before it was gone", pod.Name)
}

// until are the manager's writes after a mark and before a time, without those of Events.
func (l auditLog) until(mark int64, end time.Time) (map[string]int, error) {
	kinds := map[string]int{}
	err := l.read(mark, func(e *audit.Event) {
		if !isEvent(e) && e.ResponseStatus.Code < 300 && e.RequestReceivedTimestamp.Time.Before(end) {
			kinds[kindOf(e)]++
		}
	})
	return kinds, err
}

// changeLeader kills the manager, has another one lead, and takes down when it hears all supervisors again. They restart nothing.
func (t *takeOverBench) changeLeader(ctx context.Context) error {
	mark := t.audit.mark()
	manager := t.cluster.Component(operator.Name)
	var killed time.Time
	done, err := t.ranks.Reconnect(t.limit(), func() error {
		killed = time.Now()
		if err := manager.Kill(); err != nil {
			return err
		}
		return manager.Start(ctx)
	})
	if err != nil {
		return err
	}
	t.results.led, t.results.heard = done.Waiting.Sub(killed), done.Running.Sub(killed)
	if err := sleep(ctx, leaderSettles); err != nil {
		return err
	}
	if err := t.cluster.Client().Get(ctx, client.ObjectKeyFromObject(t.job), t.job); err != nil {
		return err
	}
	if s := t.job.Status; s.Epoch != supervisedEpoch+takeOverLosses || s.State != v1alpha1.StateRunning {
		return fmt.Errorf("the job ran in epoch %d, and is %s in epoch %d", supervisedEpoch+takeOverLosses, s.State, s.Epoch)
	}
	writes, err := t.audit.writes(mark)
	t.results.changed, t.results.after = writes, t.memory()
	say("take-over: leader change: first stream after %s s, all after %s s; %s; %d MiB", seconds(t.results.led), seconds(t.results.heard), writes, t.results.after)
	return err
}

// clear takes the job, its pods and their nodes away.
func (t *takeOverBench) clear(ctx context.Context) error {
	c := t.cluster.Client()
	if err := c.Delete(ctx, t.job); err != nil {
		return fmt.Errorf("delete %s: %w", t.job.Name, err)
	}
	if err := parallel(len(t.pods), func(i int) error {
		return client.IgnoreNotFound(c.Delete(ctx, t.pods[i], client.GracePeriodSeconds(0)))
	}); err != nil {
		return fmt.Errorf("delete the pods of %s: %w", t.job.Name, err)
	}
	if err := c.DeleteAllOf(ctx, &batch.Job{}, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("delete the Volcano Job of %s: %w", t.job.Name, err)
	}
	return t.cluster.RemoveTopology(ctx, t.pool.Name)
}
