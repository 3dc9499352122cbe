package lab

import (
	"os"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/test/check"
)

// swift are the costs of a cluster that is other than the default: simulated kubelets, and a program without a checkpoint.
func swift() Costs {
	c := DefaultCosts()
	c.Stop, c.Recreate, c.Schedule, c.Start, c.Restore = 20*time.Millisecond, 10*time.Millisecond, 60*time.Millisecond, 40*time.Millisecond, 0
	c.PeerAbort, c.RestartInPlace, c.NodeNotReady, c.HealthReport, c.React = 2*time.Second, 20*time.Millisecond, 4*time.Second, time.Second, 10*time.Millisecond
	return c
}

// slow are those of a cluster of large images.
func slow() Costs {
	c := DefaultCosts()
	c.Stop, c.Start, c.PeerAbort, c.RestartInPlace = 30*time.Second, 4*time.Minute, time.Minute, 3*time.Second
	return c
}

// stopping are those of programs that take some time to stop.
func stopping(d time.Duration) Costs {
	c := DefaultCosts()
	c.StopProgram = d
	return c
}

// record plays failures of ranks, and returns the job with the status that it has then.
func record(t *testing.T, j *v1alpha1.TrainingJob, costs Costs, nodes int, failures ...Failure) *v1alpha1.TrainingJob {
	t.Helper()
	r := play(t, Setup{Job: j, HyperNodes: racks(1, nodes), Costs: &costs, Failures: failures, For: 10 * time.Hour})
	out := j.DeepCopy()
	out.Status.Incidents = r.Incidents
	return out
}

// supervisedPods is a job of four whose programs are restarted in new pods.
func supervisedPods() *v1alpha1.TrainingJob {
	j := supervisedJob(4, "")
	j.Spec.RestartPolicy = &v1alpha1.RestartPolicy{Rules: []v1alpha1.Rule{{
		Name: "pods", Match: v1alpha1.Match{Events: []v1alpha1.EventType{v1alpha1.AnyEvent}}, Steps: []v1alpha1.Step{{Action: v1alpha1.RestartPod}},
	}}}
	return j
}

func failure(at time.Duration, rank int32, effect Effect, repair time.Duration) Failure {
	return Failure{At: at, Rank: gang.Rank{Task: "worker", Index: rank}, Cause: Cause{Name: string(effect), Effect: effect, Repair: repair}}
}

// fenced is a job of four whose silent nodes count as dead soon.
func fenced() *v1alpha1.TrainingJob {
	j := job(4)
	j.Spec.RestartPolicy = &v1alpha1.RestartPolicy{UnreachableNode: &v1alpha1.UnreachableNode{
		Policy: v1alpha1.ForceDelete, AfterSeconds: new(int32(60)), GangDownAfterSeconds: new(int32(5)),
	}}
	return j
}

// demo is what test/demo recorded on a real control plane.
func demo(t *testing.T) *v1alpha1.TrainingJob {
	t.Helper()
	raw, err := os.ReadFile("testdata/demo.yaml")
	check.Equal(t, "error", nil, err)
	j := &v1alpha1.TrainingJob{}
	check.Equal(t, "error", nil, yaml.UnmarshalStrict(raw, j))
	return j
}

