package top

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/fleetmap"
	"github.com/lockstep-dev/lockstep/policies/topology"
	"github.com/lockstep-dev/lockstep/test/check"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func micro(d time.Duration) metav1.MicroTime { return metav1.NewMicroTime(now.Add(-d)) }

// job is one of four pods with eight GPUs each, on nodes gpu-0 to gpu-3.
func job(name string, s v1alpha1.TrainingJobStatus) v1alpha1.TrainingJob {
	container := corev1.Container{Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")}}}
	return v1alpha1.TrainingJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "research", Name: name},
		Spec: v1alpha1.TrainingJobSpec{Tasks: []v1alpha1.Task{{
			Name: "worker", Replicas: 4, Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{container}}},
		}}},
		Status: s,
	}
}

func snapshot() *Snapshot {
	placed := &v1alpha1.Placement{Tasks: []v1alpha1.TaskPlacement{{Name: "worker", Nodes: []string{"gpu-0", "gpu-1", "gpu-2", "gpu-3"}}}}
	return &Snapshot{Now: now, Jobs: []v1alpha1.TrainingJob{
		job("mamba", v1alpha1.TrainingJobStatus{State: v1alpha1.StateQueued, Ready: "0/4"}),
		job("opt", v1alpha1.TrainingJobStatus{State: v1alpha1.StateCompleted, Ready: "0/4", Placement: placed, Conditions: []metav1.Condition{{Type: v1alpha1.ConditionCompleted, Status: metav1.ConditionTrue}}}),
		job("bert", v1alpha1.TrainingJobStatus{State: v1alpha1.StateRunning, Ready: "4/4", Placement: &v1alpha1.Placement{}, Availability: &v1alpha1.Availability{StartTime: micro(time.Hour)}}),
		job("llama", v1alpha1.TrainingJobStatus{
			State: v1alpha1.StateRecovering, Ready: "3/4", Placement: placed, Message: "incident 2, NodeGone of pod llama-1-worker-3: no node of rack-0 is free",
			Availability: &v1alpha1.Availability{StartTime: micro(2 * time.Hour), LostTime: []v1alpha1.LostTime{{Cause: "NodeGone", Milliseconds: 1800_000}}},
			Incidents: []v1alpha1.Incident{
				{ID: 1, Trigger: v1alpha1.PodFailed, StartTime: micro(time.Hour), EndTime: new(micro(50 * time.Minute)), Outcome: v1alpha1.OutcomeRecovered},
				{
					ID: 2, Trigger: v1alpha1.NodeGone, StartTime: micro(60 * time.Second), NoRoomTime: new(micro(35 * time.Second)),
					Steps: []v1alpha1.FiredStep{{Action: v1alpha1.RestartPod, Time: micro(60 * time.Second)}},
				},
			},
			NextStep: &v1alpha1.NextStep{Incident: 2, Action: v1alpha1.RestartTask, Time: metav1.NewTime(now.Add(6 * time.Minute))},
		}),
		job("new", v1alpha1.TrainingJobStatus{}),
	}}
}

func TestJobs(t *testing.T) {
	check.Equal(t, "screen", `03:04:05 UTC. Jobs: 5 (1 new, 1 Recovering, 1 Queued, 1 Running, 1 Completed),
GPUs in use: 64.
NAME   STATE       READY  GPUS  ETTR    INCIDENT  PHASE            NEXT
new    -           -      (32)  -       -         -                -
llama  Recovering  3/4    32    0.7500  NodeGone  WaitForRoom 35s  RestartTask in 6m
mamba  Queued      0/4    (32)  -       -         -                -
bert   Running     4/4    32    1.0000  -         -                -
opt    Completed   0/4    (32)  -       -         -                -
`, snapshot().DrawJobs(Screen{Width: 80}))
}

