package policies

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/test/check"
)

func TestPlans(t *testing.T) {
	tests := map[string]struct {
		story func() *scene
		want  func(*scene) Plan
	}{
		"to make the Volcano Job": {
			func() *scene { s := aScene(aJob().tasks(task("worker", 2))); s.decide(); return s },
			func(*scene) Plan { return Plan{Create: true} },
		},
		"nothing, while its pods are made": {
			func() *scene { s := starting(2); s.Pods = nil; s.decide(); return s },
			func(*scene) Plan { return Plan{} },
		},
		"nothing, while all is well": {
			func() *scene { return running(2) },
			func(*scene) Plan { return Plan{} },
		},
		"to hold, then to delete": {
			func() *scene { s := running(2); s.crash(1, 1); s.Pods[1].Version = "7"; s.decide(); return s },
			func(s *scene) Plan {
				return Plan{Hold: s.status().Holds, DeletePods: []PodDeletion{{Name: "llm-1-worker-1", UID: "2", Version: "7", Node: "n01", HoldFirst: []string{"n01"}}}}
			},
		},
		"nothing, while the pod goes": {
			func() *scene {
				s := running(2)
				s.crash(1, 1)
				s.decide()
				s.node("n01", func(n *gang.Node) { n.Hold = HoldValue(s.status().Holds[0]) })
				s.Pods[1].Deleting = true
				s.decide()
				return s
			},
			func(*scene) Plan { return Plan{} },
		},
		"to hold again, where the value is old": {
			func() *scene {
				s := running(2)
				s.crash(1, 1)
				s.decide()
				s.node("n01", func(n *gang.Node) { n.Hold = "1" })
				s.Pods[1].Deleting = true
				s.decide()
				return s
			},
			func(s *scene) Plan { return Plan{Hold: s.status().Holds} },
		},
		"to release": {
			func() *scene { s := running(2); s.node("n01", func(n *gang.Node) { n.Hold = "1" }); return s },
			func(*scene) Plan { return Plan{Release: []string{"n01"}} },
		},
		"to admit the gang at once": {
			func() *scene {
				s := running(2, rule("all", step(v1alpha1.RestartJob, 0)))
				s.Job.Spec.Hold = &v1alpha1.Hold{Policy: v1alpha1.HoldOnRecovery, Seconds: new(int32)}
				s.crash(1, 1)
				s.decide()
				s.Pods = nil
				s.PodGroup.Pending = true
				s.decide()
				return s
			},
			func(*scene) Plan { return Plan{Admit: true} },
		},
		"not to admit a gang that is new": {
			func() *scene { s := starting(2); s.Pods = nil; s.PodGroup.Pending = true; s.decide(); return s },
			func(*scene) Plan { return Plan{} },
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := tc.story()
			check.Equal(t, "plan", tc.want(s), s.plan())
		})
	}
}

func TestAStandingGangIsStoppedOnce(t *testing.T) {
	s := running(2, rule("r", step(v1alpha1.FailJob, 0)))
	s.crash(1, 1)
	s.decide()
	check.Equal(t, "stop", Plan{Stop: StopFailed}, s.plan())
	s.VolcanoJobs[0].Stopping = true
	check.Equal(t, "stopping", Plan{}, s.plan())
	s.VolcanoJobs[0].Stopping, s.VolcanoJobs[0].Ended = false, true
	check.Equal(t, "stopped", Plan{}, s.plan())
}

// stuck has a pod be deleted by a node that answers, some time after its grace is over.
func stuck(neverRan bool, since time.Duration) func(*scene) {
	return func(s *scene) {
		p := &s.Pods[1]
		p.Phase, p.Deleting, p.GraceEnds, p.NeverRan = corev1.PodPending, true, sceneStart, neverRan
		s.after(since).decide()
	}
}

