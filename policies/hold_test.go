package policies

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/placement"
	"github.com/lockstep-dev/lockstep/test/check"
)

func TestHolds(t *testing.T) {
	always := &v1alpha1.Hold{Policy: v1alpha1.HoldAlways, Seconds: new(int32(600))}
	tests := map[string]struct {
		hold  *v1alpha1.Hold
		story func(*scene)
		want  []string
	}{
		"none while all is well":           {nil, func(*scene) {}, nil},
		"the node of a rank that restarts": {nil, func(s *scene) { s.crash(1, 1); s.decide() }, []string{"n01"}},
		"while its pod waits": {nil, func(s *scene) { s.crash(1, 1); s.decide(); s.replace(1); s.decide() },
			[]string{"n01"}},
		"until its pod is back": {nil, func(s *scene) {
			s.crash(1, 1)
			s.decide()
			s.replace(1)
			s.bind(1, "n01")
			s.decide()
		}, nil},
		"until it ends": {nil, func(s *scene) { s.crash(1, 1); s.decide(); s.after(601 * time.Second).decide() },
			[]string{"n00", "n01", "n02"}}, // of the step at 600 s, which restarts the job
		"of a pod that somebody deletes": {nil, func(s *scene) { s.Pods[1].Deleting = true; s.decide() }, []string{"n01"}},
		"of a pod that somebody deletes, before a step has fired": {nil, func(s *scene) {
			s.Job.Spec.RestartPolicy = &v1alpha1.RestartPolicy{Rules: []v1alpha1.Rule{rule("late", step(v1alpha1.RestartPod, 60))}}
			s.Pods[1].Deleting = true
			s.decide()
		}, []string{"n01"}},
		"of a pod that is back and not ready yet": {nil, func(s *scene) {
			s.crash(1, 1)
			s.decide()
			s.replace(1)
			s.bind(1, "n01")
			s.unready(1)
			s.decide()
		}, []string{"n01"}},
		"not a node that its pod came to without one": {nil, func(s *scene) {
			delete(s.Nodes, "n01")
			s.decide()
			s.replace(1)
			s.bind(1, "n04")
			s.unready(1)
			s.decide()
			s.decide()
		}, nil},
		"not before a step has fired": {nil, func(s *scene) { s.unready(1); s.decide() }, nil},
		"not a node that failed":      {nil, func(s *scene) { s.breakNode("n01"); s.decide(); s.after(90 * time.Second).decide() }, nil},
		"not once it is relocated": {nil, func(s *scene) {
			s.Job.Spec.RestartPolicy = &v1alpha1.RestartPolicy{Rules: []v1alpha1.Rule{rule("r", step(v1alpha1.RelocateJob, 0))}}
			s.crash(1, 1)
			s.decide()
		}, nil},
		"not for a job that is suspended": {nil, func(s *scene) { s.crash(1, 1); s.decide(); s.Job.Spec.Suspend = true; s.decide() }, nil},
		"not for a job that has failed": {nil, func(s *scene) {
			s.Job.Spec.RestartPolicy = &v1alpha1.RestartPolicy{Rules: []v1alpha1.Rule{rule("r", step(v1alpha1.RestartPod, 0), step(v1alpha1.FailJob, 5))}}
			s.crash(1, 1)
			s.decide()
			s.after(5 * time.Second).decide()
		}, nil},
		"none where seconds are 0": {&v1alpha1.Hold{Policy: v1alpha1.HoldOnRecovery, Seconds: new(int32)}, func(s *scene) { s.crash(1, 1); s.decide() }, nil},
		"by default where seconds are left out": {&v1alpha1.Hold{Policy: v1alpha1.HoldOnRecovery}, func(s *scene) {
			s.crash(1, 1)
			s.decide()
			s.after(time.Minute).decide()
		}, []string{"n01"}},
		"shorter": {&v1alpha1.Hold{Policy: v1alpha1.HoldOnRecovery, Seconds: new(int32(20))}, func(s *scene) {
			s.crash(1, 1)
			s.decide()
			s.after(20 * time.Second).decide()
		}, nil},
		"always":                            {always, func(s *scene) { s.decide() }, []string{"n00", "n01", "n02"}},
		"always, while it recovers":         {always, func(s *scene) { s.crash(1, 1); s.decide() }, []string{"n00", "n01", "n02"}},
		"always, but a node that failed":    {always, func(s *scene) { s.breakNode("n01"); s.decide() }, []string{"n00", "n02"}},
		"always, but not before its place":  {always, func(s *scene) { s.status().Placement = nil; s.Pods[1].Node = ""; s.decide() }, nil},
		"always, but not when it has ended": {always, func(s *scene) { s.succeed(0); s.succeed(1); s.succeed(2); s.decide() }, nil},
		"always, but not when it comes back from suspension": {always, func(s *scene) {
			s.Job.Spec.Suspend = true
			s.decide()
			s.VolcanoJobs, s.Pods = nil, nil
			s.Job.Spec.Suspend = false
			s.decide()
			s.started()
		}, nil},
		"not when it comes back from suspension": {nil, func(s *scene) {
			s.Job.Spec.Suspend = true
			s.decide()
			s.VolcanoJobs, s.Pods = nil, nil
			s.Job.Spec.Suspend = false
			s.decide()
			s.started()
		}, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := running(3)
			s.Job.Spec.Hold = tc.hold
			tc.story(s)
			check.Equal(t, "held", tc.want, s.held())
		})
	}
}

