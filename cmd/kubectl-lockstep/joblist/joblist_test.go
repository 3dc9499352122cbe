package joblist

import (
	"bytes"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/check"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func named(name string, age time.Duration, s v1alpha1.TrainingJobStatus) v1alpha1.TrainingJob {
	return v1alpha1.TrainingJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "research", Name: name, CreationTimestamp: metav1.NewTime(now.Add(-age))}, Status: s,
	}
}

// jobs are one that runs and has lost a quarter of its time, one that waits and one that nobody has looked at.
func jobs() []v1alpha1.TrainingJob {
	return []v1alpha1.TrainingJob{
		named("llama", 3*time.Hour, v1alpha1.TrainingJobStatus{
			State: v1alpha1.StateRunning, Ready: "4/4", Attempt: 2, Placement: &v1alpha1.Placement{HyperNode: "rack-0"}, Restarts: v1alpha1.Restarts{Total: 7},
			Availability: &v1alpha1.Availability{
				StartTime: metav1.NewMicroTime(now.Add(-2 * time.Hour)), LostTime: []v1alpha1.LostTime{{Cause: "NodeGone", Milliseconds: 1800_000}},
			},
		}),
		named("mamba", 5*time.Minute, v1alpha1.TrainingJobStatus{
			State: v1alpha1.StateQueued, Ready: "0/16", Message: "waits for room in queue research, which has 8 of 128 GPUs left and needs all of them",
		}),
		named("new", time.Second, v1alpha1.TrainingJobStatus{}),
	}
}

func printed(c Columns) string {
	var out bytes.Buffer
	Print(&out, Of(jobs(), nil, now), c, now)
	return out.String()
}

func TestTheTable(t *testing.T) {
	check.Equal(t, "table", `NAME   STATE    READY  ATTEMPT  HYPERNODE  RESTARTS  ETTR    AGE
llama  Running  4/4    2        rack-0     7         0.7500  3h
mamba  Queued   0/16   0        -          0         -       5m
  waits for room in queue research, which has 8 of 128 GPUs left and needs al...
new    -        -      0        -          0         -       1s
`, printed(Columns{Note: 80}))
}

// A job that runs without all of its spares waits for these.
func TestSparesThatAreMissing(t *testing.T) {
	job := named("llama", time.Hour, v1alpha1.TrainingJobStatus{
		State: v1alpha1.StateRunning, Ready: "4/4", Attempt: 1, Tasks: []v1alpha1.TaskStatus{{Name: "worker", Ready: 4}, {Name: "worker-spare", Ready: 1}},
	})
	job.Spec.Tasks = []v1alpha1.Task{{Name: "worker", Replicas: 4, Spares: new(int32(2))}, {Name: "launcher", Replicas: 1}}
	got := Of([]v1alpha1.TrainingJob{job}, nil, now).Jobs[0]
	check.Equal(t, "spares", "1/2: 1/2 spares hold a node", got.Spares+": "+got.Message)
	job.Status.Tasks[1].Ready = 2
	got = Of([]v1alpha1.TrainingJob{job}, nil, now).Jobs[0]
	check.Equal(t, "spares", "2/2: ", got.Spares+": "+got.Message)
}

func TestMoreColumns(t *testing.T) {
	wide := jobs()[:1]
	wide[0].Spec = v1alpha1.TrainingJobSpec{Queue: "research", Tasks: []v1alpha1.Task{{Name: "worker", Spares: new(int32(2))}}}
	wide[0].Status.Tasks = []v1alpha1.TaskStatus{{Name: "worker-spare", Ready: 2}}
	var out bytes.Buffer
	Print(&out, Of(wide, nil, now), Columns{Wide: true}, now)
	check.Equal(t, "table", `NAME   STATE    READY  ATTEMPT  HYPERNODE  RESTARTS  ETTR    AGE  QUEUE     SPARES
llama  Running  4/4    2        rack-0     7         0.7500  3h   research  2/2
`, out.String())
}

func TestAllNamespacesAndAnyWidth(t *testing.T) {
	out := printed(Columns{Namespace: true})
	for _, want := range []string{"NAMESPACE  NAME ", "\nresearch   llama  Running", "\n  waits for room in queue research, which has 8 of 128 GPUs left and needs all of them\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

func TestStates(t *testing.T) {
	states, err := ParseStates([]string{"running", "Failed"})
	check.Equal(t, "error", nil, err)
	check.Equal(t, "states", []v1alpha1.State{v1alpha1.StateRunning, v1alpha1.StateFailed}, states)
	listed := Of(jobs(), states, now).Jobs
	if len(listed) != 1 || listed[0].Name != "llama" {
		t.Errorf("listed: %+v", listed)
	}
	_, err = ParseStates([]string{"Run"})
	if err == nil || !strings.Contains(err.Error(), `--state: there is no state "Run": give one or more of Refused, Queued,`) {
		t.Errorf("got %v", err)
	}
}

func TestTheOldestOfSeveralIncidents(t *testing.T) {
	s := &v1alpha1.TrainingJobStatus{Incidents: make([]v1alpha1.Incident, 3), Message: "incident 1, PodFailed, waits for room; incident 2, NodeGone; incident 3, NodeGone"}
	check.Equal(t, "three", "incident 1, PodFailed, waits for room; and 2 more: kubectl lockstep why", firstStory(s))
	s.Incidents[1].Outcome, s.Incidents[2].Outcome, s.Message = v1alpha1.OutcomeRecovered, v1alpha1.OutcomeRecovered, "incident 1, PodFailed"
	check.Equal(t, "one", "incident 1, PodFailed", firstStory(s))
}
