// Spares: who takes their nodes, and when they look for new ones.

package policies

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/placement"
	"github.com/lockstep-dev/lockstep/policies/topology"
	"github.com/lockstep-dev/lockstep/test/check"
)

var atOnce = rule("at-once", on(v1alpha1.AnyEvent), step(v1alpha1.RestartPod, 0), step(v1alpha1.RestartPod, 60), step(v1alpha1.RelocateJob, 900))

// spared is a running job of three workers, with so many spares on n03 and so on.
func spared(spares int32, rule v1alpha1.Rule) *scene {
	return aScene(aJob().tasks(task("worker", 3, withSpares(spares))).policy(withRules(rule))).started().placed()
}

// nodes are the ranks' own nodes.
func (s *scene) nodes() []string { return s.status().Placement.Tasks[0].Nodes }

func TestARankTakesASparesNode(t *testing.T) {
	s := spared(2, atOnce)
	s.lose("n01")
	check.Equal(t, "changes", sorted([]string{
		"availability.interruption.cause: NodeGone", "availability.interruption.incident: 1", "availability.interruption.startTime: 0s",
		"excludedNodes[n01]: incident 1, until 1h0m0s",
		"holds[n03]: until 10m0s",
		"incidents[1].cause.node: n01",
		"incidents[1].cause.pod: llm-1-worker-1",
		"incidents[1].class: Infrastructure",
		"incidents[1].id: 1",
		"incidents[1].podCount: 1",
		"incidents[1].pods[llm-1-worker-1]: task worker, uid 2",
		"incidents[1].ranks[0]: failed 1, task worker",
		"incidents[1].rule: at-once",
		"incidents[1].startTime: 0s",
		"incidents[1].steps[0]: action RestartPod, index 0, time 0s",
		"incidents[1].trigger: NodeGone",
		"placement.tasks[worker].nodes[1]: n03",
		"ready: 2/3",
		"restarts.pod: 1",
		"restarts.total: 1",
		"restarts.uncharged: 1",
		"state: Recovering",
		"tasks[worker].ranks[1]: incarnation 1, reason Step",
		"tasks[worker].ready: 2",
		"tasks[worker-spare].ranks[0]: incarnation 1, reason SpareUsed",
		"tasks[worker-spare].ready: 1",
	}), s.changes())
	check.Equal(t, "deleted", []string{"2 by force", "4"}, s.deleted())

	s.replace(1)
	s.replace(s.spare(0))
	s.decide()
	p := s.plan()
	check.Equal(t, "lifted", 1, len(p.Lift))
	check.Equal(t, "lifted", placement.Target{In: []string{"host-n03"}}, p.Lift[0].Target)
	s.bind(1, "n03")
	s.decide()
	check.Equal(t, "outcome", v1alpha1.OutcomeRecovered, s.incident(t).Outcome)

	// All is well again: the spare looks for what is left of home.
	p = s.plan()
	check.Equal(t, "lifted", 1, len(p.Lift))
	check.Equal(t, "spare", "llm-1-worker-spare-0", p.Lift[0].Pod)
	check.Equal(t, "spare goes to", placement.Target{In: []string{"host-n04", "host-n05"}}, p.Lift[0].Target)
	check.Equal(t, "spare's life", map[string]string{
		v1alpha1.AnnotationIncarnation: "1", v1alpha1.AnnotationPlacedTime: "2026-01-02T03:04:05.678901Z",
	}, p.Lift[0].Annotations)
}

