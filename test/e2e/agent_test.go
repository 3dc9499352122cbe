// From a fault that DCGM reports to the right pod moved.

package e2e

import (
	"slices"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

func hasReports(h v1alpha1.NodeHealthStatus) bool { return len(h.Reports) > 0 }

func isUnknown(h v1alpha1.NodeHealthStatus) bool {
	return len(h.Sources) == 1 && h.Sources[0].State == v1alpha1.HealthUnknown
}

func TestFaultThatDCGMReportsMovesThePodThatHoldsTheGPU(t *testing.T) {
	needsAgent(t)
	s := newScenario(t, "dcgm", 1, 6)
	s.run(s.trainingJob(4))
	before, victim := s.pods(), s.pod(1)
	name := victim.Spec.NodeName
	gpus := s.startAgent(name)

	gpus.dcgm.XID(1, 79, time.Now())
	s.published(name, "the fault of the idle GPU is known", func(h v1alpha1.NodeHealthStatus) bool {
		return hasReports(h) && h.Reports[0].Unused
	})
	s.settled()
	s.untouched(before) // nobody holds that GPU

	gpus.dcgm.EngineDown()
	s.published(name, "the engine is missed", func(h v1alpha1.NodeHealthStatus) bool { return isUnknown(h) && hasReports(h) })
	s.settled()
	s.untouched(before) // nobody can tell

	gpus.dcgm.EngineUp()
	gpus.dcgm.XID(0, 79, time.Now())
	s.await("the incident opens", func() bool { return len(s.job.Status.Incidents) == 1 })
	s.recovered(1)
	s.untouched(before, victim.Name)
	if inc := s.job.Status.Incidents[0]; inc.Trigger != v1alpha1.HealthFailed || inc.Cause.Signal != "XID79" {
		t.Errorf("trigger %s, signal %s", inc.Trigger, inc.Cause.Signal)
	}
	if s.pod(1).Spec.NodeName == name {
		t.Error("the pod is back on the node of its failed GPU")
	}

	s.must(gpus.agent.Kill(), "kill the agent")
	s.must(gpus.agent.Start(s.ctx), "start it again")
	s.settled()
	s.published(name, "a new agent heals nothing", func(h v1alpha1.NodeHealthStatus) bool { return len(h.Reports) >= 2 })
}

// A rack of GPU nodes, each with an agent of its own: a link goes down, then no engine answers, then all
// of them call their GPUs lost.
func TestRackOfGPUNodes(t *testing.T) {
	needsAgent(t)
	s := newScenario(t, "gpurack", 2, 6)
	s.run(s.trainingJob(4))
	before, victim := s.pods(), s.pod(2)
	home := s.rackOf(victim.Spec.NodeName)
	nodes := map[string]gpuNode{}
	for _, name := range s.pool.RackNodes(home) {
		nodes[name] = s.startAgent(name)
	}

	nodes[victim.Spec.NodeName].dcgm.SetLink(0, 0, linkDown)
	s.await("the incident opens", func() bool { return len(s.job.Status.Incidents) == 1 })
	s.recovered(1)
	s.untouched(before, victim.Name)
	s.atHome(home)
	if inc := s.job.Status.Incidents[0]; inc.Trigger != v1alpha1.HealthFailed || inc.Cause.Signal != "NVLinkDown" || inc.PodCount != 1 {
		t.Errorf("trigger %s, signal %s, %d pods", inc.Trigger, inc.Cause.Signal, inc.PodCount)
	}
	s.await("its node alone is in quarantine", func() bool { return slices.Equal(s.quarantined(), []string{victim.Spec.NodeName}) })

	before = s.pods()
	for name, n := range nodes {
		n.dcgm.EngineDown()
		s.published(name, "the engine is missed", isUnknown)
	}
	s.settled()
	s.untouched(before)

	for _, n := range nodes {
		n.dcgm.EngineUp()
		n.dcgm.XID(0, 79, time.Now())
	}
	for name := range nodes {
		s.published(name, "a lost GPU is known, and judged", func(h v1alpha1.NodeHealthStatus) bool {
			return hasReports(h) && h.Verdict != nil && h.Verdict.State == v1alpha1.HealthStateFailed
		})
	}
	s.awaitAny("two nodes are in quarantine", func(ctxT) (bool, error) { return len(s.quarantined()) == 2, nil })
	s.settled()
	// Two nodes of six an hour: the one whose link went down was the first.
	if n := len(s.quarantined()); n != 2 {
		t.Errorf("%d nodes of the rack are in quarantine, want 2", n)
	}
	if moved := s.moved(before); moved > 1 {
		t.Errorf("%d pods were moved, want no more than the one whose node was let through", moved)
	}
}
