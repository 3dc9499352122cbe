package lab

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/topology"
	"github.com/lockstep-dev/lockstep/test/check"
)

// racks are HyperNodes of tier 1 under one spine.
func racks(n, nodes int) []topology.HyperNode {
	spine := topology.HyperNode{Name: "spine", Tier: 2}
	var all []topology.HyperNode
	for r := range n {
		rack := topology.HyperNode{Name: fmt.Sprintf("rack-%d", r), Tier: 1}
		for i := range nodes {
			rack.Nodes = append(rack.Nodes, fmt.Sprintf("n-%d-%d", r, i))
		}
		spine.Nodes = append(spine.Nodes, rack.Nodes...)
		all = append(all, rack)
	}
	return append(all, spine)
}

func job(replicas int32) *v1alpha1.TrainingJob {
	return &v1alpha1.TrainingJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "llama"},
		Spec: v1alpha1.TrainingJobSpec{
			Queue: "default", NetworkTopology: &v1alpha1.NetworkTopology{Mode: v1alpha1.TopologyHard, HighestTierAllowed: new(int32(2))},
			Tasks: []v1alpha1.Task{{Name: "worker", Replicas: replicas, Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyOnFailure}}}},
		},
	}
}

func play(t *testing.T, s Setup) *Result {
	t.Helper()
	r, err := Play(s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestWithoutFailuresOnlyTheStartAndCheckpointsCost(t *testing.T) {
	costs := DefaultCosts()
	r := play(t, Setup{Job: job(4), HyperNodes: racks(1, 6), For: 100 * time.Hour})
	check.Equal(t, "failures", 0, len(r.Failures))
	check.Equal(t, "failed", "", r.Failed)
	if r.Down > costs.Restore+30*time.Second {
		t.Errorf("the start took %s", r.Down)
	}
	want := float64(costs.CheckpointInterval) / float64(costs.CheckpointInterval+costs.CheckpointWrite)
	if math.Abs(r.ETTR-want) > 0.001 {
		t.Errorf("ETTR %.4f, want %.4f", r.ETTR, want)
	}
}

func TestEachKindOfFailureIsRecoveredFrom(t *testing.T) {
	for _, effect := range []Effect{ProcessExit, PodLoss, DeviceFailure, NodeLoss, NodeDeletion} {
		t.Run(string(effect), func(t *testing.T) {
			r := play(t, Setup{
				Job: job(4), HyperNodes: racks(2, 6), For: 1000 * time.Hour, Seed: 1,
				Causes: []Cause{{Name: "c", Effect: effect, PerThousandNodeDays: 100, Repair: 6 * time.Hour}},
			})
			t.Logf("%+v", *r)
			check.Equal(t, "failed", "", r.Failed)
			if n := r.Failures["c"]; n < 8 || n > 30 {
				t.Errorf("%d failures, of about 17", n)
			}
			if mean := r.LostBy["c"] / time.Duration(r.Failures["c"]); mean > 30*time.Minute {
				t.Errorf("a failure costs %s", mean)
			}
		})
	}
}

// What a job loses is told by phase and by cause, and both have all of it.
func TestAllOfTheDowntimeIsInAPhase(t *testing.T) {
	r := play(t, Setup{Job: job(8), HyperNodes: racks(2, 6), For: 2000 * time.Hour, Seed: 3, Causes: []Cause{
		{Name: "exit", Effect: ProcessExit, PerThousandNodeDays: 50}, {Name: "node", Effect: NodeLoss, PerThousandNodeDays: 50, Repair: 24 * time.Hour},
	}})
	phases, causes := time.Duration(0), time.Duration(0)
	for _, d := range r.DownIn {
		phases += d
	}
	for _, d := range r.LostBy {
		causes += d
	}
	check.Equal(t, "by phase", r.Down, phases)
	check.Equal(t, "by cause", r.Down+r.Lost, causes)
}

// A process that ends is restarted before its peers have aborted, and waits for them.
func TestTheGangComesTogetherOnceAfterAFailure(t *testing.T) {
	r := play(t, Setup{Job: job(4), HyperNodes: racks(1, 6), For: 1000 * time.Hour, Seed: 1, Causes: []Cause{{Name: "c", Effect: ProcessExit, PerThousandNodeDays: 100}}})
	check.Equal(t, "restores", time.Duration(r.Failures["c"]+1)*DefaultCosts().Restore, r.DownIn[Restore])
	check.Equal(t, "places", [Localities]int{}, r.Places)
}

// The failures are those of the cluster: no policy has fewer of them.
func TestEveryPolicyMeetsTheSameFailures(t *testing.T) {
	setup := Setup{Job: job(8), HyperNodes: racks(2, 6), For: 2000 * time.Hour, Seed: 5, Causes: []Cause{
		{Name: "exit", Effect: ProcessExit, PerThousandNodeDays: 50}, {Name: "rack", Scope: HyperNodeScope, Effect: NodeLoss, PerThousandNodeDays: 5, Repair: time.Hour},
	}}
	check.Equal(t, "failures", setup.draw(), setup.draw())
	sizes := map[string]map[int]bool{"exit": {}, "rack": {}}
	for _, f := range setup.draw() {
		sizes[f.Cause.Name][len(f.Nodes)] = true
	}
	check.Equal(t, "nodes of a failure", map[string]map[int]bool{"exit": {1: true}, "rack": {6: true}}, sizes)
	given := setup
	given.Causes, given.Failures = nil, setup.draw()
	check.Equal(t, "given failures are played as drawn ones", play(t, setup).ETTR, play(t, given).ETTR)
}

func TestLemonsHaveTheirShareOfTheFailures(t *testing.T) {
	setup := Setup{HyperNodes: racks(4, 16), For: 365 * 24 * time.Hour, Seed: 1, Lemons: &Lemons{Nodes: 3.0 / 64, Failures: 0.5}, Causes: []Cause{{Name: "c", Effect: ProcessExit, PerThousandNodeDays: 50}}}
	counts := map[string]int{}
	all := setup.draw()
	for _, f := range all {
		counts[f.Nodes[0]]++
	}
	most := slices.Sorted(maps.Values(counts))
	slices.Reverse(most)
	if share := float64(most[0]+most[1]+most[2]) / float64(len(all)); share < 0.45 || share > 0.6 {
		t.Errorf("the three worst nodes have %.2f of the failures", share)
	}
}

// A rank on a node that is only degraded slows the job down until the policy moves it.
func TestADegradedNodeSlowsTheJobDownUntilItsRankMoves(t *testing.T) {
	setup := Setup{Job: job(4), HyperNodes: racks(1, 6), For: 100 * time.Hour, Failures: []Failure{{
		At: 10 * time.Hour, Nodes: []string{"n-0-0"}, Cause: Cause{Name: "link", Effect: Degradation, Slowdown: 0.5, Repair: 50 * time.Hour},
	}}}
	moved := play(t, setup)
	check.Equal(t, "moves", int32(1), moved.Restarts.Pod)
	check.Equal(t, "places", [Localities]int{LowestHyperNode: 1}, moved.Places)
	if low, high := 165*time.Second, 300*time.Second; moved.Slowed < low || moved.Slowed > high {
		t.Errorf("slowed by %s, and the policy waits 5 min", moved.Slowed)
	}
	setup.Job.Spec.RestartPolicy = &v1alpha1.RestartPolicy{Rules: []v1alpha1.Rule{{
		Name: "ride-out", Match: v1alpha1.Match{Events: []v1alpha1.EventType{v1alpha1.HealthDegraded}}, Steps: []v1alpha1.Step{{Action: v1alpha1.Ignore}},
	}}}
	check.Equal(t, "ridden out", 25*time.Hour, play(t, setup).Slowed)
}

func TestIncidentsOfJobsAreCounted(t *testing.T) {
	at := func(day int) metav1.MicroTime { return metav1.NewMicroTime(Begin.AddDate(0, 0, day)) }
	young, old, unplaced := job(2), job(2), job(2)
	for _, j := range []*v1alpha1.TrainingJob{young, old} {
		j.CreationTimestamp = metav1.NewTime(Begin)
		j.Status.Placement = &v1alpha1.Placement{Tasks: []v1alpha1.TaskPlacement{{Name: "worker", Nodes: []string{"n1", "n2"}}}}
	}
	young.Status.Incidents = []v1alpha1.Incident{{Trigger: v1alpha1.PodFailed, StartTime: at(1)}, {Trigger: v1alpha1.PodPending, StartTime: at(2)}}
	for range remembered { // there may have been others before
		old.Status.Incidents = append(old.Status.Incidents, v1alpha1.Incident{Trigger: v1alpha1.NodeNotReady, StartTime: at(90)})
	}
	m, err := CountIncidents([]*v1alpha1.TrainingJob{young, old, unplaced}, Begin.AddDate(0, 0, 100), DefaultRepair)
	check.Equal(t, "error", nil, err)
	check.Equal(t, "model", &Model{Source: "11 incidents in 220 node-days of 3 jobs", NodeDays: 220, AssumedRepair: DefaultRepair, Causes: []Counted{
		{Name: "NodeNotReady", PerThousandNodeDays: 10 * 1000.0 / 220, Effect: NodeLoss, Repair: "24h0m0s"},
		{Name: "PodFailed", PerThousandNodeDays: 1000.0 / 220, Effect: PodFailure},
	}}, m)
	// A node that came back was away for as long as its incident lasted, and the others for what is assumed: the mean is that of the cause.
	young.Status.Incidents = []v1alpha1.Incident{
		{Trigger: v1alpha1.NodeGone, StartTime: at(1)},
		{Trigger: v1alpha1.NodeGone, StartTime: at(2), EndTime: new(metav1.NewMicroTime(Begin.AddDate(0, 0, 2).Add(2 * time.Hour))), Outcome: v1alpha1.OutcomeRecovered},
	}
	m, err = CountIncidents([]*v1alpha1.TrainingJob{young}, Begin.AddDate(0, 0, 100), 4*time.Hour)
	check.Equal(t, "error", nil, err)
	check.Equal(t, "repair", "3h0m0s", m.Causes[0].Repair)
	_, err = m.Rates()
	check.Equal(t, "error of its rates", nil, err)
	_, err = CountIncidents([]*v1alpha1.TrainingJob{unplaced}, Begin, DefaultRepair)
	check.Equal(t, "without any", true, err != nil)
}

func TestTheSameSeedGivesTheSameResult(t *testing.T) {
	setup := func(seed uint64) Setup {
		return Setup{Job: job(8), HyperNodes: racks(2, 6), For: 500 * time.Hour, Seed: seed, Causes: []Cause{
			{Name: "exit", Effect: ProcessExit, PerThousandNodeDays: 50}, {Name: "node", Effect: NodeLoss, PerThousandNodeDays: 50, Repair: time.Hour},
		}}
	}
	check.Equal(t, "again", play(t, setup(7)), play(t, setup(7)))
	if a, b := play(t, setup(7)), play(t, setup(8)); a.ETTR == b.ETTR {
		t.Error("another seed gives the same ETTR")
	}
}

func TestAgreesWithTheFormulaWhereThatHolds(t *testing.T) {
	const nodes, perThousandNodeDays = 64, 6.5
	for _, interval := range []time.Duration{10 * time.Minute, 3 * time.Hour} {
		t.Run(interval.String(), func(t *testing.T) {
			costs := DefaultCosts()
			costs.CheckpointInterval = interval
			failures, ettr, down := 0, 0.0, time.Duration(0)
			const plays = 2
			for seed := range uint64(plays) {
				r := play(t, Setup{
					Job: WholeJobRestarts(job(nodes)), HyperNodes: racks(5, 16), For: 365 * 24 * time.Hour, Seed: seed, Costs: &costs,
					Causes: []Cause{{Name: "exit", Effect: ProcessExit, PerThousandNodeDays: perThousandNodeDays}},
				})
				failures, ettr, down = failures+r.Failures["exit"], ettr+r.ETTR/plays, down+r.Down
			}
			rate := float64(failures) / (plays * 365 * 86400) // as they were drawn
			want := ExpectedETTR(rate, down/time.Duration(failures), interval, costs.CheckpointWrite)
			t.Logf("%d failures, ETTR %.4f, by the formula %.4f", failures, ettr, want)
			if math.Abs(ettr-want) > 0.01*want {
				t.Errorf("ETTR %.4f, by the formula %.4f", ettr, want)
			}
		})
	}
}

// BenchmarkMonth is a month of 2,048 ranks, each with a node of 8 GPUs.
func BenchmarkMonth(b *testing.B) {
	for b.Loop() {
		r, err := Play(Setup{
			Job: job(2048), HyperNodes: racks(70, 32), For: 30 * 24 * time.Hour, Seed: 1,
			Causes: []Cause{{Name: "exit", Effect: ProcessExit, PerThousandNodeDays: 3}, {Name: "node", Effect: NodeLoss, PerThousandNodeDays: 3.5, Repair: 24 * time.Hour}},
		})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(r.Decisions), "decisions/op")
	}
}

func TestNodesTakeAsManyPodsAsTheyHaveRoomFor(t *testing.T) {
	setup := Setup{Job: job(4), HyperNodes: racks(1, 3), PodsOn: map[string]int{"n-0-0": 3, "n-0-2": 1}, For: time.Hour}
	if r := play(t, setup); r.Trained == 0 {
		t.Error("it never trained")
	}
	setup.PodsOn["n-0-0"] = 2
	_, err := Play(setup)
	check.Equal(t, "error", "the job has 4 pods, spares among them, and the 3 nodes take 3", fmt.Sprint(err))
}