func TestWhichSpareIsTaken(t *testing.T) {
	tests := map[string]struct {
		story func(*scene)
		nodes []string
		spare []int32 // lives
	}{
		"none while all is well": {func(*scene) {}, []string{"n00", "n01", "n02"}, []int32{0, 0}},
		"none for a crash":       {func(s *scene) { s.crash(1, 1) }, []string{"n00", "n01", "n02"}, []int32{0, 0}},
		"one for one":            {func(s *scene) { s.lose("n01") }, []string{"n00", "n03", "n02"}, []int32{1, 0}},
		"two for two":            {func(s *scene) { s.lose("n01", "n02") }, []string{"n00", "n03", "n04"}, []int32{1, 1}},
		"two for three":          {func(s *scene) { s.lose("n00", "n01", "n02") }, []string{"n03", "n04", "n02"}, []int32{1, 1}},
		"one for a migration":    {func(s *scene) { s.migrates() }, []string{"n00", "n03", "n02"}, []int32{1, 0}},
		"one for a drain": {func(s *scene) {
			s.Pods[1].Deleting = true
			s.replace(1)
			s.node("n01", func(n *gang.Node) { n.Unschedulable = true })
		}, []string{"n00", "n03", "n02"}, []int32{1, 0}},
		"another where its node is no good":         {func(s *scene) { s.lose("n01", "n03") }, []string{"n00", "n04", "n02"}, []int32{0, 1}},
		"another where it is going":                 {func(s *scene) { s.lose("n01"); s.Pods[3].Deleting = true }, []string{"n00", "n04", "n02"}, []int32{0, 1}},
		"another where it has ended":                {func(s *scene) { s.lose("n01"); s.crash(3, 1) }, []string{"n00", "n04", "n02"}, []int32{0, 1}},
		"another where it is elsewhere":             {func(s *scene) { s.lose("n01"); s.Pods[3].Node = "n07" }, []string{"n00", "n04", "n02"}, []int32{0, 1}},
		"another where it has no node":              {func(s *scene) { s.lose("n01"); s.replace(3) }, []string{"n00", "n04", "n02"}, []int32{0, 1}},
		"none that is not there":                    {func(s *scene) { s.lose("n01"); s.Pods = s.Pods[:3] }, []string{"n00", "n01", "n02"}, []int32{0, 0}},
		"one that is not ready yet":                 {func(s *scene) { s.lose("n01"); s.Pods[3].Phase, s.Pods[3].Ready = corev1.PodPending, false }, []string{"n00", "n03", "n02"}, []int32{1, 0}},
		"none in a dry run":                         {func(s *scene) { s.lose("n01"); s.dryRun(true) }, []string{"n00", "n01", "n02"}, []int32{0, 0}},
		"none in a dry run, for a pod that is gone": {func(s *scene) { s.lose("n01"); s.replace(1); s.dryRun(true) }, []string{"n00", "n01", "n02"}, []int32{0, 0}},
		"none before a step":                        {func(s *scene) { s.Job.Spec.RestartPolicy = nil; s.breakNode("n01") }, []string{"n00", "n01", "n02"}, []int32{0, 0}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := spared(2, atOnce)
			tc.story(s)
			s.decide()
			check.Equal(t, "nodes", tc.nodes, s.nodes())
			check.Equal(t, "spares' lives", tc.spare, s.spareLives())
			check.Equal(t, "changes, decided again", nil, s.changes())
		})
	}
}

func (s *scene) migrates() {
	s.Job.Spec.RestartPolicy = policy(withRules(rule("ill", step(v1alpha1.MigratePod, 0))))
	s.Pods[1].Signals = []gang.Signal{{Name: "NVLinkReplay"}}
}

func (s *scene) dryRun(on bool) {
	s.Job.Annotations = map[string]string{v1alpha1.DryRun: map[bool]string{true: "true", false: "false"}[on]}
}

