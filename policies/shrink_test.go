// Shrinking: which ranks go, who gets their nodes, and when they come back.

package policies

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/test/check"
)

// elastic is a running job of six workers that may go on with three.
func elastic(steps ...func(*v1alpha1.Rule)) *scene {
	return aScene(aJob().tasks(task("worker", 6, downTo(3))).policy(withRules(rule("r", steps...)))).started().placed()
}

// lose takes nodes away.
func (s *scene) lose(nodes ...string) {
	for _, n := range nodes {
		delete(s.Nodes, n)
	}
}

func TestShrinkTask(t *testing.T) {
	first := []func(*v1alpha1.Rule){step(v1alpha1.ShrinkTask, 10)}
	second := []func(*v1alpha1.Rule){step(v1alpha1.RestartPod, 0), step(v1alpha1.ShrinkTask, 10)}
	tests := map[string]struct {
		steps  []func(*v1alpha1.Rule)
		broken func(*scene)
		nodes  []string
		lives  []int32
		shrunk int32
	}{
		"the last rank":                {first, func(s *scene) { s.lose("n05") }, []string{"n00", "n01", "n02", "n03", "n04"}, []int32{0, 0, 0, 0, 0}, 1},
		"a low one takes the last's":   {first, func(s *scene) { s.lose("n01") }, []string{"n00", "n05", "n02", "n03", "n04"}, []int32{0, 1, 0, 0, 0}, 1},
		"several, low ones":            {first, func(s *scene) { s.lose("n01", "n02") }, []string{"n00", "n05", "n04", "n03"}, []int32{0, 1, 1, 0}, 2},
		"several, the last among them": {first, func(s *scene) { s.lose("n00", "n05") }, []string{"n04", "n01", "n02", "n03"}, []int32{1, 0, 0, 0}, 2},
		"all that may go":              {first, func(s *scene) { s.lose("n03", "n04", "n05") }, []string{"n00", "n01", "n02"}, []int32{0, 0, 0}, 3},
		"one more than may go: that one stays without": {first, func(s *scene) { s.lose("n00", "n01", "n02", "n03") },
			[]string{"n05", "n04", "n02"}, []int32{1, 1, 0}, 3},
		"after a restart that found no room": {second, func(s *scene) { s.lose("n01") }, []string{"n00", "n05", "n02", "n03", "n04"}, []int32{0, 1, 0, 0, 0}, 1},
		"a node that does not answer":        {first, func(s *scene) { s.breakNode("n01") }, []string{"n00", "n05", "n02", "n03", "n04"}, []int32{0, 1, 0, 0, 0}, 1},
		"drained": {first, func(s *scene) {
			s.Pods[1].Deleting = true
			s.node("n01", func(n *gang.Node) { n.Unschedulable = true })
		},
			[]string{"n00", "n05", "n02", "n03", "n04"}, []int32{0, 1, 0, 0, 0}, 1},
		"its devices have failed": {first, func(s *scene) { s.Pods[1].Signals = []gang.Signal{{Name: "XID79", Failed: true}} },
			[]string{"n00", "n05", "n02", "n03", "n04"}, []int32{0, 1, 0, 0, 0}, 1},
		"not where a pod only crashed": {first, func(s *scene) { s.crash(1, 1) }, []string{"n00", "n01", "n02", "n03", "n04", "n05"}, []int32{0, 0, 0, 0, 0, 0}, 0},
		"not where a new pod starts slowly": {second, func(s *scene) {
			s.lose("n01")
			s.decide()
			s.replace(1)
			s.Nodes["n06"] = gang.Node{Name: "n06", Hostname: "host-n06", Ready: true}
			s.bind(1, "n06")
			s.unready(1)
		}, []string{"n00", "n01", "n02", "n03", "n04", "n05"}, []int32{0, 1, 0, 0, 0, 0}, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := elastic(tc.steps...)
			tc.broken(s)
			s.decide()
			s.after(10 * time.Second).decide()
			check.Equal(t, "nodes", tc.nodes, s.status().Placement.Tasks[0].Nodes)
			check.Equal(t, "shrunk", tc.shrunk, s.status().Tasks[0].Shrunk)
			check.Equal(t, "replicas", 6-tc.shrunk, s.status().Tasks[0].Replicas)
			check.Equal(t, "lives", tc.lives, s.lives()[:6-tc.shrunk])
			p := s.plan()
			if tc.shrunk == 0 {
				check.Equal(t, "resize", nil, p.Resize)
			} else {
				check.Equal(t, "resize", &gang.Size{MinAvailable: 6 - tc.shrunk, Replicas: map[string]int32{"worker": 6 - tc.shrunk}}, p.Resize)
			}
			s.decide() // the incident of ranks that are given up is over
			check.Equal(t, "changes, decided again", nil, s.changes())
		})
	}
}

