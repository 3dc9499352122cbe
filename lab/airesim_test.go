package lab

import (
	"math"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// AIReSim (Lin, Pattabiraman, Patel, arXiv 2603.07041) publishes the results of its default parameters in docs/SIMULATION_REPORT.md
// of github.com/karthikp-ubc/airesim: 4,096 servers with 16 warm standbys and 248 more, 11,145.6 failures in 6,144 h of computing,
// 20 min to load the checkpoint after each, and an effective training ratio of 0.6228. Its failures come while the job computes,
// lose no steps, and are repaired in 2 h, or in 50 h for four of five.
func TestAgreesWithAIReSim(t *testing.T) {
	const (
		failures, hours = 11145.6, 6144.0
		published       = 0.6228
		// ranks are fewer here, and fail the more often: what counts is how often the job fails.
		ranks, spares, nodes = 16, 4, 100
	)
	j := job(ranks)
	j.Spec.Tasks[0].Spares = new(int32(spares))
	j.Spec.Tasks[0].Template.Spec.RestartPolicy = "Never"
	j.Spec.RestartPolicy = &v1alpha1.RestartPolicy{Budget: &v1alpha1.Budget{MaxRestarts: new(int32(1 << 20))}}
	perThousandNodeDays := failures / (hours / 24) / ranks * 1000
	r := play(t, Setup{
		Job: j, HyperNodes: racks(nodes/20, 20), For: 180 * 24 * time.Hour, Seed: 1,
		Costs: &Costs{CheckpointInterval: time.Second, CreateRate: 1000, Restore: 20 * time.Minute, React: 50 * time.Millisecond, PeerAbort: time.Second, HealthReport: 10 * time.Millisecond},
		Causes: []Cause{
			{Name: "repaired", Effect: DeviceFailure, WhileTraining: true, PerThousandNodeDays: 0.2 * perThousandNodeDays, Repair: 2 * time.Hour},
			{Name: "by hand", Effect: DeviceFailure, WhileTraining: true, PerThousandNodeDays: 0.8 * perThousandNodeDays, Repair: 50 * time.Hour},
		},
	})
	t.Logf("ETTR %.4f, by AIReSim %.4f", r.ETTR, published)
	if r.Failed != "" || math.Abs(r.ETTR-published) > 0.01*published {
		t.Errorf("ETTR %.4f, by AIReSim %.4f; %s", r.ETTR, published, r.Failed)
	}
}