// A hold that is given up for a node that does not answer for a moment would lose it.
func TestAHeldNodeThatDoesNotAnswer(t *testing.T) {
	tests := map[string]struct {
		story func(*scene)
		want  []string
	}{
		"for a moment":          {func(s *scene) { s.breakNode("n01") }, []string{"n01"}},
		"and is cordoned":       {func(s *scene) { s.breakNode("n01"); s.node("n01", func(n *gang.Node) { n.Unschedulable = true }) }, nil},
		"and is out of service": {func(s *scene) { s.breakNode("n01"); s.node("n01", func(n *gang.Node) { n.OutOfService = true }) }, nil},
		"and is excluded": {func(s *scene) {
			s.breakNode("n01")
			s.status().ExcludedNodes = []v1alpha1.ExcludedNode{{Name: "n01", Until: metav1.NewTime(s.Now.Add(time.Hour))}}
		}, nil},
		"cordoned":               {func(s *scene) { s.node("n01", func(n *gang.Node) { n.Unschedulable = true }) }, nil},
		"gone":                   {func(s *scene) { s.lose("n01") }, nil},
		"held by nobody before":  {func(s *scene) { s.status().Holds = nil; s.breakNode("n01") }, nil},
		"until the hold is over": {func(s *scene) { s.breakNode("n01"); s.after(20 * time.Second) }, nil},
		"and answers again":      {func(s *scene) { s.breakNode("n01"); s.decide(); s.node("n01", func(n *gang.Node) { n.Ready = true }) }, []string{"n01"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := running(3, rule("r", step(v1alpha1.RestartPod, 0)))
			s.Job.Spec.Hold = &v1alpha1.Hold{Policy: v1alpha1.HoldOnRecovery, Seconds: new(int32(20))}
			s.crash(1, 1)
			s.decide()
			s.replace(1)
			s.decide()
			tc.story(s)
			s.decide()
			check.Equal(t, "held", tc.want, s.held())
		})
	}
	t.Run("a standing one too", func(t *testing.T) {
		s := running(3)
		s.Job.Spec.Hold = &v1alpha1.Hold{Policy: v1alpha1.HoldAlways, Seconds: new(int32(600))}
		s.decide()
		s.breakNode("n01")
		s.decide()
		check.Equal(t, "held", []string{"n00", "n01", "n02"}, s.held())
	})
}

// What another job preempted, or took while this one was suspended, is not held from it.
func TestHoldsThatYield(t *testing.T) {
	s := running(3, rule("r", step(v1alpha1.RestartJob, 0)))
	s.Pods[1].Deleting, s.Pods[1].Disrupted = true, corev1.PodReasonPreemptionByScheduler
	s.decide()
	check.Equal(t, "held", []string{"n00", "n02"}, s.held())
	s.PodGroup.Pending = true
	check.Equal(t, "admit", false, s.plan().Admit)
	s.Job.Spec.Hold = &v1alpha1.Hold{Policy: v1alpha1.HoldAlways}
	s.decide()
	check.Equal(t, "held always", []string{"n00", "n02"}, s.held())
}

func TestAHoldSaysWhenItEnds(t *testing.T) {
	s := running(3)
	s.crash(1, 1)
	d := s.decide()
	until := s.Now.Add(10 * time.Minute).Truncate(time.Second)
	check.Equal(t, "until", until.String(), s.status().Holds[0].Until.String())
	if d.Next.IsZero() || d.Next.After(until) {
		t.Errorf("looks again at %s", d.Next)
	}
}

func TestOfTwoIncidentsTheLongerHoldStays(t *testing.T) {
	s := running(3, rule("first", on(v1alpha1.PodFailed), step(v1alpha1.RestartPod, 0)), rule("second", step(v1alpha1.RestartJob, 0)))
	s.crash(1, 1)
	s.decide()
	s.after(time.Minute).Pods[2].Deleting = true
	s.decide()
	for _, h := range s.status().Holds {
		check.Equal(t, h.Node, s.Now.Add(10*time.Minute).Truncate(time.Second).String(), h.Until.String())
	}
	check.Equal(t, "held", []string{"n00", "n01", "n02"}, s.held())
}