func TestAJobThatSaysHowFarItIs(t *testing.T) {
	s := snapshot()
	s.Jobs[2].Status.Progress = &v1alpha1.ProgressStatus{Percent: new(int32(24))}
	out := s.DrawJobs(Screen{Width: 90})
	for _, want := range []string{"ETTR    PROGRESS  INCIDENT", "bert   Running     4/4    32    1.0000  24%       -"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

func TestAStepThatIsOverdue(t *testing.T) {
	s := snapshot()
	s.Now, s.Namespaces = now.Add(7*time.Minute), true
	out := s.DrawJobs(Screen{Width: 120})
	for _, want := range []string{"RestartTask due 60s\n", "NAMESPACE  NAME", "research   llama"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

func TestNoJobs(t *testing.T) {
	check.Equal(t, "screen", "03:04:05 UTC. Jobs: 0 (none), GPUs in use: 0.\n", (&Snapshot{Now: now}).DrawJobs(Screen{Width: 80}))
}

// What does not fit into a terminal is said, and so is that it may be old. Both leave room for each other.
func TestAScreenIsNotExceeded(t *testing.T) {
	s := &Snapshot{Now: now}
	for i := range 1000 {
		s.Jobs = append(s.Jobs, job(fmt.Sprintf("job-%03d", i), v1alpha1.TrainingJobStatus{State: v1alpha1.StateRunning, Ready: "4/4"}))
	}
	screen := Screen{Width: 40, Height: 10}
	all := strings.Split(Fit(s.DrawJobs(screen), "3s ago, the connection to the server was refused", screen), "\n")
	check.Equal(t, "lines", 10, len(all))
	check.Equal(t, "last", []string{"... and 995 more lines: a taller term...", "This may be old: 3s ago, the connecti..."}, all[8:])
	for _, line := range all {
		if len(line) > 40 {
			t.Errorf("a line of %d columns: %s", len(line), line)
		}
	}
}

func TestOneJob(t *testing.T) {
	s := snapshot()
	s.Jobs = s.Jobs[3:4]
	out := s.DrawJob(Screen{Width: 80})
	for _, want := range []string{
		"Jobs: 1 (1 Recovering), GPUs in use: 32.\n", "\nincident 2, NodeGone of pod llama-1-worker-3: no node of rack-0 is free\n\nTrainingJob research/llama: Recovering",
		"incident 1, PodFailed. Recovered after 10m\n", "RestartTask is next, in 6m", "ETTR 0.7500",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

func TestNodes(t *testing.T) {
	fleet := &fleetmap.Fleet{
		Topology: topology.New([]topology.HyperNode{
			{Name: "rack-0", Tier: 1, Nodes: []string{"gpu-0", "gpu-1", "gpu-2"}}, {Name: "rack-1", Tier: 1, Nodes: []string{"gpu-3", "gpu-4", "gpu-5"}},
			{Name: "spine", Tier: 2, Nodes: []string{"gpu-0", "gpu-1", "gpu-2", "gpu-3", "gpu-4", "gpu-5"}},
		}),
	}
	for i := range 6 {
		fleet.Nodes = append(fleet.Nodes, fleetmap.Node{Name: fmt.Sprintf("gpu-%d", i), HyperNode: fmt.Sprintf("rack-%d", i/3), GPUs: 8, Quarantined: i == 5})
	}
	healths := []v1alpha1.NodeHealth{{ObjectMeta: metav1.ObjectMeta{Name: "gpu-5"}, Status: v1alpha1.NodeHealthStatus{
		Reports: []v1alpha1.HealthReport{{Source: "dcgm", Entity: "gpu/GPU-a", Signal: "XID79", State: v1alpha1.HealthStateFailed, Since: metav1.NewTime(now.Add(-3 * time.Hour))}},
		Verdict: &v1alpha1.HealthVerdict{State: v1alpha1.HealthStateFailed, Since: metav1.NewTime(now.Add(-3 * time.Hour)), QuarantinedTime: new(metav1.NewTime(now.Add(-3 * time.Hour)))},
	}}}
	fleet.AddHealth(healths)
	check.Equal(t, "screen", `03:04:05 UTC.
3 HyperNodes, 6 nodes: 1 free, 4 in use, 1 in quarantine. GPUs in use: 32 of 48.

HYPERNODE                        NODES  FREE  USED  HELD  QUAR  CORD  DEGR  DOWN
spine                                6     1     4     -     1     -     -     -
  rack-0                             3     -     3     -     -     -     -     -
    ###
  rack-1                             3     1     1     -     1     -     -     -
    #.q

q in quarantine, # in use, . free
q: gpu-5 (rack-1)

HYPERNODE  NODE   READY  STATE   SINCE  QUARANTINE  GPUS  HELD-FOR
rack-1     gpu-5  yes    Failed  3h     3h          0/8   -
  XID79 of gpu/GPU-a (Failed, 3h)
`, snapshot().DrawNodes(fleet, Screen{Width: 80}))
}
