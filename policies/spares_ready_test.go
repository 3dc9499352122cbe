// Readiness of spares.

package policies

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/test/check"
)

// sparesReady is the condition, with its message; empty where there is none.
func (s *scene) sparesReady() string {
	c := meta.FindStatusCondition(s.status().Conditions, v1alpha1.ConditionSparesReady)
	if c == nil {
		return ""
	}
	return string(c.Status) + ", " + c.Message
}

func TestSparesReady(t *testing.T) {
	const away = "False, some spares do not wait for a rank: "
	for name, tc := range map[string]struct {
		story func(*scene)
		want  string
	}{
		"all wait":     {func(*scene) {}, "True, every spare waits for a rank"},
		"one warms up": {func(s *scene) { s.Pods[4].Process.State = gang.ProcessWarmingUp }, away + "llm-1-worker-spare-1 warms up"},
		"one has failed": {func(s *scene) {
			s.Pods[4].Process.State, s.Pods[4].Process.WarmUpExit = gang.ProcessWarmingUp, &gang.ContainerFailure{ExitCode: 3}
		}, away + "llm-1-worker-spare-1 has failed to warm up, with exit code 3"},
		"one is not heard":                {func(s *scene) { s.Pods[3].Process = nil }, away + "llm-1-worker-spare-0 is not heard"},
		"one was heard until now":         {func(s *scene) { s.Pods[3].Process, s.Pods[3].HeardUntil = nil, s.Now }, "True, every spare waits for a rank"},
		"none is heard by another leader": {func(s *scene) { s.Pods[3].Process, s.Pods[4].Process, s.ListensSince = nil, nil, s.Now }, "True, every spare waits for a rank"},
		"one has no node":                 {func(s *scene) { s.Pods[3].Node, s.Pods[3].Process, s.Pods[3].Phase = "", nil, "Pending" }, away + "llm-1-worker-spare-0 has no node"},
		"none has a pod":                  {func(s *scene) { s.Pods = s.Pods[:3] }, away + "worker-spare-0 has no pod, worker-spare-1 has no pod"},
		"one's node is silent":            {func(s *scene) { s.node("n03", func(n *gang.Node) { n.Ready = false }) }, away + "llm-1-worker-spare-0 is on a node that takes no rank"},
		"one's node is cordoned":          {func(s *scene) { s.node("n03", func(n *gang.Node) { n.Unschedulable = true }) }, away + "llm-1-worker-spare-0 is on a node that takes no rank"},
		"the job is suspended":            {func(s *scene) { s.Job.Spec.Suspend = true }, "False, the job is not active"},
		"an incident is open": {func(s *scene) {
			s.Pods[4].Process.State = gang.ProcessWarmingUp
			s.lose("n01")
		}, "True, every spare waits for a rank"},
	} {
		t.Run(name, func(t *testing.T) {
			s := warm(2)
			s.after(time.Hour)
			tc.story(s)
			s.decide()
			check.Equal(t, "condition", tc.want, s.sparesReady())
		})
	}
}

// Spares that sleep are none that could be ready, and a spare that fails to warm up is no incident.
func TestSparesThatAreNotJudged(t *testing.T) {
	s := spared(2, atOnce)
	s.decide()
	check.Equal(t, "condition of spares that sleep", "", s.sparesReady())
	s = warm(1)
	s.Pods[3].Process.State, s.Pods[3].Process.WarmUpExit = gang.ProcessWarmingUp, &gang.ContainerFailure{ExitCode: 3}
	s.decide()
	check.Equal(t, "incidents", 0, len(s.status().Incidents))
	check.Equal(t, "deleted", 0, len(s.deleted()))
}

// No program of a spare that takes over runs, so that no probe says that its pod is ready.
func TestASpareThatTakesOverCountsWhileItHasANode(t *testing.T) {
	s := warm(2)
	s.unready(3)
	s.unready(4)
	s.decide()
	check.Equal(t, "both have a node", int32(2), gang.ReadySpares(s.status(), &s.Job.Spec.Tasks[0]))
	check.Equal(t, "ready ranks", "3/3", s.status().Ready)
	s.Pods[3].Node, s.Pods[3].Phase, s.Pods[3].Process = "", "Pending", nil
	s.decide()
	check.Equal(t, "one has", int32(1), gang.ReadySpares(s.status(), &s.Job.Spec.Tasks[0]))
	s.node("n04", func(n *gang.Node) { n.Ready = false })
	s.decide()
	check.Equal(t, "one whose node is not ready", int32(0), gang.ReadySpares(s.status(), &s.Job.Spec.Tasks[0]))
	s.node("n04", func(n *gang.Node) { n.Ready = true })
	s.Job.Spec.Supervisor.TakeOver = nil
	s.decide()
	check.Equal(t, "one that sleeps and is not ready", int32(0), gang.ReadySpares(s.status(), &s.Job.Spec.Tasks[0]))
}
