// Nodes that were silent and join again: when a job may use them before their exclusion is over.

package policies

import (
	"slices"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/test/check"
)

// joins creates a Node object of a name again.
func (s *scene) joins(name, uid string) {
	s.Nodes[name] = gang.Node{Name: name, UID: uid, Hostname: "host-" + name, Ready: true, JoinedTime: s.Now}
}

// admits reports whether the second rank, with a new pod where it gets one, is let go to a node.
func (s *scene) admits(node string) bool {
	if gang.IsStale(s.status(), &s.Pods[1]) {
		s.replace(1)
		s.decide()
	}
	p := s.plan()
	return len(p.Lift) == 1 && slices.Contains(p.Lift[0].Target.In, "host-"+node)
}

// giveUpNode lets the second rank find no room, so that it may go to any node of home, and finds none there.
func (s *scene) giveUpNode() {
	s.after(30 * time.Second).decide()
	s.replace(1)
	s.decide()
	s.letGo(1)
	s.decide()
}

// silent is a job of three whose home has the nodes n00 to n02 and no other good one. Its second rank has lost n01, which is
// excluded, and finds no room elsewhere.
func silent(lost func(*scene), rules ...v1alpha1.Rule) *scene {
	s := running(3, rules...)
	s.fill("n00", "n01", "n02")
	s.node("n01", func(n *gang.Node) { n.UID, n.Machine = "old", "machine-1" })
	lost(s)
	s.decide()
	s.replace(1)
	s.decide()
	s.letGo(1)
	s.decide()
	return s
}

var (
	deleted   = func(s *scene) { s.lose("n01") }
	notReady  = func(s *scene) { s.breakNode("n01") }
	hasFailed = func(s *scene) {
		s.node("n01", func(n *gang.Node) { n.Ill = true })
		s.Pods[1].Signals = []gang.Signal{{Name: "XID79", Failed: true}}
	}
)

func TestAnExclusionForSilenceEndsWithANewNodeObject(t *testing.T) {
	change := func(f func(*gang.Node)) func(*scene) {
		return func(s *scene) { s.joins("n01", "new"); s.node("n01", f) }
	}
	tests := map[string]struct {
		lost, returns func(*scene)
		want          []string
	}{
		"deleted, and joins again":            {deleted, change(func(*gang.Node) {}), nil},
		"silent, and joins again":             {notReady, change(func(*gang.Node) {}), nil},
		"silent, and rebooted":                {notReady, func(s *scene) { s.joins("n01", "old") }, []string{"n01"}},
		"not Ready yet":                       {deleted, change(func(n *gang.Node) { n.Ready = false }), []string{"n01"}},
		"its agent has not reported":          {deleted, change(func(n *gang.Node) { n.AwaitsReport = true }), []string{"n01"}},
		"something there has failed":          {deleted, change(func(n *gang.Node) { n.Ill = true }), []string{"n01"}},
		"still gone":                          {deleted, func(*scene) {}, []string{"n01"}},
		"its devices failed, and joins again": {hasFailed, change(func(n *gang.Node) { n.Machine = "machine-1" }), []string{"n01"}},
		"its devices failed, then it was deleted, and joins again": {func(s *scene) { hasFailed(s); s.decide(); s.lose("n01") },
			change(func(n *gang.Node) { n.Machine = "machine-1" }), []string{"n01"}},
		"an exclusion of an earlier version": {deleted, func(s *scene) {
			s.status().ExcludedNodes[0].Cause = ""
			s.joins("n01", "new")
		}, []string{"n01"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := silent(tc.lost, atOnce)
			check.Equal(t, "excluded", []string{"n01"}, s.excluded())
			tc.returns(s)
			s.after(time.Minute).decide()
			check.Equal(t, "excluded", tc.want, s.excluded())
			if tc.want == nil {
				check.Equal(t, "goes to", true, s.admits("n01"))
			}
		})
	}
}

