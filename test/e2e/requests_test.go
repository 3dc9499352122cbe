// Users ask for restarts and moves of ranks that run: kubectl lockstep restart and kubectl lockstep migrate.

package e2e

import (
	"testing"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

func TestARankIsRestartedAndMovedOnRequest(t *testing.T) {
	s := newScenario(t, "requests", 2, 4, 2)
	s.run(s.trainingJob(3, tier(1)))
	admin, before := testCluster.Kubeconfig(), s.pods()
	home := s.rackOf(s.pod(0).Spec.NodeName)

	s.says(admin, []string{"restart", "requests", "worker-1", "--reason", "it hangs", "--wait"}, "requests: RestartPod of worker-1 is incident 1", "Recovered after")
	s.await("it runs", func() bool { return s.job.Status.State == v1alpha1.StateRunning })
	s.untouched(before, "requests-1-worker-1")
	if old, is := before["requests-1-worker-1"], s.pod(1); old.UID == is.UID || old.Spec.NodeName != is.Spec.NodeName {
		t.Errorf("worker-1 was on node %s and is on node %s: want another pod there", old.Spec.NodeName, is.Spec.NodeName)
	}
	s.says(admin, []string{"timeline", "requests"}, `RestartRequested ("it hangs")`)

	before = s.pods()
	left := s.pod(0).Spec.NodeName
	s.says(admin, []string{"migrate", "requests", "--node", left, "--wait"}, "requests: MigratePod of worker-0 is incident 2", "Recovered after")
	s.untouched(before, "requests-1-worker-0")
	s.atHome(home)
	if is := s.pod(0).Spec.NodeName; is == left {
		t.Errorf("worker-0 is still on node %s", left)
	}

	// The job keeps away from the node that it has left, and would wait for another one of its four.
	s.refuses(admin, []string{"migrate", "requests", "worker-1"}, "no other node of HyperNode "+s.pool.Rack(home)+" has room for worker-1 now")

	// A script may repeat a command: the same id is carried out once.
	for range 2 {
		s.says(admin, []string{"migrate", "requests", "--all", "--id", "out-of-the-rack", "--wait"}, "requests: RelocateJob of the whole job is incident 3", "Recovered after")
	}
	s.atHome(1 - home)
	s.await("three restarts are counted, none of them charged", func() bool {
		r := s.job.Status.Restarts
		return r.Total == 3 && r.Uncharged == 3 && r.Charged == 0
	})

	s.refuses(admin, []string{"migrate", "requests", "--node", left}, "no rank of TrainingJob requests is on node")
	s.refuses(admin, []string{"migrate", "requests"}, "say what is moved")
	s.refuses(admin, []string{"restart", "requests", "worker-9"}, "names no rank of TrainingJob requests")
	s.says(admin, []string{"suspend", "requests"}, "requests suspended")
	s.refuses(admin, []string{"restart", "requests"}, "is suspended: `kubectl lockstep resume requests`")
}