// A cache that is behind shows the taint of a hold that was released. The node is held again before its next pod is deleted.
func TestANodeIsHeldAgainThatTheCacheStillShowsHeld(t *testing.T) {
	for name, hold := range map[string]*v1alpha1.Hold{"while it recovers": nil, "always": {Policy: v1alpha1.HoldAlways}} {
		t.Run(name, func(t *testing.T) {
			s := running(3, rule("r", step(v1alpha1.RestartPod, 0), charged(v1alpha1.ChargeNever)))
			s.Job.Spec.Hold = hold
			s.record("11")
			s.crash(1, 1)
			s.record("12")
			s.node("n01", func(n *gang.Node) { n.Hold = HoldValue(*placement.HoldOn(s.status().Holds, "n01")) })
			check.Equal(t, "is held", false, s.holdsFirst("n01"))
			s.replace(1)
			s.bind(1, "n01")
			s.node("n01", func(n *gang.Node) { n.Unschedulable = true })
			s.record("13")
			check.Equal(t, "is released", []string{"n01"}, s.plan().Release)

			s.node("n01", func(n *gang.Node) { n.Unschedulable = false })
			s.crash(1, 1)
			s.record("14")
			check.Equal(t, "is held again", true, s.holdsFirst("n01"))
			check.Equal(t, "value", true, strings.HasSuffix(HoldValue(*placement.HoldOn(s.status().Holds, "n01")), "-14"))
			s.record("15")
			check.Equal(t, "value, decided again", true, strings.HasSuffix(HoldValue(*placement.HoldOn(s.status().Holds, "n01")), "-14"))
		})
	}
}

// record decides on a version of the job.
func (s *scene) record(version string) {
	s.Job.ResourceVersion = version
	s.decide()
}

// holdsFirst reports whether a node has yet to be held, and the deletion of some pod waits for that.
func (s *scene) holdsFirst(node string) bool {
	p := s.plan()
	waits := slices.ContainsFunc(p.DeletePods, func(d PodDeletion) bool { return slices.Contains(d.HoldFirst, node) })
	return waits && placement.HoldOn(p.Hold, node) != nil
}

func TestHoldKey(t *testing.T) {
	names := map[string]string{
		"short":                  "llm",
		"the longest":            strings.Repeat("a", 49),
		"longer than is allowed": strings.Repeat("a", 253),
		"cut at a dot":           strings.Repeat("a", 49) + "." + strings.Repeat("b", 100),
	}
	for name, jobName := range names {
		t.Run(name, func(t *testing.T) {
			job := aJob()
			job.Name = jobName
			key := HoldKey(job.TrainingJob)
			if wrong := validation.IsQualifiedName(key); len(wrong) > 0 {
				t.Errorf("%s: %v", key, wrong)
			}
			other := aJob()
			other.Name, other.UID = jobName, "99999999-0000-4000-8000-000000000000"
			if HoldKey(other.TrainingJob) == key {
				t.Error("a job of the same name has the same key")
			}
		})
	}
	check.Equal(t, "key", "hold.lockstep.dev/llm-0123abcd", HoldKey(aJob().TrainingJob))
}

func TestHoldValues(t *testing.T) {
	until := metav1.NewTime(time.Unix(1000, 0))
	check.Equal(t, "value", "1000", HoldValue(v1alpha1.NodeHold{Until: &until}))
	check.Equal(t, "standing", "standing", HoldValue(v1alpha1.NodeHold{}))
	check.Equal(t, "value with an id", "1000-7", HoldValue(v1alpha1.NodeHold{Until: &until, ID: "7"}))
	check.Equal(t, "standing with an id", "standing-7", HoldValue(v1alpha1.NodeHold{ID: "7"}))
	for value, want := range map[string]bool{
		"1000": true, "999": true, "1001": false, "standing": false, "": true, "soon": true,
		"1000-7": true, "1001-7": false, "standing-7": false, "-7": true,
	} {
		check.Equal(t, value, want, HoldExpired(value, time.Unix(1000, 5)))
	}
	taints := []corev1.Taint{
		{Key: "other", Value: "1"},
		{Key: v1alpha1.HoldTaintPrefix + "a", Value: "standing"},
		{Key: v1alpha1.HoldTaintPrefix + "b", Value: "3000"},
		{Key: v1alpha1.HoldTaintPrefix + "c", Value: "2000-7"},
	}
	check.Equal(t, "next", time.Unix(2000, 0).Unix(), NextHoldEnd(taints).Unix())
	check.Equal(t, "never", true, NextHoldEnd(taints[:2]).IsZero())
}
