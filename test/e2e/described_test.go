// The verbs of kubectl lockstep that show a job on one page, and all jobs as they are now.

package e2e

import (
	"testing"
)

// No other test may run beside: the roles of users are made for it.
func TestAJobIsDescribed(t *testing.T) {
	s := newScenarioAlone(t, "described", 1, 4)
	s.run(s.trainingJob(3))
	user := s.userWith("lockstep-explain")
	home := s.pool.Rack(0)
	s.says(user, []string{"describe", s.job.Name},
		"Name: described Namespace: default", "State: Running, 3/3 pods ready, attempt 1", "Restart policy: the default (the job gives none)",
		"Home: HyperNode "+home+" of tier 1", home+" (3 ranks):", "Restarts: none", "Budget left: 20 of 20 charged restarts in 24h", "Incidents: none", "PodsReady")
	lost := s.pod(1).Spec.NodeName
	s.must(testCluster.DeleteNode(s.ctx, lost), "delete a node")
	s.recovered(1)
	s.says(user, []string{"describe", "tj/" + s.job.Name},
		"1 NodeGone", "Recovered RestartPod", "on "+lost, "Keeps away from: node "+lost, "Restarts: 1: 1 of pods", "lost to NodeGone",
		"worker-1="+s.pod(1).Spec.NodeName, "Events: AGO TYPE REASON", "IncidentRecovered")
	s.refuses(user, []string{"describe", "nowhere"}, `trainingjobs.lockstep.dev "nowhere" not found in namespace default`)
}
