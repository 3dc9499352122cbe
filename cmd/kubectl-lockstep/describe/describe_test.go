package describe

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
	"github.com/lockstep-dev/lockstep/policies/topology"
	"github.com/lockstep-dev/lockstep/test/check"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

func micro(d time.Duration) metav1.MicroTime { return metav1.NewMicroTime(now.Add(-d)) }

// placed is a job of which so many ranks are on nodes gpu-0, gpu-1 and so on.
func placed(ranks int) *v1alpha1.TrainingJob {
	var nodes []string
	for i := range ranks {
		nodes = append(nodes, fmt.Sprintf("gpu-%d", i))
	}
	return &v1alpha1.TrainingJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "research", Name: "llama", UID: "1", CreationTimestamp: ago(3 * time.Hour), Labels: map[string]string{"team": "language"}},
		Spec: v1alpha1.TrainingJobSpec{
			Queue: "research", NetworkTopology: &v1alpha1.NetworkTopology{Mode: v1alpha1.TopologyHard, HighestTierAllowed: new(int32(2))},
			Framework: &v1alpha1.Framework{PyTorch: &v1alpha1.PyTorch{}}, Hold: &v1alpha1.Hold{Policy: v1alpha1.HoldOnRecovery, Seconds: new(int32(600))},
			Tasks: []v1alpha1.Task{{Name: "worker", Replicas: int32(ranks), Spares: new(int32(2))}},
		},
		Status: v1alpha1.TrainingJobStatus{
			State: v1alpha1.StateRunning, Ready: fmt.Sprintf("%d/%d", ranks, ranks), Attempt: 2, StartTime: new(ago(3 * time.Hour)),
			Tasks:     []v1alpha1.TaskStatus{{Name: "worker", Replicas: int32(ranks), Ready: int32(ranks)}, {Name: "worker-spare", Replicas: 2, Ready: 1}},
			Placement: &v1alpha1.Placement{HyperNode: "spine", Tier: new(int32(2)), Tasks: []v1alpha1.TaskPlacement{{Name: "worker", Nodes: nodes}}},
		},
	}
}

// broken is such a job with a history.
func broken() *v1alpha1.TrainingJob {
	job := placed(4)
	s := &job.Status
	s.State, s.Ready, s.Message = v1alpha1.StateRecovering, "3/4", "incident 2, PodFailed of pod llama-2-worker-3: waits for RestartPod"
	s.Restarts = v1alpha1.Restarts{Total: 3, Pod: 2, Job: 1, ChargedTimes: []metav1.Time{ago(30 * time.Hour), ago(time.Hour)}}
	s.Availability = &v1alpha1.Availability{StartTime: micro(2 * time.Hour), LostTime: []v1alpha1.LostTime{{Cause: "NodeGone", Milliseconds: 1800_000, Interruptions: 1}}}
	s.Incidents = []v1alpha1.Incident{
		{
			ID: 1, Trigger: v1alpha1.NodeGone, StartTime: micro(time.Hour), EndTime: new(micro(50 * time.Minute)), Outcome: v1alpha1.OutcomeRecovered,
			Cause: v1alpha1.Cause{Pod: "llama-1-worker-1", Node: "gpu-9"}, PodCount: 1, Steps: []v1alpha1.FiredStep{{Action: v1alpha1.RestartPod}, {Action: v1alpha1.RestartJob}},
		},
		{ID: 2, Trigger: v1alpha1.PodFailed, StartTime: micro(20 * time.Second), Cause: v1alpha1.Cause{Pod: "llama-2-worker-3", Node: "gpu-3", ExitCode: new(int32(137)), Reason: "OOMKilled"}, PodCount: 2},
	}
	s.NextStep = &v1alpha1.NextStep{Incident: 2, Action: v1alpha1.RestartPod, Time: metav1.NewTime(now.Add(70 * time.Second))}
	s.Holds = []v1alpha1.NodeHold{{Node: "gpu-3", Until: new(metav1.NewTime(now.Add(9 * time.Minute)))}, {Node: "gpu-2", Until: new(metav1.NewTime(now.Add(10 * time.Minute)))}}
	s.ExcludedNodes = []v1alpha1.ExcludedNode{{Name: "gpu-9", Until: metav1.NewTime(now.Add(59 * time.Minute)), Incident: 1}}
	s.Conditions = []metav1.Condition{{Type: "Running", Status: metav1.ConditionFalse, Reason: "PodsNotReady", Message: "3 of 4 pods are ready", LastTransitionTime: ago(20 * time.Second)}}
	return job
}

