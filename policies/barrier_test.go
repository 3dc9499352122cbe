// The barrier: when the programs of a supervised gang may start, and which restarts it follows.

package policies

import (
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/test/check"
)

// No rank is at the barrier of a gang that has yet to find its first place: its pods may have been given an earlier epoch.
func TestAGangWithoutAPlaceIsNotAtItsBarrier(t *testing.T) {
	job := aJob().tasks(task("worker", 2))
	job.Spec.Supervisor = &v1alpha1.Supervisor{}
	s := aScene(job).started()
	s.decide()
	check.Equal(t, "placement", nil, s.status().Placement)
	check.Equal(t, "order", &Order{Epoch: 1}, s.plan().Order)
}

// The program of a pod that was given the first epoch starts at once. One that waits for a node when the gang moves on is replaced, and waited for
// until it is gone.
func TestAPodThatWaitsForANodeMeetsNoLaterEpoch(t *testing.T) {
	s := supervised(3)
	s.Job.Spec.MinAvailable = new(int32(2))
	s.replace(2)
	s.search(2)
	s.status().Placement.Tasks[0].Nodes[2] = ""
	s.decide()
	s.fails(0, 1)
	s.decide()
	check.Equal(t, "epoch", int64(2), s.status().Epoch)
	check.Equal(t, "lives", []int32{0, 0, 1}, s.lives())
	check.Equal(t, "deleted", []string{s.Pods[2].UID}, s.deleted())
	for i := range 2 {
		s.reports(i, gang.ProcessWaiting)
	}
	check.Equal(t, "start while it is there", false, s.plan().Order.Start)
	s.replace(2)
	s.decide()
	check.Equal(t, "start", true, s.plan().Order.Start)
	check.Equal(t, "epoch of the next pod", "2", s.plan().Lift[0].Annotations[v1alpha1.AnnotationEpoch])
	s.search(2)
	s.fails(0, 1)
	s.after(11 * time.Second).decide()
	check.Equal(t, "later epoch", int64(3), s.status().Epoch)
	check.Equal(t, "lives then", []int32{0, 0, 1}, s.lives())
}

// A rank that gets another pod begins another epoch, also where that is for a node that the job may go back to.
func TestAPodForANodeThatIsNotExcludedAnyMoreBeginsAnEpoch(t *testing.T) {
	s := supervised(2, rule("moves", on(v1alpha1.ProcessFailed), step(v1alpha1.MigratePod, 0)))
	s.fails(0, 1)
	s.decide()
	s.all(gang.ProcessWaiting)
	s.replace(0)
	s.decide()
	s.search(0)
	s.node("n00", func(n *gang.Node) { n.Unschedulable = true })
	s.decide()
	check.Equal(t, "excluded", []string{"n00"}, s.excluded())
	lives, epoch := s.lives()[0], s.status().Epoch
	s.after(2 * time.Hour).decide()
	check.Equal(t, "excluded", nil, s.excluded())
	check.Equal(t, "incarnation", lives+1, s.lives()[0])
	check.Equal(t, "epoch", epoch+1, s.status().Epoch)
}

// A rank whose supervisor is heard is none that has yet to find its first node, though the cache does not show where its pod runs.
func TestARankThatIsHeardHasToReachTheBarrier(t *testing.T) {
	s := supervised(3)
	s.fails(0, 1)
	s.decide()
	s.all(gang.ProcessWaiting)
	s.Pods[2].Node, s.status().Placement.Tasks[0].Nodes[2] = "", ""
	s.Pods[2].Process = &gang.Process{State: gang.ProcessRunning, Epoch: 1}
	check.Equal(t, "start", false, s.plan().Order.Start)
	s.Pods[2].Process = nil
	check.Equal(t, "start without a rank that looks for its first node", true, s.plan().Order.Start)
}

// The present attempt may be at the barrier before all pods of an earlier one are gone.
func TestProgramsOfAnEarlierAttemptDoNotStart(t *testing.T) {
	s := supervised(3, rule("rest", step(v1alpha1.RestartPod, 0)))
	check.Equal(t, "of the first attempt", 0, len(s.plan().Superseded))
	s.VolcanoJobs = nil
	s.decide()
	check.Equal(t, "attempt", int32(2), s.status().Attempt)
	want := []string{s.Pods[0].UID, s.Pods[1].UID, s.Pods[2].UID}
	check.Equal(t, "of an earlier attempt", want, s.plan().Superseded)
	for i := range s.Pods {
		s.Pods[i].Attempt, s.Pods[i].Incarnation = 2, gang.Incarnation(s.status(), "worker", int32(i))
	}
	check.Equal(t, "of the present attempt", 0, len(s.plan().Superseded))
}
