package policies

import (
	"testing"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/test/check"
)

func TestMissingPods(t *testing.T) {
	later := rule("later", on(v1alpha1.AnyEvent), step(v1alpha1.RestartPod, 60))
	one := []string{"llm-1-worker-1"}
	tests := map[string]struct {
		story func() *scene
		want  []string
	}{
		"none, while all are there":                   {func() *scene { return running(3) }, nil},
		"none, before any had a node":                 {func() *scene { s := starting(3); s.Pods = nil; return s }, nil},
		"one that had a node":                         {func() *scene { s := running(3); s.gone(1); return s }, one},
		"one that has failed, and waits for its step": {func() *scene { s := running(3, later); s.crash(1, 1); s.decide(); s.gone(1); return s }, one},
		"none that a step has restarted":              {func() *scene { s := running(3, atOnce); s.crash(1, 1); s.decide(); s.gone(1); return s }, nil},
		"another one than a step has restarted":       {func() *scene { s := running(3, atOnce); s.crash(0, 1); s.decide(); s.gone(1); return s }, one},
		"one that an incident has restarted which is over": {func() *scene {
			s := running(3, atOnce)
			s.crash(1, 1)
			s.decide()
			s.back(1, "n01")
			s.gone(1)
			return s
		}, one},
		"none of a suspended job": {func() *scene { s := running(3); s.Job.Spec.Suspend = true; s.gone(1); return s }, nil},
		"none of a job that has failed": {func() *scene {
			s := running(3, rule("fail", step(v1alpha1.FailJob, 0)))
			s.crash(1, 1)
			s.decide()
			s.gone(1)
			return s
		}, nil},
		"none of a rank that has completed":                 {func() *scene { s := sweep(3); s.succeed(1); s.decide(); s.gone(1); return s }, nil},
		"none of a spare, without which the gang goes on":   {func() *scene { s := spared(1, atOnce); s.gone(3); return s }, nil},
		"one of a gang that has been given another attempt": {func() *scene { s := running(3); s.status().Attempt = 2; s.gone(1); return s }, []string{"llm-2-worker-0", "llm-2-worker-1", "llm-2-worker-2"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) { check.Equal(t, "missing", tc.want, MissingPods(&tc.story().Observation)) })
	}
}

// gone is a pod that is not observed any more.
func (s *scene) gone(i int) { s.Pods = append(s.Pods[:i:i], s.Pods[i+1:]...) }

// sweep is a running job whose ranks do not need each other.
func sweep(replicas int32) *scene {
	job := aJob().tasks(task("worker", replicas))
	job.Spec.Tasks[0].Independent = true
	return aScene(job).started().placed()
}

// Pods of an earlier job of this name keep theirs from being made.
func TestTheFirstAttemptHasFreeNames(t *testing.T) {
	s := aScene(aJob().tasks(task("worker", 2)))
	s.TakenAttempt = 3
	s.started()
	check.Equal(t, "attempt", 4, s.status().Attempt)
	check.Equal(t, "resumes", "false", s.plan().Lift[0].Annotations[v1alpha1.AnnotationResume])
	s.placed()
	check.Equal(t, "attempt", 4, s.status().Attempt)
}

// The node that a rank leaves, or goes to, has to be held before its pod is deleted.
func TestPodsWaitForTheHoldsOfTheirNodes(t *testing.T) {
	first := func(s *scene) map[string][]string {
		out := map[string][]string{}
		for _, d := range s.plan().DeletePods {
			out[d.Name] = d.HoldFirst
		}
		return out
	}
	s := running(3)
	s.crash(0, 1)
	s.crash(2, 1)
	s.decide()
	s.node("n02", func(n *gang.Node) { n.Hold = HoldValue(s.status().Holds[1]) })
	check.Equal(t, "where each returns", map[string][]string{"llm-1-worker-0": {"n00"}, "llm-1-worker-2": nil}, first(s))

	s = spared(1, atOnce)
	s.lose("n01")
	s.decide()
	n03 := []string{"n03"}
	check.Equal(t, "where one goes to the node of a spare", map[string][]string{"llm-1-worker-1": n03, "llm-1-worker-spare-0": n03}, first(s))
}
