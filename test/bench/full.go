// The full cluster: each lane is a rack that one gang fills, with a job of one node and a larger
// one waiting for the first node that comes free. Counted is how often the gang keeps all its nodes.

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

const (
	laneNodes = 6
	laneGPUs  = 8
	// The waiting jobs' pods, a whole node each.
	smallPods, largePods = 1, 3
	// fullTimeout is how long a gang may take to come back.
	fullTimeout = 45 * time.Second
)

// tries are recoveries of one kind on a full cluster.
type tries struct {
	who   string // as the table names it
	whole bool   // every pod fails at once, and not one
	of    int
	kept  int
	// lost are those that lost a node to a waiting job; late those that did not come back in time,
	// or elsewhere, although nobody took their place.
	lost, late int
	must       bool // keep the place every time
}

// lane is a rack with its gang, its waiting jobs and its count.
type lane struct {
	*bench
	*tries
	side     *contender
	exitCode int32
	gang     *gang
	jobs     []client.Object // that exist now, the gang's own last
	made     int             // gangs so far
}

// fill runs all lanes side by side. One more pool, idle, is room by which Volcano admits the
// waiting jobs: their pods exist, and take the first node that comes free in their lane.
func (b *bench) fill(ctx context.Context) error {
	say("full cluster: racks of %d nodes, one for each kind of recovery", laneNodes)
	idle := cluster.Topology{Name: "idle", Racks: 1, NodesPerRack: 4 * laneNodes, GPUsPerNode: laneGPUs}
	if err := b.cluster.AddTopology(ctx, idle); err != nil {
		return err
	}
	lanes := b.lanes()
	errs := make([]error, len(lanes))
	var group sync.WaitGroup
	for i, l := range lanes {
		b.results.kept = append(b.results.kept, l.tries)
		group.Go(func() {
			if err := l.play(ctx); err != nil {
				errs[i] = fmt.Errorf("lane %s: %w", l.gang.pool.Name, err)
			}
		})
	}
	group.Wait()
	return errors.Join(append(errs, b.cluster.Err())...)
}

// lanes are one for a single pod and one for the whole gang, of each kind of gang. A whole gang of
// ours fails as a program does, and is mended by the default ladder.
func (b *bench) lanes() []*lane {
	kinds := []struct {
		pool    string
		tries   tries
		side    *contender
		hold    v1alpha1.HoldPolicy
		allExit int32
	}{
		{"standing", tries{who: "Lockstep, `hold: {policy: Always}`", of: b.options.kept, must: true}, &lockstep, v1alpha1.HoldAlways, exitPod},
		{"default", tries{who: "Lockstep, default hold", of: b.options.kept}, &lockstep, v1alpha1.HoldOnRecovery, exitPod},
		{"peer", tries{who: "Volcano, RestartPod and RestartJob", of: b.options.keptPeers}, &volcano, "", exitJob},
	}
	var lanes []*lane
	for _, k := range kinds {
		for _, whole := range []bool{false, true} {
			counted, name, exitCode := k.tries, k.pool+"-one", exitPod
			if counted.whole = whole; whole {
				name, exitCode = k.pool+"-all", k.allExit
			}
			pool := cluster.Topology{Name: name, Racks: 1, NodesPerRack: laneNodes, GPUsPerNode: laneGPUs}
			lanes = append(lanes, &lane{
				bench: b, tries: &counted, side: k.side, exitCode: exitCode,
				gang: &gang{pods: laneNodes, pool: pool, hold: k.hold},
			})
		}
	}
	return lanes
}

// play tries as often as it shall. A gang that has kept its place stays for the next try.
func (l *lane) play(ctx context.Context) error {
	if err := l.cluster.AddTopology(ctx, l.gang.pool); err != nil {
		return err
	}
	for i := range l.of {
		if len(l.jobs) == 0 {
			if err := l.settle(ctx); err != nil {
				return err
			}
		}
		kept, err := l.try(ctx, i)
		if err == nil && !kept {
			err = l.clear(ctx)
		}
		if err != nil {
			return err
		}
	}
	say("full cluster, %s: %d of %d kept, %d lost, %d late", l.gang.pool.Name, l.kept, l.of, l.lost, l.late)
	return l.clear(ctx)
}

