// A part of the gang breaks, and only that part moves, and not far.

package e2e

import (
	"testing"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

func TestHardTier1ReplacementAtHome(t *testing.T) {
	s := newScenario(t, "tier1", 2, 6)
	s.run(s.trainingJob(4))
	before, victim := s.pods(), s.pod(2)
	home := s.rackOf(victim.Spec.NodeName)

	s.must(testCluster.DeleteNode(s.ctx, victim.Spec.NodeName), "delete the node")
	s.recovered(1)

	s.untouched(before, victim.Name)
	s.atHome(home)
	if got := s.job.Status.Incidents[0].Trigger; got != v1alpha1.NodeGone {
		t.Errorf("trigger %s, want NodeGone", got)
	}
}