// A rank whose own node is good and full takes one spare, once it has looked elsewhere.
func TestARankTakesOneSpareAtATime(t *testing.T) {
	s := spared(2, atOnce)
	s.crash(1, 1)
	s.decide()
	s.replace(1)
	s.decide()
	s.search(1)
	s.after(60 * time.Second).decide() // the second step gives its own node up
	check.Equal(t, "fired", []string{"RestartPod@0", "RestartPod@60"}, s.fired(t))
	check.Equal(t, "nodes", []string{"n00", "n01", "n02"}, s.nodes())
	s.replace(1)
	s.decide()
	s.search(1)
	s.after(29 * time.Second).decide()
	check.Equal(t, "nodes, before it has looked for long", []string{"n00", "n01", "n02"}, s.nodes())
	s.after(time.Second).decide()
	check.Equal(t, "nodes", []string{"n00", "n03", "n02"}, s.nodes())
	check.Equal(t, "deleted", []string{"7", "4"}, s.deleted())
	for range 3 {
		s.after(time.Second).decide()
	}
	s.replace(1)
	s.replace(s.spare(0))
	s.after(time.Second).decide()
	check.Equal(t, "nodes, later", []string{"n00", "n03", "n02"}, s.nodes())
	check.Equal(t, "held", []string{"n03"}, s.held())
}

// A rank that has the room of a spare may still wait, for a peer that has failed or finds no room. It takes no other spare meanwhile.
func TestARankThatWaitsForItsGangTakesNoOtherSpare(t *testing.T) {
	tests := map[string]func(*scene){
		"one that found no room": func(s *scene) {
			s.after(60 * time.Second).decide() // the second step gives its own node up
			s.replace(1)
			s.decide()
			s.search(1)
			s.after(30 * time.Second).decide()
		},
		"one whose node is no good at its second step": func(s *scene) {
			s.node("n01", func(n *gang.Node) { n.Unschedulable = true })
			s.after(60 * time.Second).decide()
		},
	}
	for name, loses := range tests {
		t.Run(name, func(t *testing.T) {
			s := spared(2, atOnce)
			s.Pods[s.spare(1)].Node = "n03"
			s.crash(1, 1)
			s.decide()
			s.replace(1)
			s.decide()
			s.search(1)
			loses(s)
			check.Equal(t, "nodes", []string{"n00", "n03", "n02"}, s.nodes())
			check.Equal(t, "spares' lives", []int32{1, 0}, s.spareLives())

			s.replace(1)
			s.replace(s.spare(0))
			s.decide()
			s.search(1)
			s.after(30 * time.Second).decide()
			check.Equal(t, "nodes, later", []string{"n00", "n03", "n02"}, s.nodes())
			check.Equal(t, "spares' lives, later", []int32{1, 0}, s.spareLives())

			s.node("n03", func(n *gang.Node) { n.Unschedulable = true })
			s.Pods[s.spare(1)].Node = "n05"
			s.decide()
			check.Equal(t, "nodes, once that is no good", []string{"n00", "n05", "n02"}, s.nodes())
		})
	}
}

// spareLives are the incarnations of the first two spares.
func (s *scene) spareLives() []int32 {
	return []int32{gang.Incarnation(s.status(), "worker-spare", 0), gang.Incarnation(s.status(), "worker-spare", 1)}
}

func TestSparesThatAreOver(t *testing.T) {
	tests := map[string]struct {
		story   func(*scene)
		deleted []string
	}{
		"none while all is well":          {func(*scene) {}, nil},
		"one that has ended":              {func(s *scene) { s.crash(3, 1) }, []string{"4"}},
		"one that has succeeded":          {func(s *scene) { s.succeed(3) }, []string{"4"}},
		"its node is gone":                {func(s *scene) { s.lose("n03") }, []string{"4 by force"}},
		"its node does not answer":        {func(s *scene) { s.breakNode("n03") }, []string{"4"}},
		"its node is cordoned":            {func(s *scene) { s.node("n03", func(n *gang.Node) { n.Unschedulable = true }) }, []string{"4"}},
		"one that is going":               {func(s *scene) { s.crash(3, 1); s.Pods[3].Deleting = true }, nil},
		"one that looks for a node":       {func(s *scene) { s.replace(3); s.search(3) }, nil},
		"one that looks while a rank may": {func(s *scene) { s.replace(3); s.search(3); s.unready(1) }, []string{"5"}},
		"one behind its gate":             {func(s *scene) { s.replace(3); s.unready(1) }, nil},
		"one of a suspended job":          {func(s *scene) { s.Job.Spec.Suspend = true; s.crash(3, 1) }, nil},
		"one of a finished job":           {func(s *scene) { s.succeed(0); s.succeed(1); s.succeed(2); s.crash(3, 1) }, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := spared(1, rule("late", step(v1alpha1.RestartPod, 60)))
			tc.story(s)
			s.decide()
			check.Equal(t, "deleted", tc.deleted, s.deleted())
		})
	}
}