func printed(s *Snapshot) string {
	s.Now = now
	var out bytes.Buffer
	Print(&out, s)
	return out.String()
}

// racks are two HyperNodes of tier 1 below one of tier 2, for nodes gpu-0 and so on; the last is in none.
func racks(nodes int) *topology.Topology {
	var a, b []string
	for i := range nodes - 1 {
		if name := fmt.Sprintf("gpu-%d", i); i < nodes/2 {
			a = append(a, name)
		} else {
			b = append(b, name)
		}
	}
	return topology.New([]topology.HyperNode{{Name: "rack-2", Tier: 1, Nodes: a}, {Name: "rack-10", Tier: 1, Nodes: b}, {Name: "spine", Tier: 2, Nodes: append(a, b...)}})
}

func TestADescription(t *testing.T) {
	out := printed(&Snapshot{
		Job: broken(), Topology: racks(4), Spares: []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha1.LabelTask: "worker"}}, Spec: corev1.PodSpec{NodeName: "gpu-4"}}},
		Events: []corev1.Event{
			{LastTimestamp: ago(time.Minute), Type: "Normal", Reason: "StepTaken", Message: "later", Count: 3}, {LastTimestamp: ago(time.Hour), Type: "Warning", Reason: "IncidentOpened", Message: "earlier"},
		},
		Unread: []string{"The nodes could not be read."},
	})
	check.Equal(t, "description", `Name:             llama
Namespace:        research
Labels:           team=language
Created:          2026-01-02 00:04:05 UTC (3h ago)
State:            Recovering, 3/4 pods ready, attempt 2
Message:          incident 2, PodFailed of pod llama-2-worker-3: waits for
                  RestartPod
Next step:        RestartPod of incident 2, in 70s
Queue:            research
Gang:             all of 4 pods
Topology:         hard, one HyperNode of tier 2 at most
Framework:        pytorch
Nodes are held:   in a recovery, for 10m at most (OnRecovery)
Checkpoint:       the program is not asked to save
Restart policy:   the default (the job gives none)
  restarts-in-place: RestartPod after 90s, RestartJob after 10m, RelocateJob
      after 15m
  node-may-return: RestartPod after 90s, RestartJob after 10m, RelocateJob
      after 15m
  does-not-start: MigratePod, MigratePod after 5m
  health-degraded: MigratePod after 5m
  no-room: RestartPod, RelocateJob after 14m
  everything-else: RestartPod, RestartTask after 7m, RestartJob after 10m,
      RelocateJob after 15m
  limits: 20 charged restarts in 24h; a faulty node is avoided for 60m; a silent
  node counts as dead after 60s; backoff 10s to 5m
Tasks:
  NAME    REPLICAS  READY  SUCCEEDED  SPARES  PARTITION  ELASTIC
  worker  4         4      0          1/2     -          -
Home:             HyperNode spine of tier 2
Ranks:
  rack-2 (2 ranks):
    worker-0..1=gpu-0..1
  rack-10 (1 rank):
    worker-2=gpu-2
  no HyperNode (1 rank):
    worker-3=gpu-3
Spares on:        gpu-4
Holds:            gpu-2..3, for 10m at most
Keeps away from:  node gpu-9, for 59m, because of incident 1
ETTR:             0.7500, ready for 1h30m, 30m lost to NodeGone
Restarts:         3: 2 of pods, 1 of the job
Budget left:      19 of 20 charged restarts in 24h
Conditions:
  TYPE     STATUS  SINCE  REASON
  Running  False   20s    PodsNotReady
    3 of 4 pods are ready
Incidents:
  ID  TRIGGER    AGO  TOOK  OUTCOME    STEPS
  1   NodeGone   60m  10m   Recovered  RestartPod,RestartJob
    llama-1-worker-1, on gpu-9
  2   PodFailed  20s  20s   open       -
    llama-2-worker-3, on gpu-3, exit code 137, OOMKilled, 2 pods
Events:
  AGO       TYPE     REASON
  60m       Warning  IncidentOpened
    earlier
  60s (x3)  Normal   StepTaken
    later
The nodes could not be read.
`, out)
}

