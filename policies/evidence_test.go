// What a decision rests on.

package policies

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/test/check"
)

// evidence is that of the decision that is next, by names of pods and nodes.
func (s *scene) evidence() (pods, nodes []string) {
	decision := Decide(&s.Observation)
	e := EvidenceFor(&s.Observation, &decision.Status)
	for _, p := range e.Pods {
		pods = append(pods, p.Name)
	}
	return pods, e.Nodes
}

// A rank that joins an incident after its step is restarted at once, by no step of its own.
func TestEvidenceOfARankThatJoins(t *testing.T) {
	s := running(3, rule("all", step(v1alpha1.RestartPod, 0)))
	s.breakNode("n01")
	s.decide()
	s.breakNode("n02")
	_, nodes := s.evidence()
	check.Equal(t, "nodes", []string{"n02"}, nodes)
	s.decide()
	check.Equal(t, "lives", []int32{0, 1, 1}, s.lives())
	check.Equal(t, "steps", 1, len(s.incident(t).Steps))
}

// An incident that ends rests on the pods that were there before it, not on those that were made since.
func TestEvidenceOfAnIncidentThatEnds(t *testing.T) {
	s := running(3, rule("all", step(v1alpha1.RestartPod, 60)))
	s.after(time.Second)
	s.unready(1)
	s.decide()
	back := func() (names []string) {
		decision := Decide(&s.Observation)
		for _, p := range EvidenceFor(&s.Observation, &decision.Status).Back {
			names = append(names, p.Name)
		}
		return names
	}
	check.Equal(t, "while it is open", nil, back())
	s.Pods[1].Ready = true
	check.Equal(t, "once it is over", []string{"llm-1-worker-1"}, back())
	s.unready(1)
	s.after(time.Minute).decide()
	s.replace(1)
	s.decide()
	s.bind(1, "n01")
	check.Equal(t, "outcome", v1alpha1.OutcomeRecovered, Decide(&s.Observation).Status.Incidents[0].Outcome)
	check.Equal(t, "of a pod that was made since", nil, back())
}

// An old incident that ends may be forgotten at once, after many that came and went since.
func TestEvidenceOfAnIncidentThatIsForgotten(t *testing.T) {
	s := running(3, rule("all", step(v1alpha1.RestartPod, 60)))
	s.after(time.Second)
	s.unready(1)
	s.decide()
	for id := range int32(10) {
		s.status().Incidents = append(s.status().Incidents, v1alpha1.Incident{ID: id + 2, Outcome: v1alpha1.OutcomeRecovered})
	}
	s.Pods[1].Ready = true
	decided := Decide(&s.Observation).Status
	check.Equal(t, "the first that is left", int32(2), decided.Incidents[0].ID)
	check.Equal(t, "back", 1, len(EvidenceFor(&s.Observation, &decided).Back))
}

// Pods that are gone may be so by their Volcano Job.
func TestEvidenceOfPodsThatAreGone(t *testing.T) {
	for name, tc := range map[string]struct {
		story func(*scene)
		asked bool
	}{
		"a pod is gone":      {func(s *scene) { s.gone(1) }, true},
		"a pod is deleted":   {func(s *scene) { s.Pods[1].Deleting, s.Pods[1].Ready = true, false }, true},
		"a pod is not ready": {func(s *scene) { s.unready(1) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := running(3, rule("all", step(v1alpha1.RestartJob, 0)))
			tc.story(s)
			decision := Decide(&s.Observation)
			check.Equal(t, "steps", 1, len(decision.Status.Incidents[0].Steps))
			check.Equal(t, "asks for the Volcano Job", tc.asked, EvidenceFor(&s.Observation, &decision.Status).VolcanoJob != nil)
		})
	}
}

// Of many steps an incident forgets the oldest.
func TestEvidenceOfTheLastStepOfMany(t *testing.T) {
	s := running(3, rule("all", step(v1alpha1.RestartPod, 600)))
	s.unready(1)
	s.decide()
	inc := &s.status().Incidents[0]
	inc.Steps = []v1alpha1.FiredStep{{Action: v1alpha1.RestartProcesses, Time: metav1.NewMicroTime(s.Now.Add(-2 * time.Second))}}
	decided := s.status().DeepCopy()
	decided.Incidents[0].Steps[0].Time = metav1.NewMicroTime(s.Now)
	check.Equal(t, "pods", 1, len(EvidenceFor(&s.Observation, decided).Pods))
	check.Equal(t, "pods without a step", 0, len(EvidenceFor(&s.Observation, s.status()).Pods))
}

func TestEvidence(t *testing.T) {
	type want struct{ pods, nodes []string }
	excluded := func(s *scene, until time.Duration) {
		s.status().ExcludedNodes = []v1alpha1.ExcludedNode{{Name: "n05", NodeUID: "old", Cause: v1alpha1.NodeGone, Machine: "m5", Until: metav1.NewTime(s.Now.Add(until))}}
	}
	tests := map[string]struct {
		story func(*scene)
		want  want
	}{
		"nothing is wrong":                     {func(*scene) {}, want{}},
		"a pod that has ended does not return": {func(s *scene) { s.crash(1, 1) }, want{}},
		"a pod is not ready":                   {func(s *scene) { s.unready(1) }, want{pods: []string{"llm-1-worker-1"}}},
		"a node is silent":                     {func(s *scene) { s.breakNode("n01") }, want{nodes: []string{"n01"}}},
		"a node is gone":                       {func(s *scene) { delete(s.Nodes, "n01") }, want{}},
		"a step was taken before":              {func(s *scene) { s.unready(1); s.decide() }, want{}},
		"an exclusion is over":                 {func(s *scene) { excluded(s, -time.Second) }, want{}},
		"an excluded node is back": {func(s *scene) {
			excluded(s, time.Hour)
			s.node("n05", func(n *gang.Node) { n.Ready, n.UID, n.JoinedTime = true, "new", s.Now })
		}, want{nodes: []string{"n05"}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := running(3, rule("all", step(v1alpha1.RestartJob, 0)))
			tc.story(s)
			var got want
			got.pods, got.nodes = s.evidence()
			check.Equal(t, "pods", tc.want.pods, got.pods)
			check.Equal(t, "nodes", tc.want.nodes, got.nodes)
		})
	}
}
