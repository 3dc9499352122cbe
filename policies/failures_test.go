package policies

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/incident"
	"github.com/lockstep-dev/lockstep/policies/rules"
	"github.com/lockstep-dev/lockstep/test/check"
)

func TestFailures(t *testing.T) {
	const user, infrastructure, maintenance, preemption = v1alpha1.ClassUser, v1alpha1.ClassInfrastructure, v1alpha1.ClassMaintenance, v1alpha1.ClassPreemption
	tests := map[string]struct {
		change func(*scene)
		event  v1alpha1.EventType // empty: nothing is broken
		class  v1alpha1.FailureClass
	}{
		"all is well":                      {change: func(*scene) {}},
		"a crash":                          {func(s *scene) { s.crash(1, 1) }, v1alpha1.PodFailed, user},
		"a crash that the kubelet mends":   {func(s *scene) { s.unready(1) }, v1alpha1.PodNotReady, user},
		"evicted for want of memory":       {func(s *scene) { s.crash(1, 137); s.Pods[1].Failure.Reason = "Evicted" }, v1alpha1.PodFailed, infrastructure},
		"killed by its kubelet":            {func(s *scene) { s.crash(1, 143); s.Pods[1].Disrupted = corev1.PodReasonTerminationByKubelet }, v1alpha1.PodFailed, infrastructure},
		"no device for it":                 {func(s *scene) { s.crash(1, 1); s.Pods[1].Failure.Reason = "UnexpectedAdmissionError" }, v1alpha1.PodFailed, infrastructure},
		"preempted":                        {func(s *scene) { s.Pods[1].Deleting, s.Pods[1].Disrupted = true, corev1.PodReasonPreemptionByScheduler }, v1alpha1.PodDeleted, preemption},
		"drained":                          {func(s *scene) { s.Pods[1].Deleting, s.Pods[1].Disrupted = true, "EvictionByEvictionAPI" }, v1alpha1.PodDeleted, maintenance},
		"its node is shut down":            {func(s *scene) { s.crash(1, 143); s.Pods[1].Failure.Reason = "Terminated" }, v1alpha1.PodFailed, maintenance},
		"deleted by a user":                {func(s *scene) { s.Pods[1].Deleting = true }, v1alpha1.PodDeleted, maintenance},
		"deleted and recreated":            {func(s *scene) { s.replace(1) }, v1alpha1.PodDeleted, maintenance},
		"deleted and not recreated":        {func(s *scene) { s.Pods = append(s.Pods[:1], s.Pods[2:]...) }, v1alpha1.PodDeleted, maintenance},
		"its node does not answer":         {func(s *scene) { s.breakNode("n01") }, v1alpha1.NodeNotReady, infrastructure},
		"its node is deleted":              {func(s *scene) { delete(s.Nodes, "n01") }, v1alpha1.NodeGone, infrastructure},
		"recreated, its node is deleted":   {func(s *scene) { s.replace(1); delete(s.Nodes, "n01") }, v1alpha1.NodeGone, infrastructure},
		"a crash on a node that is silent": {func(s *scene) { s.breakNode("n01"); s.crash(1, 1) }, v1alpha1.PodFailed, user},
		"not ready on a silent node":       {func(s *scene) { s.breakNode("n01"); s.unready(1) }, v1alpha1.NodeNotReady, infrastructure},
		"it has succeeded":                 {change: func(s *scene) { s.succeed(1) }},
		"it is of an earlier incarnation": {change: func(s *scene) {
			s.crash(1, 1)
			gang.RestartRank(s.status(), gang.Rank{Task: "worker", Index: 1}, v1alpha1.RestartByStep)
		}},
		"it is slow to start": {change: func(s *scene) { s.unready(1); s.Pods[1].WasReady = false }},
		"it was never placed": {change: func(s *scene) { s.replace(1); s.status().Placement.Tasks[0].Nodes[1] = "" }},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := running(3)
			tc.change(s)
			w := incident.ViewOf(&s.Observation, s.status())
			got := w.Failures(s.status())
			if tc.event == "" {
				if len(got) != 0 {
					t.Errorf("found %+v", got)
				}
				return
			}
			if len(got) != 1 {
				t.Fatalf("found %d: %+v", len(got), got)
			}
			check.Equal(t, "event", tc.event, got[0].Event)
			check.Equal(t, "class", tc.class, got[0].Class)
			check.Equal(t, "rank", int32(1), got[0].Rank.Index)
			check.Equal(t, "node", "n01", got[0].Node)
			check.Equal(t, "pod", "llm-1-worker-1", got[0].Pod)
		})
	}
}

// Every reason that Kubernetes gives for a failure of its own is told from the user's.
func TestClassOf(t *testing.T) {
	tests := map[v1alpha1.FailureClass][]string{
		v1alpha1.ClassPreemption:     {"PreemptionByScheduler", "Preempted", "Preempting"},
		v1alpha1.ClassMaintenance:    {"EvictionByEvictionAPI", "Terminated", "Shutdown"},
		v1alpha1.ClassInfrastructure: {"TerminationByKubelet", "DeletionByPodGC", "DeletionByTaintManager", "NodeLost", "Evicted", "NodeAffinity", "UnexpectedAdmissionError", "OutOfcpu", "OutOfmemory", "OutOfnvidia.com/gpu"},
		v1alpha1.ClassUser:           {"", "Error", "OOMKilled", "DeadlineExceeded"},
	}
	for want, reasons := range tests {
		for _, reason := range reasons {
			check.Equal(t, reason, want, rules.ClassOf(&gang.Pod{Phase: corev1.PodFailed, Disrupted: reason}))
			check.Equal(t, reason, want, rules.ClassOf(&gang.Pod{Phase: corev1.PodFailed, Failure: gang.Failure{Reason: reason}}))
		}
	}
	check.Equal(t, "deleted", v1alpha1.ClassMaintenance, rules.ClassOf(&gang.Pod{Phase: corev1.PodRunning, Deleting: true}))
	check.Equal(t, "crashed in place", v1alpha1.ClassUser, rules.ClassOf(&gang.Pod{Phase: corev1.PodRunning}))
}