// A thousand ranks on scattered nodes stay on a page or two, and every line fits into a terminal.
func TestAThousandRanksAreReadable(t *testing.T) {
	job := placed(1000)
	nodes := job.Status.Placement.Tasks[0].Nodes
	out := printed(&Snapshot{Job: job})
	if want := "    worker-0..999=gpu-0..999\n"; !strings.Contains(out, want) {
		t.Errorf("no %q in\n%s", want, out)
	}
	for i := range nodes {
		nodes[i] = fmt.Sprintf("gpu-%d", i*7%1000)
	}
	out = printed(&Snapshot{Job: job})
	if n := strings.Count(out, "\n"); n > 80 || !strings.Contains(out, "and 952 more, which --all lists") {
		t.Errorf("%d lines:\n%s", n, out)
	}
	all := printed(&Snapshot{Job: job, All: true})
	if !strings.Contains(all, "worker-999=gpu-993") {
		t.Errorf("the last rank is missing:\n%s", all)
	}
	for line := range strings.SplitSeq(out+all, "\n") {
		if len(line) > lines.Width {
			t.Errorf("a line of %d columns: %s", len(line), line)
		}
	}
}

func TestRanksThatFollowOneAnotherAreOneEntry(t *testing.T) {
	for name, tc := range map[string]struct {
		nodes []string
		want  string
	}{
		"up by one":        {[]string{"gpu-9", "gpu-10", "gpu-11"}, "w-0..2=gpu-9..11"},
		"with zeros":       {[]string{"gpu-009", "gpu-010"}, "w-0..1=gpu-009..010"},
		"of other width":   {[]string{"gpu-09", "gpu-010"}, "w-0=gpu-09 w-1=gpu-010"},
		"on one node":      {[]string{"gpu-1", "gpu-1", "gpu-2", "gpu-2"}, "w-0..1=gpu-1 w-2..3=gpu-2"},
		"down":             {[]string{"gpu-2", "gpu-1"}, "w-0=gpu-2 w-1=gpu-1"},
		"without a number": {[]string{"alpha", "beta"}, "w-0=alpha w-1=beta"},
		"of two racks":     {[]string{"a-1", "b-2"}, "w-0=a-1 w-1=b-2"},
	} {
		t.Run(name, func(t *testing.T) {
			var seats []seat
			for i, node := range tc.nodes {
				seats = append(seats, seat{task: "w", index: i, node: node})
			}
			check.Equal(t, "entries", tc.want, strings.Join(runsOf(seats), " "))
		})
	}
	check.Equal(t, "names", "gpu-1..3, gpu-10", namesOf([]string{"gpu-10", "gpu-2", "gpu-1", "gpu-3"}))
}

// The policy in use is named: the default, the job's own, or that of a task.
func TestThePolicyInUse(t *testing.T) {
	own := []v1alpha1.Rule{{Name: "all", Steps: []v1alpha1.Step{{Action: v1alpha1.RestartPod}, {Action: v1alpha1.FailJob, AfterSeconds: 60}}}}
	for name, tc := range map[string]struct {
		job, task *v1alpha1.RestartPolicy
		want      string
	}{
		"default":   {nil, nil, "Restart policy:   the default (the job gives none)\n"},
		"own":       {&v1alpha1.RestartPolicy{Rules: own}, nil, "Restart policy:   the job's own rules; those of the default are not in use\n  all: RestartPod, FailJob after 60s\n"},
		"limits":    {&v1alpha1.RestartPolicy{ExcludeNodeSeconds: new(int32(60))}, nil, "Restart policy:   the default rules, with the job's limits\n"},
		"task":      {nil, &v1alpha1.RestartPolicy{Rules: own}, "  of task worker: the task's own rules; those of the default are not in use\n  all: RestartPod"},
		"backoff":   {&v1alpha1.RestartPolicy{Backoff: &v1alpha1.Backoff{InitialSeconds: new(int32(10)), MaxSeconds: 300}}, nil, "; backoff 10s to 5m\n"},
		"gang down": {&v1alpha1.RestartPolicy{UnreachableNode: &v1alpha1.UnreachableNode{GangDownAfterSeconds: new(int32(5))}}, nil, "after 60s, or 5s where the rest of the gang is down;"},
		"proof":     {&v1alpha1.RestartPolicy{UnreachableNode: &v1alpha1.UnreachableNode{Policy: v1alpha1.RequireProof}}, nil, "node counts as dead only with proof;"},
		"task's budget": {nil, &v1alpha1.RestartPolicy{Budget: &v1alpha1.Budget{MaxRestarts: new(int32(3)), WindowSeconds: 3600}},
			"  of task worker: 3 of 3 charged restarts in 60m\n"},
	} {
		t.Run(name, func(t *testing.T) {
			job := placed(1)
			job.Spec.RestartPolicy, job.Spec.Tasks[0].RestartPolicy = tc.job, tc.task
			if out := printed(&Snapshot{Job: job}); !strings.Contains(out, tc.want) {
				t.Errorf("no %q in\n%s", tc.want, out)
			}
		})
	}
}