func TestAReplayUnderTheSamePolicyTakesAsLongAsWasRecorded(t *testing.T) {
	const second, never = time.Second, 24 * time.Hour
	at := time.Hour
	whole := WholeJobRestarts(job(4))
	inTurn := []Failure{
		failure(at, 1, ProcessExit, 0), failure(at+12*second, 2, NodeLoss, never), failure(at+90*second, 0, PodLoss, 0),
		failure(at+102*second, 3, NodeDeletion, never), failure(at+114*second, 1, ProcessExit, 0),
	}
	for name, tc := range map[string]struct {
		job   *v1alpha1.TrainingJob
		nodes int
		// rough is for incidents that overlap while kubelets back off: the record does not tell which process waited for which, so that
		// their sum is compared.
		rough bool
	}{
		"the demo":                             {demo(t), 6, false},
		"simulated kubelets":                   {record(t, fenced(), swift(), 6, inTurn...), 6, false},
		"large images":                         {record(t, fenced(), slow(), 6, failure(at, 1, ProcessExit, 0), failure(2*at, 2, NodeLoss, never), failure(3*at, 0, PodLoss, 0)), 6, false},
		"the default costs":                    {record(t, fenced(), DefaultCosts(), 6, inTurn...), 6, true},
		"every node is used":                   {record(t, job(4), swift(), 4, failure(at, 1, PodLoss, 0), failure(at+30*second, 2, ProcessExit, 0), failure(at+60*second, 1, PodLoss, 0)), 4, false},
		"a node that comes back":               {record(t, waiting(), DefaultCosts(), 4, failure(at, 2, NodeLoss, 70*second)), 4, false},
		"the whole job":                        {record(t, whole, swift(), 6, inTurn[:3]...), 6, false},
		"incidents that overlap":               {record(t, job(4), slow(), 6, failure(at, 1, ProcessExit, 0), failure(at+20*second, 2, PodLoss, 0), failure(at+40*second, 3, PodLoss, 0)), 6, false},
		"a device":                             {record(t, job(4), DefaultCosts(), 6, failure(at, 1, DeviceFailure, never), failure(2*at, 0, PodLoss, 0)), 6, false},
		"a replacement waits for a node":       {record(t, returning(), DefaultCosts(), 4, failure(at, 1, NodeLoss, 10*time.Minute)), 4, false},
		"nodes that others had then":           {record(t, returning(), DefaultCosts(), 4, failure(at, 1, NodeLoss, 10*time.Minute)), 6, false},
		"pods that fail for good":              {record(t, job(4), swift(), 6, failure(at, 0, PodFailure, 0), failure(at, 1, PodFailure, 0), failure(at, 2, PodFailure, 0), failure(at, 3, PodFailure, 0)), 6, false},
		"supervised programs":                  {record(t, supervisedJob(4, ""), DefaultCosts(), 6, failure(at, 1, ProcessExit, 0), failure(2*at, 2, ProcessExit, 0), failure(3*at, 3, NodeLoss, never)), 6, false},
		"supervised programs that stop slowly": {record(t, supervisedJob(4, ""), stopping(10*second), 6, failure(at, 1, ProcessExit, 0), failure(2*at, 0, PodLoss, 0)), 6, false},
		"a lost node, and a spare one":         {record(t, supervisedJob(4, ""), DefaultCosts(), 5, failure(at, 3, NodeLoss, never)), 5, false},
		"supervised pods":                      {record(t, supervisedPods(), swift(), 6, failure(at, 1, ProcessExit, 0)), 6, false},
	} {
		t.Run(name, func(t *testing.T) {
			h := HistoryOf(tc.job, DefaultCosts(), DefaultRepair)
			setup := Setup{Job: tc.job, HyperNodes: racks(1, tc.nodes)}
			check.Equal(t, "error", nil, h.Fit(setup))
			r, err := h.Play(setup)
			check.Equal(t, "error", nil, err)
			if len(h.Incidents) == 0 {
				t.Fatal("there are no incidents")
			}
			exact := func(recorded, played time.Duration) bool {
				limit := recorded / 20
				if tc.rough {
					limit = recorded / 10
				}
				return (played - recorded).Abs() <= max(50*time.Millisecond, limit)
			}
			var allRecorded, allPlayed time.Duration
			for i, inc := range h.Incidents {
				recorded, played := inc.Down, h.Down(r, i)
				allRecorded, allPlayed = allRecorded+recorded, allPlayed+played
				if !inc.Known || (!tc.rough && !exact(recorded, played)) {
					t.Errorf("incident %d, %s %v: recorded %s, played %s", inc.ID, inc.Trigger, stepsOf([]v1alpha1.Incident{inc.Incident}), recorded, played)
				}
			}
			if !exact(allRecorded, allPlayed) {
				t.Errorf("in all: recorded %s, played %s", allRecorded, allPlayed)
			}
			recorded, known := h.RecordedTogether()
			if played := h.Together(r); !known || !exact(recorded, played) {
				t.Errorf("together: recorded %s, played %s", recorded, played)
			}
		})
	}
}

// waiting is a job that waits for what comes back.
func waiting() *v1alpha1.TrainingJob {
	j := job(4)
	j.Spec.RestartPolicy = &v1alpha1.RestartPolicy{Rules: []v1alpha1.Rule{{
		Name: "later", Match: v1alpha1.Match{Events: []v1alpha1.EventType{v1alpha1.AnyEvent}}, Steps: []v1alpha1.Step{{Action: v1alpha1.RestartPod, AfterSeconds: 120}},
	}}}
	return j
}

// returning is a job whose ranks may go back to a node that was lost.
func returning() *v1alpha1.TrainingJob {
	j := fenced()
	j.Spec.RestartPolicy.ExcludeNodeSeconds = new(int32(0))
	return j
}

// The replacement finds no node: the shortage is told with what became of the nodes.
func TestAReplayTellsThatNoNodeIsFree(t *testing.T) {
	j := record(t, fenced(), swift(), 5, failure(time.Hour, 1, NodeLoss, time.Hour))
	h := HistoryOf(j, DefaultCosts(), DefaultRepair)
	for nodes, want := range map[int][]Shortage{5: nil, 4: {{HyperNode: "rack-0", Nodes: 4, InUse: 3, Lost: 1}}} {
		r, err := h.Play(Setup{Job: j, HyperNodes: racks(1, nodes)})
		check.Equal(t, "error", nil, err)
		var got []Shortage
		for _, w := range h.Waits(r) {
			check.Equal(t, "incident", v1alpha1.NodeNotReady, h.Incidents[w.Incident].Trigger)
			if w.Until-w.From < 14*time.Minute {
				t.Errorf("it waits for %s", w.Until-w.From)
			}
			w.From, w.Until = 0, 0
			got = append(got, w.Shortage)
		}
		check.Equal(t, "shortages", want, got)
	}
}
