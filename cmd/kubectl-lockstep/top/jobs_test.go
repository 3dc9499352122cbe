package top

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/check"
)

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

var columns = []string{"NAME", "STATE", "READY", "ATTEMPT", "HYPERNODE", "RESTARTS", "ETTR", "AGE"}

func printed(columns []string, width int) string {
	var out bytes.Buffer
	all := Of(jobs(), now)
	all.Print(&out, columns, true, width)
	return out.String()
}

func TestTheTable(t *testing.T) {
	check.Equal(t, "table", `NAME   STATE    READY  ATTEMPT  HYPERNODE  RESTARTS  ETTR    AGE
llama  Running  4/4    2        rack-0     7         0.7500  3h
mamba  Queued   0/16   0        -          0         -       5m
  waits for room in queue research, which has 8 of 128 GPUs left and needs al...
new    -        -      0        -          0         -       1s
`, printed(columns, 80))
}

// A job that runs without all of its spares waits for these.
func TestSparesThatAreMissing(t *testing.T) {
	job := named("llama", time.Hour, v1alpha1.TrainingJobStatus{
		State: v1alpha1.StateRunning, Ready: "4/4", Attempt: 1, Tasks: []v1alpha1.TaskStatus{{Name: "worker", Ready: 4}, {Name: "worker-spare", Ready: 1}},
	})
	job.Spec.Tasks = []v1alpha1.Task{{Name: "worker", Replicas: 4, Spares: new(int32(2))}, {Name: "launcher", Replicas: 1}}
	got := Of([]v1alpha1.TrainingJob{job}, now).Jobs[0]
	check.Equal(t, "spares", "1/2: 1/2 spares hold a node", got.Spares+": "+got.Message)
	job.Status.Tasks[1].Ready = 2
	got = Of([]v1alpha1.TrainingJob{job}, now).Jobs[0]
	check.Equal(t, "spares", "2/2: ", got.Spares+": "+got.Message)
}

func TestMoreColumns(t *testing.T) {
	wide := jobs()[:1]
	wide[0].Spec = v1alpha1.TrainingJobSpec{Queue: "research", Tasks: []v1alpha1.Task{{Name: "worker", Spares: new(int32(2))}}}
	wide[0].Status.Tasks = []v1alpha1.TaskStatus{{Name: "worker-spare", Ready: 2}}
	var out bytes.Buffer
	all := Of(wide, now)
	all.Print(&out, append(slices.Clone(columns), "QUEUE", "SPARES"), true, 0)
	check.Equal(t, "table", `NAME   STATE    READY  ATTEMPT  HYPERNODE  RESTARTS  ETTR    AGE  QUEUE     SPARES
llama  Running  4/4    2        rack-0     7         0.7500  3h   research  2/2
`, out.String())
}

func TestAllNamespacesAndAnyWidth(t *testing.T) {
	out := printed(append([]string{"NAMESPACE"}, columns...), 0)
	for _, want := range []string{"NAMESPACE  NAME ", "\nresearch   llama  Running", "\n  waits for room in queue research, which has 8 of 128 GPUs left and needs all of them\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}