// Of many events the last ten are listed. A job in a file has none.
func TestTheLastEvents(t *testing.T) {
	var events []corev1.Event
	for i := range 12 {
		events = append(events, corev1.Event{LastTimestamp: ago(time.Duration(i) * time.Minute), Reason: fmt.Sprintf("Event%02d", i)})
	}
	out := printed(&Snapshot{Job: placed(1), Events: events})
	if strings.Contains(out, "Event10") || !strings.Contains(out, "Event09") || strings.Index(out, "Event09") > strings.Index(out, "Event00") {
		t.Errorf("the last ten, oldest first, are not listed:\n%s", out)
	}
	if out := printed(&Snapshot{Job: placed(1), Events: events, FromFile: true}); strings.Contains(out, "Events") {
		t.Errorf("events of a file:\n%s", out)
	}
}

// Ranks whose nodes are gone are told apart from those that run, and so are spares.
func TestNodesThatAreGone(t *testing.T) {
	nodes := sets.New("gpu-0", "gpu-1", "gpu-2")
	spare := corev1.Pod{Spec: corev1.PodSpec{NodeName: "gpu-9"}}
	out := printed(&Snapshot{Job: placed(4), Topology: racks(4), Nodes: nodes, Spares: []corev1.Pod{spare}})
	if want := "  last on nodes that do not exist any more (1 rank):\n    worker-3=gpu-3\n"; !strings.Contains(out, want) {
		t.Errorf("no %q in\n%s", want, out)
	}
	if strings.Contains(out, "Spares on") {
		t.Errorf("a spare on a node that is gone:\n%s", out)
	}
}

func TestAJobWithSupervisors(t *testing.T) {
	job := placed(1)
	job.Spec.Supervisor = &v1alpha1.Supervisor{Progress: &v1alpha1.Progress{CheckpointFile: "/checkpoints/latest"}}
	job.Status.Epoch, job.Status.EpochTime, job.Status.RestartsWithoutProgress = 3, new(micro(time.Minute)), 2
	job.Status.Restarts = v1alpha1.Restarts{Total: 2, Process: 2}
	out := printed(&Snapshot{Job: job})
	for _, want := range []string{
		"Supervisor:       programs start again together, in their pods; 10s to stop, 60s\n                  for a manager\n",
		"  progress:       by /checkpoints/latest; restarts in a row without: 2 of 3\n",
		"  epoch:          3, since ",
		"Restarts:         2: 2 of programs\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	job.Spec.Supervisor = &v1alpha1.Supervisor{Survivors: v1alpha1.SurvivorsKeep}
	if out, want := printed(&Snapshot{Job: job}), "a program that ends starts again in its pod, and the others\n"; !strings.Contains(out, want) {
		t.Errorf("no %q in\n%s", want, out)
	}
}

func TestAQueuedJobNamesTheVerbThatKnowsMore(t *testing.T) {
	job := placed(1)
	job.Status.State, job.Status.Message = v1alpha1.StateQueued, "waits for room in queue default"
	if out := printed(&Snapshot{Job: job}); !strings.Contains(out, "`kubectl lockstep why llama` says whether it can ever start") {
		t.Errorf("no hint in\n%s", out)
	}
}
