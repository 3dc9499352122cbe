// The latest failure: a step for pods replaces the rank that keeps its gang from starting now.

package policies

import (
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/placement"
	"github.com/lockstep-dev/lockstep/test/check"
)

// failing has the program of worker 0 fail at each start of the gang, until a pod is replaced.
func (s *scene) failing(until time.Duration) {
	for s.Now.Before(sceneStart.Add(until)) && s.status().Restarts.Total == s.status().Restarts.Process {
		s.all(gang.ProcessRunning)
		s.fails(0, 1)
		s.after(time.Second).decide()
	}
}

// A node that was silent for a moment has its pods back, and another rank fails: that one gets another pod.
func TestTheRankThatFailsIsReplacedAfterANodeWasSilent(t *testing.T) {
	s := supervised(3)
	s.fails(1, 1)
	s.decide()
	s.breakNode("n01")
	s.after(time.Second).decide()
	check.Equal(t, "trigger", v1alpha1.NodeNotReady, s.incident(t).Trigger)
	s.node("n01", func(n *gang.Node) { n.Ready = true })
	s.failing(130 * time.Second)
	check.Equal(t, "lives", []int32{1, 0, 0}, s.lives())
	check.Equal(t, "named", "llm-1-worker-0", s.incident(t).Pods[0].Name)
	check.Equal(t, "cause", "llm-1-worker-1", s.incident(t).Cause.Pod)
	check.Equal(t, "incidents", 1, len(s.status().Incidents))
}

// A rank that fails at each start is moved off its own node, and not off that of the rank that failed first.
func TestTheRankThatFailsAtEachStartLeavesItsNode(t *testing.T) {
	s := supervised(3, rule("all", on(v1alpha1.AnyEvent), step(v1alpha1.RestartProcesses, 0), step(v1alpha1.MigratePod, 120)))
	s.fails(1, 1)
	s.decide()
	s.failing(130 * time.Second)
	check.Equal(t, "lives", []int32{1, 0, 0}, s.lives())
	check.Equal(t, "n00 is excluded", true, placement.Excluded(s.status(), "n00"))
	check.Equal(t, "n01 is excluded", false, placement.Excluded(s.status(), "n01"))
}

// A rank whose old pod is still there on a silent node stays in its incident when another one is named.
func TestARankWhoseOldPodIsStillThereIsNotForgotten(t *testing.T) {
	s := keepsSurvivors(rule("all", on(v1alpha1.AnyEvent), step(v1alpha1.RestartProcesses, 0), step(v1alpha1.RestartPod, 60), step(v1alpha1.RestartPod, 120)))
	s.fails(0, 1)
	s.decide()
	s.reports(0, gang.ProcessRunning)
	s.breakNode("n01")
	s.after(time.Second).decide()
	s.after(time.Minute).decide()
	check.Equal(t, "lives", []int32{0, 1, 0}, s.lives())
	s.fails(0, 1)
	s.after(time.Minute).decide()
	check.Equal(t, "lives", []int32{1, 1, 0}, s.lives())
	check.Equal(t, "pods of the incident", int32(2), s.incident(t).PodCount)
}