func TestWhatHappensToASpareIsNoIncident(t *testing.T) {
	for name, story := range map[string]func(*scene){
		"crash":      func(s *scene) { s.crash(3, 1) },
		"not ready":  func(s *scene) { s.unready(3) },
		"deleted":    func(s *scene) { s.Pods[3].Deleting = true },
		"gone":       func(s *scene) { s.Pods = s.Pods[:3] },
		"node gone":  func(s *scene) { s.lose("n03") },
		"no room":    func(s *scene) { s.replace(3); s.search(3); s.after(time.Hour) },
		"ill":        func(s *scene) { s.Pods[3].Signals = []gang.Signal{{Name: "XID79", Failed: true}} },
		"all spares": func(s *scene) { s.crash(3, 1); s.crash(4, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			s := spared(2, atOnce)
			story(s)
			s.decide()
			check.Equal(t, "incidents", nil, s.summaries())
			check.Equal(t, "state", v1alpha1.StateRunning, s.status().State)
			check.Equal(t, "ready", "3/3", s.status().Ready)
		})
	}
}

func TestWhereASpareGoes(t *testing.T) {
	spread := []string{"host-n03", "host-n04", "host-n05"}
	tests := map[string]struct {
		story func(*scene)
		want  []placement.Target
	}{
		"to what home has beside the ranks' nodes": {func(*scene) {}, []placement.Target{{In: spread}}},
		"not while an incident is open":            {func(s *scene) { s.unready(1) }, nil},
		"not while it goes":                        {func(s *scene) { s.Pods[3].Deleting = true }, nil},
		"not without a Volcano Job":                {func(s *scene) { s.VolcanoJobs[0].Deleting = true }, nil},
		"not where home is full":                   {func(s *scene) { s.fill("n00", "n01", "n02") }, nil},
		"not where it stands":                      {func(s *scene) { s.bind(3, "n03") }, nil},
		"anywhere for a job without a home": {func(s *scene) {
			s.Topology = topology.New(nil)
			s.status().Placement.HyperNode, s.status().Placement.Tier = "", nil
			s.status().ExcludedNodes = []v1alpha1.ExcludedNode{{Name: "n08", Until: s.status().Conditions[0].LastTransitionTime}}
			s.status().ExcludedNodes[0].Until.Time = s.Now.Add(time.Hour)
		}, []placement.Target{{NotIn: []string{"host-n08"}}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := spared(1, rule("late", step(v1alpha1.RestartPod, 60)))
			s.replace(3)
			s.decide()
			tc.story(s)
			s.decide()
			var got []placement.Target
			p := s.plan()
			for _, l := range p.Lift {
				got = append(got, l.Target)
			}
			check.Equal(t, "targets", tc.want, got)
		})
	}
	t.Run("not before the gang is placed", func(t *testing.T) {
		s := aScene(aJob().tasks(task("worker", 2, withSpares(1)))).started()
		check.Equal(t, "lifted", 2, len(s.plan().Lift))
	})
}

// The spare of the attempt before may still run: its heir waits, as a rank would.
func TestASpareWaitsForItsFormerLife(t *testing.T) {
	s := spared(1, atOnce)
	former := s.Pods[s.spare(0)]
	former.Attempt, former.Name, former.UID, former.Node, former.Deleting = 0, "llm-0-worker-spare-0", "99", "n09", true
	s.replace(s.spare(0))
	s.Pods = append(s.Pods, former)
	s.decide()
	check.Equal(t, "lifted beside it", 0, len(s.plan().Lift))
	s.Pods = s.Pods[:len(s.Pods)-1]
	check.Equal(t, "lifted", 1, len(s.plan().Lift))
}