// settle fills the rack with a gang, and lets two jobs wait for it.
func (l *lane) settle(ctx context.Context) error {
	l.made++
	l.gang.name = fmt.Sprintf("%s-gang%d", l.gang.pool.Name, l.made)
	if err := l.make(ctx, l.side.gang(l.gang)); err != nil {
		return err
	}
	if _, err := l.recorder.await(ctx, l.gang.name, fullTimeout, func(now lives) bool { return now.run(laneNodes) }); err != nil {
		return fmt.Errorf("waiting until %s runs: %w", l.gang.name, err)
	}
	if err := l.calm(ctx, l.side, l.gang.name); err != nil {
		return err
	}
	for name, pods := range l.others() {
		if err := l.make(ctx, cluster.VolcanoJob(name, l.gang.pool.Name, pods, laneGPUs)); err != nil {
			return err
		}
	}
	for name, pods := range l.others() {
		waiting := func(now lives) bool { return len(now) == int(pods) && now.last(bound).IsZero() }
		if _, err := l.recorder.await(ctx, name, fullTimeout, waiting); err != nil {
			return fmt.Errorf("waiting until the pods of %s wait: %w", name, err)
		}
	}
	return sleep(ctx, settle)
}

func (l *lane) make(ctx context.Context, job client.Object) error {
	if err := l.cluster.Client().Create(ctx, job); err != nil {
		return fmt.Errorf("create %s: %w", job.GetName(), err)
	}
	l.jobs = append([]client.Object{job}, l.jobs...)
	return nil
}

// others are the waiting jobs and their pods.
func (l *lane) others() map[string]int32 {
	return map[string]int32{
		fmt.Sprintf("%s-small%d", l.gang.pool.Name, l.made): smallPods,
		fmt.Sprintf("%s-large%d", l.gang.pool.Name, l.made): largePods,
	}
}

// taken reports whether a waiting job has got a node.
func (l *lane) taken() bool {
	for name := range l.others() {
		if !l.recorder.present(name).last(bound).IsZero() {
			return true
		}
	}
	return false
}

// try fails one pod or all, and says whether the gang came back on all its nodes.
func (l *lane) try(ctx context.Context, i int) (bool, error) {
	before := l.recorder.present(l.gang.name)
	victims := lives{i % laneNodes: before[i%laneNodes]}
	if l.whole {
		victims = before
	}
	var keys []client.ObjectKey
	for _, v := range victims {
		keys = append(keys, client.ObjectKey{Namespace: namespace, Name: v.name})
	}
	// A pod may be gone before its turn to fail.
	if err := l.cluster.FailPods(ctx, l.exitCode, keys...); client.IgnoreNotFound(err) != nil {
		return false, err
	}
	now, err := l.recorder.await(ctx, l.gang.name, fullTimeout, func(now lives) bool {
		return l.taken() || now.run(laneNodes) && len(victims.replaced(now)) == len(victims)
	})
	if err == nil && !l.taken() {
		err = l.calm(ctx, l.side, l.gang.name)
	}
	switch {
	case l.taken():
		l.lost++
	case errors.Is(err, errLate) || err == nil && !sameNodes(before, now):
		l.late++
	case err != nil:
		return false, err
	default:
		l.kept++
		return true, nil
	}
	return false, nil
}

// clear takes the gang and the waiting jobs away, these first.
func (l *lane) clear(ctx context.Context) error {
	for _, job := range l.jobs {
		if err := l.remove(ctx, job); err != nil {
			return err
		}
	}
	l.jobs = nil
	return nil
}