func TestForce(t *testing.T) {
	proof := &v1alpha1.RestartPolicy{UnreachableNode: &v1alpha1.UnreachableNode{Policy: v1alpha1.RequireProof}}
	soon := &v1alpha1.RestartPolicy{UnreachableNode: &v1alpha1.UnreachableNode{Policy: v1alpha1.ForceDelete, AfterSeconds: new(int32)}}
	tests := map[string]struct {
		policy *v1alpha1.RestartPolicy
		story  func(*scene)
		want   []string
		next   time.Duration // from when the node fell silent; 0 for any
	}{
		"on a good node":                           {nil, func(s *scene) { s.Pods[1].Deleting = true; s.decide() }, nil, 0},
		"its node is silent":                       {nil, func(s *scene) { s.breakNode("n01"); s.Pods[1].Deleting = true; s.after(59 * time.Second).decide() }, nil, time.Minute},
		"its node is dead":                         {nil, func(s *scene) { s.breakNode("n01"); s.Pods[1].Deleting = true; s.after(60 * time.Second).decide() }, []string{"2 by force"}, 0},
		"dead sooner":                              {soon, func(s *scene) { s.breakNode("n01"); s.Pods[1].Deleting = true; s.decide() }, []string{"2 by force"}, 0},
		"it never ran and its node has time":       {nil, stuck(true, 29*time.Second), nil, 30 * time.Second},
		"it never ran and its node has had time":   {nil, stuck(true, 30*time.Second), []string{"2 by force"}, 0},
		"it may run":                               {nil, stuck(false, time.Hour), nil, 0},
		"proof is asked for of one that never ran": {proof, stuck(true, time.Hour), nil, 0},
		"its node never spoke": {nil, func(s *scene) {
			s.node("n01", func(n *gang.Node) { n.Ready, n.SilentSince = false, time.Time{} })
			s.Pods[1].Deleting = true
			s.decide()
		}, nil, 0},
		"nobody asked":            {nil, func(s *scene) { s.breakNode("n01"); s.after(80 * time.Second).decide() }, nil, 0},
		"a step asked":            {nil, func(s *scene) { s.breakNode("n01"); s.decide(); s.after(90 * time.Second).decide() }, []string{"2 by force"}, 0},
		"proof is asked for":      {proof, func(s *scene) { s.breakNode("n01"); s.Pods[1].Deleting = true; s.after(time.Hour).decide() }, nil, 0},
		"proof: the node is gone": {proof, func(s *scene) { delete(s.Nodes, "n01"); s.Pods[1].Deleting = true; s.decide() }, []string{"2 by force"}, 0},
		"proof: out of service": {proof, func(s *scene) {
			s.breakNode("n01")
			s.node("n01", func(n *gang.Node) { n.OutOfService = true })
			s.Pods[1].Deleting = true
			s.decide()
		}, []string{"2 by force"}, 0},
		"of a suspended job": {nil, func(s *scene) {
			s.Job.Spec.Suspend = true
			s.breakNode("n01")
			s.Pods[1].Deleting = true
			s.after(time.Hour).decide()
		}, []string{"2 by force"}, 0},
		"of an earlier attempt": {nil, func(s *scene) {
			s.VolcanoJobs = nil
			s.decide()
			delete(s.Nodes, "n01")
			s.Pods[1].Deleting = true
			s.decide()
		}, []string{"2 by force"}, 0},
		"an earlier attempt's own": {nil, func(s *scene) { s.VolcanoJobs = nil; s.decide() }, nil, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := running(2)
			s.Job.Spec.RestartPolicy = tc.policy
			s.Job.Spec.Hold = &v1alpha1.Hold{Policy: v1alpha1.HoldOnRecovery, Seconds: new(int32)}
			tc.story(s)
			check.Equal(t, "deleted", tc.want, s.deleted())
			if tc.next > 0 {
				check.Equal(t, "next", sceneStart.Add(tc.next).String(), Decide(&s.Observation).Next.String())
			}
		})
	}
}

func TestLifts(t *testing.T) {
	lifted := func(s *scene) []string {
		var out []string
		p := s.plan()
		for _, l := range p.Lift {
			out = append(out, l.UID)
		}
		return out
	}
	restarting := func() *scene {
		s := running(3)
		s.crash(1, 1)
		s.decide()
		s.replace(1)
		s.decide()
		return s
	}
	tests := map[string]struct {
		story func() *scene
		want  []string
	}{
		"a whole gang":               {func() *scene { return starting(3) }, []string{"1", "2", "3"}},
		"a gang as it comes":         {func() *scene { s := starting(3); s.Pods = s.Pods[:2]; return s }, []string{"1", "2"}},
		"one that is back":           {restarting, []string{"4"}},
		"not one that goes":          {func() *scene { s := starting(3); s.Pods[1].Deleting = true; return s }, []string{"1", "3"}},
		"not without a Volcano Job":  {func() *scene { s := restarting(); s.VolcanoJobs = nil; return s }, nil},
		"not where there is no node": {func() *scene { s := restarting(); s.Nodes = map[string]gang.Node{}; return s }, nil},
		"not while an earlier one of its rank may run": {func() *scene {
			s := starting(3)
			s.Pods = append(s.Pods, gang.Pod{Name: "old-1", UID: "9", Task: "worker", Index: 1, Node: "n05", Phase: "Running", Deleting: true})
			return s
		}, []string{"1", "3"}},
		"once the earlier one of its rank has ended": {func() *scene {
			s := starting(3)
			s.Pods = append(s.Pods, gang.Pod{Name: "old-1", UID: "9", Task: "worker", Index: 1, Node: "n05", Phase: "Failed"})
			return s
		}, []string{"1", "2", "3"}},
		"not of a suspended job": {func() *scene { s := restarting(); s.Job.Spec.Suspend = true; return s }, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) { check.Equal(t, "lifted", tc.want, lifted(tc.story())) })
	}
}

