// Where a replacement goes when its own node is lost: to a spare's node, to a free one,
// and, where home is full, nowhere until there is room or the ladder leaves home.

package e2e

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// spares gives the workers placeholders.
func spares(n int32) func(*v1alpha1.TrainingJob) {
	return func(j *v1alpha1.TrainingJob) { j.Spec.Tasks[0].Spares = &n }
}

// workers are the job's pods without its spares; spares are these alone.
func (s *scenario) workers() map[string]corev1.Pod { return s.podsThat(false) }
func (s *scenario) spares() map[string]corev1.Pod  { return s.podsThat(true) }

func (s *scenario) podsThat(areSpares bool) map[string]corev1.Pod {
	s.t.Helper()
	out := s.pods()
	for name, p := range out {
		if (p.Labels[v1alpha1.LabelSpare] == "true") != areSpares {
			delete(out, name)
		}
	}
	return out
}

// sparesRun waits until n spares hold a node, and returns these nodes.
func (s *scenario) sparesRun(n int) []string {
	s.t.Helper()
	var nodes []string
	s.awaitAny("the spares run", func(ctxT) (bool, error) {
		nodes = nil
		for _, p := range s.spares() {
			if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp.IsZero() {
				nodes = append(nodes, p.Spec.NodeName)
			}
		}
		return len(nodes) == n, nil
	})
	return nodes
}

func TestSpareIsUsedFirstAndReturnedWhenHomeHasRoom(t *testing.T) {
	s := newScenario(t, "spare", 2, 6, 2)
	s.run(s.trainingJob(4, tier(2), spares(1)))
	spare := s.sparesRun(1)[0]
	before, victim := s.workers(), s.pod(1)
	home := s.rackOf(victim.Spec.NodeName)

	s.must(testCluster.DeleteNode(s.ctx, victim.Spec.NodeName), "delete a node")
	s.recovered(1)

	s.untouched(before, victim.Name)
	if got := s.pod(1).Spec.NodeName; got != spare {
		t.Errorf("the rank went to node %s, and the spare held %s", got, spare)
	}
	again := s.sparesRun(1)[0]
	s.snapshot("spare-adopted")
	s.atHome(home)
	if slices.Contains(s.nodesOfRanks(), again) {
		t.Errorf("the spare is back on node %s, which a rank has", again)
	}
	if s.job.Status.Ready != "4/4" {
		t.Errorf("ready %s: spares are not counted in the gang", s.job.Status.Ready)
	}
}

func TestMoreFailuresThanSparesOnAFullRack(t *testing.T) {
	s := newScenario(t, "sparefew", 1, 6)
	s.run(s.trainingJob(4, spares(1)))
	s.sparesRun(1)
	before, a, b := s.workers(), s.pod(0), s.pod(3)

	s.withoutManager(func() { // a new one sees at once that both are gone
		s.must(testCluster.DeleteNode(s.ctx, a.Spec.NodeName, b.Spec.NodeName), "delete two nodes")
	})
	s.recovered(1)

	s.untouched(before, a.Name, b.Name)
	for _, p := range s.spares() {
		if p.Spec.NodeName != "" || len(p.Spec.SchedulingGates) == 0 {
			t.Errorf("spare %s is on %q: home has no room for it, and it waits behind its gate", p.Name, p.Spec.NodeName)
		}
	}
}

func TestSpareThatLosesItsNodeTakesAnother(t *testing.T) {
	s := newScenario(t, "sparelost", 1, 6)
	s.run(s.trainingJob(4, spares(1)))
	before, spare := s.workers(), s.sparesRun(1)[0]

	s.must(testCluster.DeleteNode(s.ctx, spare), "delete the spare's node")
	s.awaitAny("the spare has another node", func(ctxT) (bool, error) {
		return !slices.Contains(s.sparesRun(1), spare), nil
	})

	s.untouched(before)
	if n := len(s.job.Status.Incidents); n != 0 {
		t.Errorf("%d incidents: nothing of the gang broke", n)
	}
}

