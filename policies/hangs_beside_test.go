// Hangs beside what else is wrong with a job: seen where that stops no training, and not taken for a hang where it does.

package policies

import (
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/test/check"
)

// restartsHang waits until the programs of a gang are restarted, for an hour.
func (s *scene) restartsHang(t *testing.T) {
	t.Helper()
	for i := 0; i < 60 && s.status().Epoch == 1; i++ {
		s.after(time.Minute).decide()
	}
	check.Equal(t, "stalled", true, s.stalled() != "" || s.status().Epoch > 1)
	check.Equal(t, "epoch", int64(2), s.status().Epoch)
	last := s.status().Incidents[len(s.status().Incidents)-1]
	check.Equal(t, "trigger", v1alpha1.Stalled, last.Trigger)
	check.Equal(t, "cause", s.Pods[1].Name, last.Cause.Pod)
}

// The pod of an independent task needs nobody, and nobody needs it.
func TestAHangBesideAnIndependentTaskThatFails(t *testing.T) {
	for name, rule := range map[string]v1alpha1.Rule{
		"without a rule":         rule("gone", on(v1alpha1.NodeGone), step(v1alpha1.RestartPod, 0)),
		"ignored":                rule("rest", on(v1alpha1.AnyEvent), step(v1alpha1.Ignore, 0)),
		"whose step comes later": rule("rest", on(v1alpha1.AnyEvent), step(v1alpha1.RestartPod, 86400)),
	} {
		t.Run(name, func(t *testing.T) {
			job := aJob().tasks(task("worker", 3), task("board", 1, func(t *v1alpha1.Task) { t.Independent = true }))
			job.Spec.Supervisor, job.Spec.MinAvailable = &v1alpha1.Supervisor{}, new(int32(3))
			job.Spec.RestartPolicy = &v1alpha1.RestartPolicy{Rules: []v1alpha1.Rule{hangs(step(v1alpha1.RestartProcesses, 0)), rule}}
			s := aScene(job).started().placed()
			for i := range 3 {
				s.reports(i, gang.ProcessRunning)
			}
			s.decide()
			s.after(time.Hour)
			s.steps(0)
			s.decide()
			s.do(gang.ActivityIdle, gang.ActivityStopped, 1)
			s.crash(3, 1)
			s.restartsHang(t)
		})
	}
}

// A replica beyond the gang has found no node. The gang trains without it.
func TestAHangBesideAReplicaWithoutANode(t *testing.T) {
	for name, rule := range map[string]v1alpha1.Rule{
		"ignored":        rule("no-room", on(v1alpha1.PodPending), step(v1alpha1.Ignore, 0)),
		"without a rule": rule("gone", on(v1alpha1.NodeGone), step(v1alpha1.RestartPod, 0)),
	} {
		t.Run(name, func(t *testing.T) {
			job := aJob().tasks(task("worker", 4))
			job.Spec.Supervisor, job.Spec.MinAvailable = &v1alpha1.Supervisor{}, new(int32(3))
			job.Spec.RestartPolicy = &v1alpha1.RestartPolicy{Rules: []v1alpha1.Rule{hangs(step(v1alpha1.RestartProcesses, 0)), rule}}
			s := aScene(job).started()
			s.fill("n00", "n01", "n02")
			for node := range s.Nodes {
				if node > "n05" {
					s.node(node, func(n *gang.Node) { n.Unschedulable = true })
				}
			}
			for i, node := range []string{"n00", "n01", "n02"} {
				s.bind(i, node)
			}
			s.search(3)
			s.decide()
			for i := range 3 {
				s.reports(i, gang.ProcessRunning)
			}
			s.decide()
			s.after(time.Hour)
			s.steps(0)
			s.decide()
			s.do(gang.ActivityIdle, gang.ActivityStopped, 1)
			s.restartsHang(t)
		})
	}
}

// ailing is a gang with a degraded device, whose ranks wait for one that is stopped.
func ailing(rules ...v1alpha1.Rule) *scene {
	s := counting(3)
	s.Job.Spec.RestartPolicy = &v1alpha1.RestartPolicy{Rules: append(rules, hangs(step(v1alpha1.RestartProcesses, 0)))}
	s.do(gang.ActivityIdle, gang.ActivityStopped, 1)
	s.Pods[0].Signals = []gang.Signal{{Name: "NVLinkReplay"}}
	return s
}

// The move from a degraded device waits, be it for somebody to acknowledge it. The gang trains on meanwhile.
func TestAHangBesideADegradedDevice(t *testing.T) {
	s := ailing(rule("degraded", on(v1alpha1.HealthDegraded), step(v1alpha1.MigratePod, 0)))
	s.HealthPolicy = &v1alpha1.HealthPolicySpec{Breaker: v1alpha1.Breaker{Job: &v1alpha1.BreakerLimit{Percent: 1, Count: new(int32(0))}}}
	s.decide()
	s.restartsHang(t)
}

