// The wake: which failures belong to an incident that is open.

package policies

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/rules"
	"github.com/lockstep-dev/lockstep/test/check"
)

func TestTheWake(t *testing.T) {
	crash := func(i int) func(*scene) { return func(s *scene) { s.crash(i, 1) } }
	breaks := func(n string) func(*scene) { return func(s *scene) { s.breakNode(n) } }
	loses := func(n string) func(*scene) { return func(s *scene) { s.lose(n) } }
	slow := rule("slow", on(v1alpha1.AnyEvent), step(v1alpha1.RestartPod, 300))
	tests := map[string]struct {
		rules         []v1alpha1.Rule
		first, second func(*scene)
		after         time.Duration
		want          []int32 // pods of the incidents
	}{
		"crashes, 10 s apart":            {[]v1alpha1.Rule{slow}, crash(0), crash(1), 10 * time.Second, []int32{2}},
		"crashes, more than that":        {[]v1alpha1.Rule{slow}, crash(0), crash(1), 5 * time.Minute, []int32{2}},
		"nodes, 60 s apart":              {[]v1alpha1.Rule{slow}, breaks("n00"), breaks("n01"), time.Minute, []int32{2}},
		"nodes, more than that":          {[]v1alpha1.Rule{slow}, breaks("n00"), breaks("n01"), time.Minute + time.Microsecond, []int32{1, 1}},
		"nodes, silent and gone":         {[]v1alpha1.Rule{slow}, breaks("n00"), loses("n01"), time.Minute, []int32{2}},
		"a crash after a node, 10 s":     {[]v1alpha1.Rule{slow}, breaks("n00"), crash(1), 10 * time.Second, []int32{2}},
		"a crash after a node, later":    {[]v1alpha1.Rule{slow}, breaks("n00"), crash(1), 4 * time.Minute, []int32{2}},
		"a node that explains a crash":   {[]v1alpha1.Rule{slow}, crash(0), breaks("n01"), time.Minute, []int32{2}},
		"a node that is too late for it": {[]v1alpha1.Rule{slow}, crash(0), breaks("n01"), time.Minute + time.Microsecond, []int32{1, 1}},
		"a node that explains a crash, under another rule": {
			[]v1alpha1.Rule{rule("crash", on(v1alpha1.PodFailed), step(v1alpha1.RestartPod, 300)), slow}, crash(0), breaks("n01"), time.Minute, []int32{2}},
		"another rule": {
			[]v1alpha1.Rule{rule("crash", on(v1alpha1.PodFailed), step(v1alpha1.RestartPod, 300)), slow}, crash(0),
			breaks("n01"), 2 * time.Minute, []int32{1, 1}},
		"none in the wake of what is over": {[]v1alpha1.Rule{slow}, func(s *scene) { s.unready(0); s.decide(); s.Pods[0].Ready = true; s.decide() }, crash(1), time.Second, []int32{1, 1}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := running(3, tc.rules...)
			tc.first(s)
			s.decide()
			s.after(tc.after)
			tc.second(s)
			s.decide()
			var got []int32
			for _, inc := range s.status().Incidents {
				got = append(got, inc.PodCount)
			}
			check.Equal(t, "pods", tc.want, got)
		})
	}
}

// A rank that joins after a step has restarted the others is restarted with them, at once.
func TestWhoJoinsLateIsRestartedToo(t *testing.T) {
	s := running(4, others)
	s.crash(0, 1)
	s.decide()
	s.after(5*time.Second).crash(1, 1)
	s.breakNode("n02")
	s.decide()
	check.Equal(t, "lives", []int32{1, 1, 1, 0}, s.lives())
	check.Equal(t, "incidents", 1, len(s.status().Incidents))
	check.Equal(t, "excluded", []string{"n02"}, s.excluded())
	check.Equal(t, "fired", []string{"RestartPod@0"}, s.fired(t))
	check.Equal(t, "cause", v1alpha1.NodeNotReady, s.incident(t).Trigger)
	check.Equal(t, "restarts", v1alpha1.Restarts{Total: 1, Pod: 1, Uncharged: 1}, s.status().Restarts)
}

// A whole rack that falls silent, node by node, is one incident.
func TestARackThatFallsSilent(t *testing.T) {
	s := running(6)
	for i := range 6 {
		s.breakNode(fmt.Sprintf("n%02d", i))
		s.decide()
		s.after(9 * time.Second)
	}
	check.Equal(t, "incidents", []summary{{v1alpha1.NodeNotReady, v1alpha1.ClassInfrastructure, "node-may-return", 6, ""}}, s.summaries())
	s.Now = sceneStart.Add(90 * time.Second)
	s.decide()
	check.Equal(t, "fired", []string{"RestartPod@90"}, s.fired(t))
	check.Equal(t, "excluded", 6, len(s.excluded()))
	s.decide()
	check.Equal(t, "counted", v1alpha1.Restarts{Total: 1, Pod: 1, Uncharged: 1}, s.status().Restarts)
}

// A stronger event changes the rule until something was restarted, and not after.
func TestStrength(t *testing.T) {
	order := [][]v1alpha1.EventType{
		{v1alpha1.PodPending, v1alpha1.HealthDegraded},
		{v1alpha1.PodNotReady},
		{v1alpha1.ProcessFailed},
		{v1alpha1.NodeNotReady},
		{v1alpha1.PodFailed, v1alpha1.PodDeleted, v1alpha1.NodeGone, v1alpha1.HealthFailed},
	}
	for want, events := range order {
		for _, e := range events {
			check.Equal(t, string(e), want, rules.Strength(e))
		}
	}
	back := rule("back", on(v1alpha1.PodNotReady, v1alpha1.NodeNotReady), step(v1alpha1.RestartPod, 60))
	tests := map[string]struct {
		story func(*scene)
		want  summary
	}{
		"not ready, then failed": {func(s *scene) { s.unready(1); s.decide(); s.crash(1, 1) },
			summary{v1alpha1.PodFailed, v1alpha1.ClassUser, "others", 1, ""}},
		"not ready, then its node is gone": {func(s *scene) { s.unready(1); s.decide(); s.lose("n01") },
			summary{v1alpha1.NodeGone, v1alpha1.ClassInfrastructure, "others", 1, ""}},
		"silent, then out of memory elsewhere": {func(s *scene) {
			s.breakNode("n01")
			s.decide()
			s.node("n01", func(n *gang.Node) { n.Ready = true })
			s.unready(1)
		},
			summary{v1alpha1.NodeNotReady, v1alpha1.ClassInfrastructure, "back", 1, ""}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := running(3, back, others)
			tc.story(s)
			s.after(time.Second).decide()
			check.Equal(t, "incident", []summary{tc.want}, s.summaries())
		})
	}
}