func TestWhatAnExclusionRecords(t *testing.T) {
	type record struct {
		Cause            v1alpha1.EventType
		NodeUID, Machine string
	}
	for name, tc := range map[string]struct {
		lost func(*scene)
		want record
	}{
		"a node that is gone":              {deleted, record{v1alpha1.NodeGone, "", ""}},
		"a node that is not Ready":         {notReady, record{v1alpha1.NodeNotReady, "old", ""}},
		"a node whose devices failed":      {hasFailed, record{v1alpha1.HealthFailed, "", "machine-1"}},
		"one that was silent after that":   {func(s *scene) { hasFailed(s); notReady(s) }, record{v1alpha1.HealthFailed, "", "machine-1"}},
		"one in quarantine that is silent": {func(s *scene) { s.node("n01", func(n *gang.Node) { n.Ill = true }); notReady(s) }, record{v1alpha1.HealthFailed, "", "machine-1"}},
		"a pod that the node's end ended":  {func(s *scene) { s.Pods[1].Disrupted = "DeletionByTaintManager"; notReady(s) }, record{v1alpha1.NodeNotReady, "old", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			x := silent(tc.lost, atOnce).status().ExcludedNodes[0]
			check.Equal(t, "record", tc.want, record{x.Cause, x.NodeUID, x.Machine})
		})
	}
}

// A node that was deleted and has joined again before the step is due is not excluded.
func TestANodeThatIsBackBeforeTheStep(t *testing.T) {
	s := running(3, rule("later", step(v1alpha1.RestartPod, 60)))
	s.lose("n01")
	s.decide()
	s.replace(1)
	s.joins("n01", "new")
	s.after(time.Minute).decide()
	check.Equal(t, "steps", []string{"RestartPod@60"}, s.fired(t))
	check.Equal(t, "excluded", nil, s.excluded())
}

// Heartbeats of agents wake no job, so that it looks by itself while it waits for one.
func TestAJobLooksForTheReportOfAnAgent(t *testing.T) {
	s := silent(deleted, atOnce)
	s.joins("n01", "new")
	s.node("n01", func(n *gang.Node) { n.AwaitsReport = true })
	check.Equal(t, "looks again", 10*time.Second, s.after(6*time.Second).decide().Next.Sub(s.Now))
}

// An exclusion for the health of a node is of its machine.
func TestAnExclusionForHealthStaysWithTheMachine(t *testing.T) {
	for name, tc := range map[string]struct {
		machine1, machine5 string
		want               []string
	}{
		"under its name":                  {"machine-1", "machine-5", []string{"host-n01"}},
		"under another name":              {"", "machine-1", []string{"host-n01", "host-n05"}},
		"another machine under its name":  {"machine-2", "machine-5", nil},
		"they have changed places":        {"machine-5", "machine-1", []string{"host-n05"}},
		"machines that nobody identifies": {"", "", []string{"host-n01"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := silent(hasFailed, atOnce)
			s.joins("n01", "new")
			s.node("n01", func(n *gang.Node) { n.Machine = tc.machine1 })
			s.node("n05", func(n *gang.Node) { n.Machine = tc.machine5; n.Unschedulable = false })
			s.replace(1)
			s.after(time.Minute).decide()
			var kept []string
			for _, name := range []string{"n01", "n05"} {
				if !s.admits(name) {
					kept = append(kept, "host-"+name)
				}
			}
			check.Equal(t, "kept from", tc.want, kept)
			s.status().Placement.HyperNode = ""
			check.Equal(t, "kept from, without a home", tc.want, s.forSpare().NotIn)
		})
	}
}