// Programs save a checkpoint for the move, and need not say so.
func TestACheckpointForAMoveIsNoHang(t *testing.T) {
	s := ailing(rule("degraded", on(v1alpha1.HealthDegraded), step(v1alpha1.MigratePod, 0)))
	jobWrapper{s.Job}.saving().Spec.Checkpoint.Request.TimeoutSeconds = 600
	s.decide()
	for range 9 {
		s.after(time.Minute).decide()
		check.Equal(t, "asked", true, s.incident(t).Checkpoint != nil)
		check.Equal(t, "stalled", "", s.stalled())
	}
}

// The breaker begins to hold the move back, or the device recovers, while the programs save the checkpoint for it. They are not told.
func TestACheckpointThatNobodyWaitsForIsNoHang(t *testing.T) {
	for name, happens := range map[string]func(*scene){
		"the breaker": func(s *scene) {
			s.HealthPolicy = &v1alpha1.HealthPolicySpec{Breaker: v1alpha1.Breaker{Job: &v1alpha1.BreakerLimit{Percent: 1, Count: new(int32(0))}}}
		},
		"the device recovers": func(s *scene) { s.Pods[0].Signals = nil },
	} {
		t.Run(name, func(t *testing.T) {
			s := ailing(rule("degraded", on(v1alpha1.HealthDegraded), step(v1alpha1.MigratePod, 0)))
			jobWrapper{s.Job}.saving().Spec.Checkpoint.Request.TimeoutSeconds = 600
			s.decide()
			for range 5 {
				s.after(time.Minute).decide()
			}
			happens(s)
			s.decide()
			check.Equal(t, "checkpoint", v1alpha1.CheckpointCancelled, s.incident(t).Checkpoint.Outcome)
			for range 5 {
				s.after(time.Minute).decide()
				check.Equal(t, "stalled", "", s.stalled())
			}
			s.after(time.Minute).decide()
			s.restartsHang(t)
		})
	}
}

// A failure is found in the very pass in which a step for a hang is due, be it one that joins the incident of a degraded device, or that no rule is for.
func TestAStepForAHangInThePassThatFindsAFailure(t *testing.T) {
	silent := func(s *scene) { s.breakNode("n02") }
	for name, finds := range map[string]struct {
		on       v1alpha1.EventType
		degraded bool
		happens  func(*scene)
	}{
		"a silent node":                          {v1alpha1.AnyEvent, false, silent},
		"a silent node beside a degraded device": {v1alpha1.AnyEvent, true, silent},
		"a silent node without a rule":           {v1alpha1.NodeGone, false, silent},
		"a failed device beside a degraded one":  {v1alpha1.AnyEvent, true, func(s *scene) { s.Pods[2].Signals = []gang.Signal{{Name: "XID79", Failed: true}} }},
	} {
		t.Run(name, func(t *testing.T) {
			s := hanging(gang.ActivityStopped, []int{1}, hangs(step(v1alpha1.FailJob, 60)), rule("rest", on(finds.on), step(v1alpha1.RestartPod, 90)))
			s.decide()
			s.after(55 * time.Second)
			if finds.degraded {
				s.Pods[0].Signals = []gang.Signal{{Name: "NVLinkReplay"}}
			}
			s.decide()
			s.after(5 * time.Second)
			finds.happens(s)
			s.decide()
			check.Equal(t, "finished", false, gang.Finished(s.status()))
		})
	}
}

// What explained that there were no steps is over: the next step has all its time again.
func TestTheClockStartsAtZeroAfterAnIncident(t *testing.T) {
	s := counting(3)
	s.Job.Spec.RestartPolicy = &v1alpha1.RestartPolicy{Rules: []v1alpha1.Rule{
		hangs(step(v1alpha1.RestartProcesses, 0)), rule("rest", on(v1alpha1.AnyEvent), step(v1alpha1.RestartPod, 3600)),
	}}
	s.do(gang.ActivityIdle, gang.ActivityBlocked, 0)
	s.Pods[2].Signals = []gang.Signal{{Name: "XID79", Failed: true}}
	for range 5 {
		s.after(time.Minute).decide()
		check.Equal(t, "stalled", "", s.stalled())
	}
	s.Pods[2].Signals = nil
	s.decide()
	check.Equal(t, "outcome", v1alpha1.OutcomeRecovered, s.incident(t).Outcome)
	for range 2 {
		s.after(time.Second).decide()
		check.Equal(t, "stalled", "", s.stalled())
	}
	s.after(time.Minute).decide()
	check.Equal(t, "stalled after its time", true, s.stalled() != "")
}
