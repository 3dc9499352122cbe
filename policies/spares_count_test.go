// Spares: how many there are, and what they do not count in.

package policies

import (
	"testing"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/test/check"
)

func TestTheNumberOfSparesMayChange(t *testing.T) {
	tests := map[string]struct {
		from, to int32
		want     *gang.Size
	}{
		"the same":  {2, 2, nil},
		"fewer":     {2, 1, &gang.Size{MinAvailable: 3, Replicas: map[string]int32{"worker": 3, "worker-spare": 1}}},
		"none":      {2, 0, &gang.Size{MinAvailable: 3, Replicas: map[string]int32{"worker": 3, "worker-spare": 0}}},
		"more":      {1, 2, &gang.Size{MinAvailable: 3, Replicas: map[string]int32{"worker": 3, "worker-spare": 2}}},
		"from none": {0, 2, &gang.Size{MinAvailable: 3, Replicas: map[string]int32{"worker": 3, "worker-spare": 2}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := spared(tc.from, atOnce)
			s.Job.Spec.Tasks[0].Spares = new(tc.to)
			s.decide()
			check.Equal(t, "resize", tc.want, s.plan().Resize)
			check.Equal(t, "state", v1alpha1.StateRunning, s.status().State)
			check.Equal(t, "deleted", nil, s.deleted())
			check.Equal(t, "spares", tc.to, gang.Spares(s.Job))
			s.lose("n01") // a spare that is not asked for any more is not taken
			s.decide()
			taken := s.nodes()[1] != "n01"
			check.Equal(t, "taken", min(tc.from, tc.to) > 0, taken)
		})
	}
}

func TestSparesDoNotCount(t *testing.T) {
	s := spared(2, rule("late", step(v1alpha1.RestartPod, 60)))
	check.Equal(t, "replicas", int32(3), gang.Replicas(s.Job))
	check.Equal(t, "gang", int32(3), gang.MinAvailable(s.Job))
	s.replace(3)
	s.decide()
	check.Equal(t, "ready", "3/3", s.status().Ready)
	check.Equal(t, "state", v1alpha1.StateRunning, s.status().State)
	check.Equal(t, "counted apart", []v1alpha1.TaskStatus{
		{Name: "worker", Replicas: 3, Ready: 3}, {Name: "worker-spare", Replicas: 2, Ready: 1},
	}, s.status().Tasks)

	// A spare that is ready does not stand in for a rank that is not.
	s.unready(0)
	s.decide()
	check.Equal(t, "ready", "2/3", s.status().Ready)
	check.Equal(t, "running", v1alpha1.ReasonPodsNotReady, conditionReason(s, v1alpha1.ConditionRunning))

	s.succeed(0)
	s.succeed(1)
	s.succeed(2)
	s.decide()
	check.Equal(t, "state", v1alpha1.StateCompleted, s.status().State)
	check.Equal(t, "stop, for the sake of the spares", Plan{Stop: StopCompleted}, s.plan())
}

// The gang alone says when a job is placed and when all of it fell.
func TestASpareIsNotOfTheGang(t *testing.T) {
	s := aScene(aJob().tasks(task("worker", 2, withSpares(1)))).started()
	s.bind(0, "n00")
	s.bind(2, "n02")
	s.decide()
	check.Equal(t, "placed", true, s.status().Placement == nil)
	s.bind(1, "n01")
	s.decide()
	check.Equal(t, "nodes", []string{"n00", "n01"}, s.nodes())
	s.crash(0, 1)
	s.crash(1, 1)
	s.VolcanoJobs[0].Ended = true
	s.decide()
	check.Equal(t, "attempt", int32(2), s.status().Attempt)
}
