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
			decision := Decide(&s.Observation)
			e := EvidenceFor(&s.Observation, &decision.Status)
			var got want
			for _, p := range e.Pods {
				got.pods = append(got.pods, p.Name)
			}
			got.nodes = e.Nodes
			check.Equal(t, "pods", tc.want.pods, got.pods)
			check.Equal(t, "nodes", tc.want.nodes, got.nodes)
		})
	}
}
