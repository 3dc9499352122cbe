package lab

import (
	"fmt"
	"math"
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
	for _, effect := range []Effect{ProcessExit, DeviceFailure, NodeLoss} {
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