func TestSparesChangeLive(t *testing.T) {
	s := newScenario(t, "sparelive", 1, 6)
	s.run(s.trainingJob(3, spares(0)))
	before := s.workers()

	s.change("ask for two spares", func(j *v1alpha1.TrainingJob) { j.Spec.Tasks[0].Spares = ptr.To[int32](2) })
	s.sparesRun(2)
	s.change("ask for one", func(j *v1alpha1.TrainingJob) { j.Spec.Tasks[0].Spares = ptr.To[int32](1) })
	s.sparesRun(1)
	s.untouched(before)

	var workers []corev1.Pod
	for _, p := range s.workers() {
		workers = append(workers, p)
	}
	for _, p := range workers {
		s.must(testCluster.SucceedPods(s.ctx, keyOf(p)), "let a worker succeed")
	}
	s.await("the job completes", func() bool { return s.job.Status.State == v1alpha1.StateCompleted })
	s.awaitAny("the spare is gone", func(ctxT) (bool, error) {
		for _, p := range s.spares() {
			if p.Status.Phase == corev1.PodRunning {
				return false, nil
			}
		}
		return true, nil
	})
}

// Home full: the replacement waits, the condition says for what, nothing else is
// touched, and after its time the job goes elsewhere.
func TestHomeFullWaitsThenRelocates(t *testing.T) {
	s := newScenario(t, "homefull", 2, 4)
	s.run(s.trainingJob(4, rules(
		rule("no-room", v1alpha1.PodPending, step(v1alpha1.RestartPod, 0), step(v1alpha1.RelocateJob, 40)),
		// These would come while it waits: after the 30 s and more in which no node is found, and before it relocates 40 s later.
		anything(step(v1alpha1.RestartPod, 0), step(v1alpha1.RestartTask, 60), step(v1alpha1.RestartJob, 65)),
	)))
	before, victim := s.pods(), s.pod(1)
	home := s.rackOf(victim.Spec.NodeName)

	s.must(testCluster.DeleteNode(s.ctx, victim.Spec.NodeName), "delete a node of a full home")
	s.await("the condition tells what it waits for", func() bool {
		c := meta.FindStatusCondition(s.job.Status.Conditions, v1alpha1.ConditionRecovering)
		return c != nil && strings.Contains(c.Message, "waits for room in HyperNode "+s.job.Status.Placement.HyperNode)
	})
	s.await("it counts as without room", func() bool { return len(s.job.Status.Incidents) == 2 })
	s.snapshot("home-full")
	s.untouched(before, victim.Name)
	s.recovered(2)

	s.atHome(1 - home)
	s.snapshot("relocated")
	for _, action := range s.steps() {
		if action == v1alpha1.RestartTask || action == v1alpha1.RestartJob {
			t.Errorf("%s was taken: it makes no room", action)
		}
	}
}

// A node that comes free in time ends the waiting, and no other pod is touched.
func TestHomeFullUntilANodeComesFree(t *testing.T) {
	s := newScenario(t, "homefree", 2, 5)
	s.run(s.trainingJob(4))
	home := s.rackOf(s.pod(0).Spec.NodeName)
	s.must(testCluster.FillRack(s.ctx, s.pool.Rack(home), 0), "fill the rack with other work")
	before, victim := s.pods(), s.pod(1)

	s.must(testCluster.DeleteNode(s.ctx, victim.Spec.NodeName), "delete a node")
	s.await("it waits for room", func() bool {
		c := meta.FindStatusCondition(s.job.Status.Conditions, v1alpha1.ConditionRecovering)
		return c != nil && strings.Contains(c.Message, "waits for room")
	})
	s.must(testCluster.Vacate(s.ctx, s.pool.RackNodes(home)...), "let the other work leave")
	s.recovered(1)

	s.untouched(before, victim.Name)
	s.atHome(home)
}