func TestContract(t *testing.T) {
	s := starting(2)
	first := s.plan().Lift[1]
	check.Equal(t, "first", map[string]string{
		"lockstep.dev/incarnation": "0", "lockstep.dev/resume": "false", "lockstep.dev/restart-reason": "",
		"lockstep.dev/hypernode": "", "lockstep.dev/placed-time": "2026-01-02T03:04:05.678901Z",
	}, first.Annotations)
	s.placed()
	s.crash(1, 1)
	s.decide()
	s.replace(1)
	s.after(time.Second).decide()
	check.Equal(t, "second", map[string]string{
		"lockstep.dev/incarnation": "1", "lockstep.dev/resume": "true", "lockstep.dev/restart-reason": "PodFailed",
		"lockstep.dev/hypernode": "rack-a", "lockstep.dev/placed-time": "2026-01-02T03:04:06.678901Z",
	}, s.plan().Lift[0].Annotations)
}

// A rank that is new in a job that has run before resumes too.
func TestANewRankIsToldThatItResumes(t *testing.T) {
	job := aJob().tasks(task("worker", 3))
	job.Spec.MinAvailable = new(int32(2))
	s := aScene(job).started()
	s.bind(0, "n00")
	s.bind(1, "n01")
	s.decide()
	check.Equal(t, "before", "false", s.plan().Lift[0].Annotations[v1alpha1.AnnotationResume])
	s.crash(1, 1)
	s.decide()
	s.back(1, "n01")
	check.Equal(t, "after", "true", s.plan().Lift[0].Annotations[v1alpha1.AnnotationResume])
	check.Equal(t, "its life", "0", s.plan().Lift[0].Annotations[v1alpha1.AnnotationIncarnation])
}

// An earlier version of the manager wrote a rank for each, in the order of their indexes, reads the first of each set, and searches.
func TestSetsForAnEarlierManager(t *testing.T) {
	s := running(4)
	restart := func(index int32) {
		gang.RestartRank(s.status(), gang.Rank{Task: "worker", Index: index}, v1alpha1.RestartByStep)
	}
	s.status().Tasks[0].Ranks = []v1alpha1.RankStatus{{Index: 2, Incarnation: 1, Reason: v1alpha1.RestartByStep}}
	for _, index := range []int32{2, 3, 0} {
		restart(index)
	}
	want := []v1alpha1.RankStatus{
		{Indexes: "0,3", Index: 0, Incarnation: 1, Reason: v1alpha1.RestartByStep}, {Indexes: "2", Index: 2, Incarnation: 2, Reason: v1alpha1.RestartByStep},
	}
	check.Equal(t, "sets", want, s.status().Tasks[0].Ranks)
	check.Equal(t, "lives", []int32{1, 0, 2, 1}, s.lives())
}

// A rank that stays where it is learns nothing of a restart that is not its own;
// after a task's restart the numbers of its ranks are one again.
func TestIncarnations(t *testing.T) {
	s := running(3)
	gang.RestartRank(s.status(), gang.Rank{Task: "worker", Index: 2}, v1alpha1.RestartByStep)
	gang.RestartRank(s.status(), gang.Rank{Task: "worker", Index: 0}, v1alpha1.RestartByStep)
	gang.RestartRank(s.status(), gang.Rank{Task: "worker", Index: 2}, v1alpha1.RestartByStep)
	check.Equal(t, "lives", []int32{1, 0, 2}, s.lives())
	gang.RestartTask(s.status(), "worker")
	check.Equal(t, "lives", []int32{3, 3, 3}, s.lives())
	gang.RestartRank(s.status(), gang.Rank{Task: "worker", Index: 1}, v1alpha1.RestartByStep)
	gang.RestartAll(s.status(), s.Job)
	check.Equal(t, "lives", []int32{5, 5, 5}, s.lives())
	check.Equal(t, "of a task that is not there", int32(0), gang.Incarnation(s.status(), "ghost", 0))
}
