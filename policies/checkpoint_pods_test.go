// Checkpoints: which pods are asked for one.

package policies

import (
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/check"
)

// patient leaves what falls meanwhile alone.
func (s *scene) patient() *scene {
	s.Job.Spec.RestartPolicy.Rules[1].Steps[0].AfterSeconds = 600
	return s
}

func TestWhoIsAsked(t *testing.T) {
	type pods = v1alpha1.CheckpointPods
	first := v1alpha1.CheckpointFirst
	tests := map[string]struct {
		pods   []v1alpha1.CheckpointPods
		change func(*scene)
		want   []string // ends of names
	}{
		"every rank, and no spare": {want: []string{"head-0", "worker-0", "worker-1", "worker-2"}},
		"those of a task":          {pods: []pods{{Tasks: []string{"worker"}}}, want: []string{"worker-0", "worker-1", "worker-2"}},
		"the first of each":        {pods: []pods{{Ranks: first}}, want: []string{"head-0", "worker-0"}},
		"the first of a task":      {pods: []pods{{Tasks: []string{"head"}, Ranks: first}}, want: []string{"head-0"}},
		"not one that is leaving":  {change: func(s *scene) { s.patient().Pods[2].Deleting = true }, want: []string{"head-0", "worker-0", "worker-2"}},
		"not one that will be evicted": {
			change: func(s *scene) { s.patient().Pods[2].Disrupted = "EvictionByEvictionAPI" }, want: []string{"head-0", "worker-0", "worker-2"},
		},
		"not one that has ended":             {change: func(s *scene) { s.succeed(0) }, want: []string{"worker-0", "worker-1", "worker-2"}},
		"not one on a silent node":           {change: func(s *scene) { s.patient().breakNode("n00") }, want: []string{"worker-0", "worker-1", "worker-2"}},
		"not one without an address":         {change: func(s *scene) { s.Pods[3].IP = "" }, want: []string{"head-0", "worker-0", "worker-1"}},
		"one whose readiness probe fails":    {change: func(s *scene) { s.patient().unready(3) }, want: []string{"head-0", "worker-0", "worker-1", "worker-2"}},
		"nobody, where none of them is left": {pods: []pods{{Tasks: []string{"head"}}}, change: func(s *scene) { s.succeed(0) }},
		"nobody, where the pod to move has fallen": {change: func(s *scene) {
			s.unready(1)
			s.Job.Spec.RestartPolicy.Rules[0].Match.Events = []v1alpha1.EventType{v1alpha1.PodNotReady}
		}},
		"nobody in a dry run":             {change: func(s *scene) { s.dryRun(true) }},
		"nobody, where none is wanted":    {change: func(s *scene) { s.Job.Spec.Checkpoint = nil }},
		"nobody before another action":    {change: func(s *scene) { s.Job.Spec.RestartPolicy.Rules[0].Steps[0].Action = v1alpha1.RestartPod }},
		"nobody once the time is over":    {change: func(s *scene) { s.decide(); s.after(time.Minute) }},
		"again after the manager fell":    {change: func(s *scene) { s.decide(); s.after(59 * time.Second) }, want: []string{"head-0", "worker-0", "worker-1", "worker-2"}},
		"nobody of a job that is no more": {change: func(s *scene) { s.decide(); s.Job.Spec.Suspend = true }},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := degradedJob(tc.pods...)
			if tc.change != nil {
				tc.change(s)
			}
			s.decide()
			var want []string
			for _, name := range tc.want {
				want = append(want, "llm-1-"+name)
			}
			check.Equal(t, "asked", want, s.asks())
		})
	}
}
