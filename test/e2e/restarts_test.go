// The manager or the scheduler goes away in the middle of a recovery. Without the manager the other tests go on.

package e2e

import (
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

func TestManagerRestartedInTheMiddleOfARecovery(t *testing.T) {
	s := newScenario(t, "mgrrestart", 2, 6, 2)
	s.run(s.trainingJob(4, tier(2), rules(anything(step(v1alpha1.RestartPod, 3600)))))
	before, victim := s.pods(), s.pod(1)
	home := s.rackOf(victim.Spec.NodeName)

	s.thenWithoutManager(func() {
		s.must(testCluster.DeleteNode(s.ctx, victim.Spec.NodeName), "delete the node")
		s.await("the incident opens", func() bool { return len(s.job.Status.Incidents) == 1 })
		s.firstPass(1)
	}, func() {})
	s.keepManager()
	s.due(v1alpha1.RestartPod)
	s.recovered(1)

	s.untouched(before, victim.Name)
	s.atHome(home)
	s.tracedByTwo(1)
	if inc := s.job.Status.Incidents; len(inc) != 1 || s.job.Status.Restarts.Total != 1 {
		t.Errorf("incidents %d, restarts %d: want 1 and 1", len(inc), s.job.Status.Restarts.Total)
	}
}

// No other test may run beside: 30 s without the scheduler, and a rank of any job counts as one that finds no room.
func TestSchedulerRestartedInTheMiddleOfARecovery(t *testing.T) {
	s := newScenarioAlone(t, "schedrestart", 2, 6, 2)
	s.run(s.trainingJob(4, tier(2)))
	before, victim := s.pods(), s.pod(1)
	home := s.rackOf(victim.Spec.NodeName)

	scheduler := testCluster.Component(cluster.VolcanoScheduler)
	s.must(scheduler.Kill(), "kill the scheduler")
	s.must(testCluster.DeleteNode(s.ctx, victim.Spec.NodeName), "delete the node")
	s.awaitAny("the replacement's gate is lifted", func(ctxT) (bool, error) {
		p, ok := s.pods()[victim.Name]
		return ok && p.UID != victim.UID && len(p.Spec.SchedulingGates) == 0, nil
	})
	s.must(scheduler.Start(s.ctx), "start the scheduler")
	s.recovered(1)

	s.untouched(before, victim.Name)
	s.atHome(home)
}

func TestNoHoldLeftBehindByAKilledManager(t *testing.T) {
	s := newScenario(t, "holdleft", 1, 4)
	s.run(s.trainingJob(4, standing))
	s.await("the nodes are held", func() bool { return len(s.held()) == 4 })

	s.withoutManager(func() {
		s.must(testCluster.Client().Delete(s.ctx, s.job), "delete the job")
		s.awaitAny("the job's pods are gone", func(ctxT) (bool, error) { return len(s.pods()) == 0, nil })
		if len(s.held()) != 4 {
			t.Error("nobody can have swept the holds yet")
		}
	})
	s.awaitAny("the holds are swept", func(ctxT) (bool, error) { return len(s.held()) == 0, nil })
}

// managerKills is held by the test that kills the manager, and shared by those that need the manager to live on.
var managerKills sync.RWMutex

// keepManager keeps other tests from killing the manager until this one ends. The manager publishes an event once what it tells of
// is in the status: where it is killed between the two, the event is lost.
func (s *scenario) keepManager() {
	managerKills.RLock()
	s.t.Cleanup(managerKills.RUnlock)
}

// withoutManager kills the manager, does something, and starts it again.
func (s *scenario) withoutManager(do func()) {
	s.t.Helper()
	s.thenWithoutManager(func() {}, do)
}

// thenWithoutManager is the same after something that the manager must not have the time to recover from: tests that need it to
// live on are waited for before.
func (s *scenario) thenWithoutManager(first, do func()) {
	s.t.Helper()
	managerKills.Lock()
	defer managerKills.Unlock()
	first()
	s.must(manager.Kill(), "kill the manager")
	do()
	s.must(manager.Start(s.ctx), "start the manager")
}

// held are the nodes of the pool that carry a hold.
func (s *scenario) held() []string {
	s.t.Helper()
	nodes := &corev1.NodeList{}
	s.must(testCluster.Client().List(s.ctx, nodes, s.poolNodes()), "list the nodes")
	var out []string
	for _, n := range nodes.Items {
		for _, taint := range n.Spec.Taints {
			if strings.HasPrefix(taint.Key, v1alpha1.HoldTaintPrefix) {
				out = append(out, n.Name)
			}
		}
	}
	return out
}
