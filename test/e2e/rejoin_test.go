// A node is deleted, and joins again under its name.

package e2e

import (
	"testing"
)

// A rank that has lost its node and finds no other room at home is back on it soon after the node has joined again, well before
// the job would relocate.
func TestNodeThatJoinsAgainIsUsed(t *testing.T) {
	s := newScenario(t, "rejoins", 2, 3)
	s.run(s.trainingJob(3))
	before, victim := s.pods(), s.pod(1)

	node := s.takeAway(victim.Spec.NodeName)
	s.await("the node is excluded", func() bool { return len(s.job.Status.ExcludedNodes) == 1 })
	s.searches(1)
	s.must(testCluster.Client().Create(s.ctx, node), "let it join again")
	s.await("the rank is back", func() bool { return s.job.Status.Ready == "3/3" })

	s.untouched(before, victim.Name)
	if got := s.pod(1).Spec.NodeName; got != node.Name {
		t.Errorf("the rank is on node %s, want %s, which joined again", got, node.Name)
	}
	if r := s.job.Status.Restarts; r.Relocations > 0 || r.Job > 0 {
		t.Errorf("restarts %+v: want no relocation", r)
	}
	if e := s.job.Status.ExcludedNodes; len(e) > 0 {
		t.Errorf("excluded nodes %v, want none", e)
	}
}