// Everything that the step changes, and the way to the end.
func TestAShrunkenJobRecovers(t *testing.T) {
	s := elastic(step(v1alpha1.RestartPod, 0), step(v1alpha1.ShrinkTask, 10))
	s.lose("n01")
	s.decide()
	check.Equal(t, "changes", sorted([]string{
		"holds[n05]: late true, until 10m10s",
		"incidents[1].steps[1]: action ShrinkTask, index 1, time 10s",
		"placement.tasks[worker].nodes[1]: n05",
		"placement.tasks[worker].nodes[5] is gone",
		"ready: 4/5",
		"tasks[worker].ready: 4",
		"tasks[worker].replicas: 5",
		"tasks[worker].shrunk: 1",
	}), s.after(10*time.Second).changes())

	// Volcano takes the last pod away, and makes the lost one again.
	s.VolcanoJobs[0].Size = gang.SizeOf(gang.Effective(s.Job, s.status()))
	s.Pods = s.Pods[:5]
	s.replace(1)
	s.decide()
	p := s.plan()
	check.Equal(t, "resize", nil, p.Resize)
	check.Equal(t, "lifted", 1, len(p.Lift))
	s.bind(1, "n05")
	s.decide()
	check.Equal(t, "state", v1alpha1.StateRunning, s.status().State)
	check.Equal(t, "ready", "5/5", s.status().Ready)
	check.Equal(t, "outcome", v1alpha1.OutcomeRecovered, s.incident(t).Outcome)
	check.Equal(t, "restarts", v1alpha1.Restarts{Total: 1, Pod: 1, Uncharged: 1}, s.status().Restarts)
}

func TestWhatWasGivenUpComesBack(t *testing.T) {
	shrunken := func() *scene {
		s := elastic(step(v1alpha1.ShrinkTask, 0), step(v1alpha1.RelocateJob, 60))
		s.Job.Spec.Tasks[0].MaxReplicas = new(int32)
		s.lose("n05")
		s.decide()
		s.Pods = s.Pods[:5]
		s.VolcanoJobs[0].Size = gang.SizeOf(gang.Effective(s.Job, s.status()))
		s.decide()
		return s
	}
	tests := map[string]struct {
		change func(*scene)
		shrunk int32
	}{
		"not by itself":            {func(s *scene) { s.after(time.Hour) }, 1},
		"when replicas is raised":  {func(s *scene) { s.Job.Spec.Tasks[0].Replicas = 7 }, 0},
		"when replicas is lowered": {func(s *scene) { s.Job.Spec.Tasks[0].Replicas = 5 }, 0},
		"with the next attempt":    {func(s *scene) { s.VolcanoJobs = nil }, 0},
		"when it is resumed":       {func(s *scene) { s.Job.Spec.Suspend = true; s.decide(); s.Job.Spec.Suspend = false }, 0},
		"when it relocates": {func(s *scene) {
			s.lose("n00", "n01", "n02", "n03")
			s.decide()
			s.after(time.Minute)
		}, 0},
		"when every rank fell and the Volcano Job has ended": {func(s *scene) { s.crashAll(); s.VolcanoJobs[0].Ended = true }, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := shrunken()
			check.Equal(t, "outcome", v1alpha1.OutcomeRecovered, s.incident(t).Outcome)
			check.Equal(t, "shrunk before", int32(1), s.status().Tasks[0].Shrunk)
			tc.change(s)
			s.decide()
			check.Equal(t, "shrunk", tc.shrunk, s.status().Tasks[0].Shrunk)
			s.decide()
			check.Equal(t, "replicas", s.Job.Spec.Tasks[0].Replicas-tc.shrunk, s.status().Tasks[0].Replicas)
			check.Equal(t, "size", fmt.Sprint(gang.SizeOf(gang.Effective(s.Job, s.status()))), fmt.Sprint(gang.Size{
				MinAvailable: s.Job.Spec.Tasks[0].Replicas - tc.shrunk, Replicas: map[string]int32{"worker": s.Job.Spec.Tasks[0].Replicas - tc.shrunk},
			}))
		})
	}
}

// A task without minReplicas, and a job without a place, are left as they are.
func TestWhatCannotShrink(t *testing.T) {
	r := rule("r", step(v1alpha1.ShrinkTask, 0), step(v1alpha1.RestartPod, 60))
	fixed := running(3, r)
	fixed.lose("n01")
	fixed.decide()
	check.Equal(t, "fixed", int32(0), fixed.status().Tasks[0].Shrunk)
	check.Equal(t, "next step", "RestartPod", string(func() v1alpha1.Action { fixed.after(time.Minute).decide(); return fixed.incident(t).Steps[1].Action }()))

	job := aJob().tasks(task("worker", 3, downTo(1))).policy(withRules(r))
	s := aScene(job).started()
	s.bind(0, "n00")
	s.lose("n00")
	s.decide()
	check.Equal(t, "unplaced", int32(0), s.status().Tasks[0].Shrunk)
	check.Equal(t, "fired", []string{"ShrinkTask@0"}, s.fired(t))
}

// Only the tasks of the ranks that fell shrink.
func TestAnotherTaskDoesNotShrink(t *testing.T) {
	r := rule("r", step(v1alpha1.ShrinkTask, 0))
	s := aScene(aJob().tasks(task("reader", 3, downTo(1)), task("worker", 3, downTo(1))).policy(withRules(r))).started().placed()
	s.lose("n04")
	s.decide()
	check.Equal(t, "readers", int32(0), s.status().Tasks[0].Shrunk)
	check.Equal(t, "workers", int32(1), s.status().Tasks[1].Shrunk)
	check.Equal(t, "size", &gang.Size{MinAvailable: 5, Replicas: map[string]int32{"reader": 3, "worker": 2}}, s.plan().Resize)
}