// Before home is given up for want of room, a node is that is excluded only because it was silent.
func TestSilenceIsForgivenBeforeHomeIsLeft(t *testing.T) {
	ladder := []v1alpha1.Rule{
		rule("no-room", on(v1alpha1.PodPending), step(v1alpha1.RestartPod, 0), step(v1alpha1.RelocateJob, 300)),
		rule("rest", step(v1alpha1.RestartPod, 0)),
	}
	back := func(s *scene) { s.joins("n01", "old") }
	tests := map[string]struct {
		lost, then func(*scene)
		rules      []v1alpha1.Rule
		lifts      bool
	}{
		"a node that is Ready again":      {notReady, back, ladder, true},
		"not one that is not":             {notReady, func(*scene) {}, ladder, false},
		"not one that is cordoned":        {notReady, func(s *scene) { back(s); s.node("n01", func(n *gang.Node) { n.Unschedulable = true }) }, ladder, false},
		"not one where something failed":  {notReady, func(s *scene) { back(s); s.node("n01", func(n *gang.Node) { n.Ill = true }) }, ladder, false},
		"not one excluded for its health": {hasFailed, back, ladder, false},
		"not without a wait": {notReady, back, []v1alpha1.Rule{
			rule("no-room", on(v1alpha1.PodPending), step(v1alpha1.RelocateJob, 0)), ladder[1]}, false},
		"not in a dry run": {notReady, func(s *scene) { back(s); s.dryRun(true) }, ladder, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := silent(tc.lost, tc.rules...)
			tc.then(s)
			s.giveUpNode()
			s.after(300*time.Second - 1).decide()
			relocated := s.status().Placement == nil
			check.Equal(t, "excluded before", []string{"n01"}, s.excluded())
			s.after(1).decide()
			check.Equal(t, "lifted", tc.lifts, s.excluded() == nil)
			check.Equal(t, "home is kept", tc.lifts || s.Job.Annotations != nil, s.status().Placement != nil && !relocated)
		})
	}
}

// The wait for the relocation begins again, once.
func TestTheWaitAfterSilenceIsForgiven(t *testing.T) {
	s := silent(notReady, rule("no-room", on(v1alpha1.PodPending), step(v1alpha1.RestartPod, 0), step(v1alpha1.RelocateJob, 300)),
		rule("rest", step(v1alpha1.RestartPod, 0)))
	s.joins("n01", "old")
	s.giveUpNode()
	s.after(300 * time.Second).decide()
	check.Equal(t, "excluded", nil, s.excluded())
	check.Equal(t, "goes to", true, s.admits("n01"))
	s.letGo(1) // and somebody else has taken it
	s.decide()
	check.Equal(t, "next", v1alpha1.RelocateJob, s.status().NextStep.Action)
	s.status().ExcludedNodes = []v1alpha1.ExcludedNode{{Name: "n01", Cause: v1alpha1.NodeNotReady, NodeUID: "old"}}
	s.status().ExcludedNodes[0].Until.Time = s.Now.Add(time.Hour)
	s.after(300*time.Second - 1).decide()
	check.Equal(t, "steps", []string{"RestartPod@0"}, s.fired(t))
	s.after(1).decide()
	check.Equal(t, "steps", []string{"RestartPod@0", "RelocateJob@600"}, s.fired(t))
}

// As many nodes are given a second chance as ranks need, the oldest exclusion first.
func TestAsManyAreForgivenAsRanksWait(t *testing.T) {
	s := running(3, rule("no-room", on(v1alpha1.PodPending), step(v1alpha1.RestartPod, 0), step(v1alpha1.RelocateJob, 300)), rule("rest", step(v1alpha1.RestartPod, 0)))
	s.fill("n00", "n01", "n02")
	until := func(name string) v1alpha1.ExcludedNode {
		x := v1alpha1.ExcludedNode{Name: name, Cause: v1alpha1.NodeNotReady}
		x.Until.Time = s.Now.Add(time.Hour)
		return x
	}
	s.status().ExcludedNodes = []v1alpha1.ExcludedNode{until("n02"), until("n01"), until("n00")}
	for _, i := range []int{1, 2} {
		s.crash(i, 1)
	}
	s.decide()
	for _, i := range []int{1, 2} {
		s.replace(i)
	}
	s.decide()
	s.after(30 * time.Second).decide()
	s.after(300 * time.Second).decide()
	check.Equal(t, "excluded", []string{"n00"}, s.excluded())
}
