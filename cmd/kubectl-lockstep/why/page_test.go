package why

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
	"github.com/lockstep-dev/lockstep/policies/topology"
	"github.com/lockstep-dev/lockstep/test/check"
)

func printed(s *Snapshot) string {
	var out bytes.Buffer
	s.Whole = true
	Print(&out, s, &Answer{})
	_, lists, _ := strings.Cut(out.String(), "\n")
	return lists
}

// placed is a job of which so many ranks are on nodes gpu-0, gpu-1 and so on.
func placed(ranks int) *Snapshot {
	s := running()
	var nodes []string
	for i := range ranks {
		nodes = append(nodes, fmt.Sprintf("gpu-%d", i))
	}
	s.Job.Spec.Tasks[0].Replicas, s.Job.Status.Tasks[0] = int32(ranks), v1alpha1.TaskStatus{Name: "worker", Replicas: int32(ranks), Ready: int32(ranks)}
	s.Job.Status.Placement.Tasks[0].Nodes = nodes
	s.Nodes, s.Pods, s.Topology = nil, nil, nil
	return s
}

// broken is a job of four ranks, one of which has failed, in two racks; the fourth is in none.
func broken() *Snapshot {
	s := placed(4)
	s.Topology = topology.New([]topology.HyperNode{{Name: "rack-2", Tier: 1, Nodes: []string{"gpu-0", "gpu-1"}}, {Name: "rack-10", Tier: 1, Nodes: []string{"gpu-2"}}})
	s.Job.CreationTimestamp, s.Job.Spec.Tasks[0].Spares = before(180), new(int32(2))
	status := &s.Job.Status
	status.Ready, status.Tasks = "3/4", append(status.Tasks, v1alpha1.TaskStatus{Name: "worker-spare", Replicas: 2, Ready: 1})
	spare := podOn(0, "gpu-4")
	spare.Name, spare.Labels[v1alpha1.LabelSpare] = "llm-1-worker-spare-0", "true"
	s.Pods = append(s.Pods, spare)
	status.Restarts = v1alpha1.Restarts{Total: 3, Pod: 2, Job: 1, ChargedTimes: []metav1.Time{before(1800), before(60)}}
	status.Availability = &v1alpha1.Availability{StartTime: micro(120), LostTime: []v1alpha1.LostTime{{Cause: "NodeGone", Milliseconds: 1800_000, Interruptions: 1}}}
	status.Incidents = []v1alpha1.Incident{
		{
			ID: 1, Trigger: v1alpha1.NodeGone, StartTime: micro(60), EndTime: new(micro(50)), Outcome: v1alpha1.OutcomeRecovered,
			Class: v1alpha1.ClassInfrastructure, Cause: v1alpha1.Cause{Pod: "llm-1-worker-1", Node: "gpu-9"}, PodCount: 1,
			Steps: []v1alpha1.FiredStep{{Action: v1alpha1.RestartPod, Time: micro(59)}, {Action: v1alpha1.RestartJob, Time: micro(58)}},
		},
		{ID: 2, Trigger: v1alpha1.PodFailed, StartTime: micro(1), Cause: v1alpha1.Cause{Pod: "llm-1-worker-3", Node: "gpu-3", Container: "main", ExitCode: new(int32(137)), Reason: "OOMKilled"}, PodCount: 2},
	}
	s.Events = []corev1.Event{
		{LastTimestamp: before(1), Reason: "StepTaken", Message: "later"}, {LastTimestamp: before(60), Reason: "IncidentOpened", Message: "earlier"},
		{LastTimestamp: before(1), Reason: "OfAPod", InvolvedObject: corev1.ObjectReference{UID: "another"}},
	}
	for i := range 2 {
		s.Events[i].InvolvedObject = corev1.ObjectReference{UID: s.Job.UID, Name: s.Job.Name}
		s.Events[i].ReportingController = "lockstep"
	}
	return s
}

func TestTheListsOfAJob(t *testing.T) {
	check.Equal(t, "lists", `
TASK    REPLICAS  READY  SUCCEEDED  SPARES  PARTITION  ELASTIC
worker  4         4      0          1/2     -          -

Ranks in rack-2 (2):
- worker-0=gpu-0, worker-1=gpu-1

Ranks in rack-10 (1):
- worker-2=gpu-2

Ranks in no known HyperNode (2):
- worker-3=gpu-3, worker-spare-0=gpu-4

The job follows the default restart policy:
- restarts-in-place: RestartPod after 1m30s, RestartJob after 10m, RelocateJob
  after 15m
- node-may-return: RestartPod after 1m30s, RestartJob after 10m, RelocateJob
  after 15m
- does-not-start: MigratePod, MigratePod after 5m
- health-degraded: MigratePod after 5m
- no-room: RestartPod, RelocateJob after 14m30s
- everything-else: RestartPod, RestartTask after 7m, RestartJob after 10m,
  RelocateJob after 15m
- limits: 20 charged restarts in 24h; a faulty node is avoided for 1h; a pod on
  a silent node counts as dead after 1m (unreachableNode.afterSeconds); backoff
  10s to 5m
`, printed(broken()))
}

// The answer about a whole job, beside its lists.
func TestAWholeJob(t *testing.T) {
	s := broken()
	s.Job.Spec.PriorityClassName, s.Job.Spec.Supervisor = "high", &v1alpha1.Supervisor{Progress: &v1alpha1.Progress{}}
	s.Job.Status.RestartsWithoutProgress = 2
	check.Equal(t, "added", []string{
		"It was created at 09:00:00 UTC (3h ago), in queue default, priority class high. 3/4 pods are ready, in attempt 1. [metadata, status]",
		"Incident 1 has been Recovered since 11:10:00 UTC (50m ago): NodeGone of pod llm-1-worker-1 on node gpu-9: RestartJob. It began at 11:00:00 UTC (60m ago), is of class Infrastructure and follows rule none of the default restart policy. Steps taken: RestartPod at 11:01:00 UTC (59m ago), RestartJob at 11:02:00 UTC (58m ago). [status.incidents]",
		"ETTR 0.7500: ready for 1h30m, 30m lost to NodeGone. [status.availability]",
		"It was restarted 3 times: 2 of pods, 1 of the job. [status.restarts]",
		"Of the last restarts 2 came to no newer checkpoint; the job fails after 3 in a row. [status.restartsWithoutProgress]",
		"IncidentOpened, told by lockstep at 11:00:00 UTC (60m ago): earlier. [Event]",
		"StepTaken, told by lockstep at 11:59:00 UTC (60s ago): later. [Event]",
	}, added(s, func(s *Snapshot) { s.Whole = true }, Job))
}

// Of a job in a file nothing is said that would need its cluster.
func TestAJobInAFile(t *testing.T) {
	s := queued()
	s = &Snapshot{Now: s.Now, Job: s.Job, FromFile: true, Whole: true}
	for _, one := range sentences(Job(s)) {
		for _, what := range []string{"could not be read", "PodGroup", "does not exist", "Nodes"} {
			if strings.Contains(one, what) {
				t.Error(one)
			}
		}
	}
}

// A thousand ranks stay on a page, and every line fits into a terminal.
func TestAThousandRanksAreReadable(t *testing.T) {
	s := placed(1000)
	out := printed(s)
	if n := strings.Count(out, "\n"); n > 60 || !strings.Contains(strings.Join(strings.Fields(out), " "), "worker-47=gpu-47, and 952 more, which --all lists") {
		t.Errorf("%d lines:\n%s", n, out)
	}
	s.All = true
	all := printed(s)
	if !strings.Contains(all, "worker-999=gpu-999") {
		t.Errorf("the last rank is missing:\n%s", all)
	}
	for line := range strings.SplitSeq(out+all, "\n") {
		if len(line) > lines.Width {
			t.Errorf("a line of %d columns: %s", len(line), line)
		}
	}
}

// The policy in use is named: the default, the job's own, or that of a task.
func TestThePolicyInUse(t *testing.T) {
	own := []v1alpha1.Rule{{Name: "all", Steps: []v1alpha1.Step{{Action: v1alpha1.RestartPod}, {Action: v1alpha1.FailJob, AfterSeconds: 60}}}}
	for name, tc := range map[string]struct {
		job, task *v1alpha1.RestartPolicy
		want      string
	}{
		"default":   {nil, nil, "The job follows the default restart policy:\n"},
		"own":       {&v1alpha1.RestartPolicy{Rules: own}, nil, "The job follows the job's restartPolicy:\n- all: RestartPod, FailJob after 1m\n"},
		"limits":    {&v1alpha1.RestartPolicy{ExcludeNodeSeconds: new(int32(60))}, nil, "The job follows the default restart policy, with its own limits:\n"},
		"task":      {nil, &v1alpha1.RestartPolicy{Rules: own}, "Task worker follows the restartPolicy of task worker:\n- all: RestartPod"},
		"of both":   {&v1alpha1.RestartPolicy{Rules: own}, &v1alpha1.RestartPolicy{ExcludeNodeSeconds: new(int32(60))}, "Task worker follows the job's restartPolicy, with its own limits:\n"},
		"backoff":   {&v1alpha1.RestartPolicy{Backoff: &v1alpha1.Backoff{InitialSeconds: new(int32(10)), MaxSeconds: 300}}, nil, "; backoff 10s to 5m\n"},
		"gang down": {&v1alpha1.RestartPolicy{UnreachableNode: &v1alpha1.UnreachableNode{GangDownAfterSeconds: new(int32(5))}}, nil, "where the rest of the gang is down after 5s"},
		"proof":     {&v1alpha1.RestartPolicy{UnreachableNode: &v1alpha1.UnreachableNode{Policy: v1alpha1.RequireProof}}, nil, "unreachableNode.policy is RequireProof"},
	} {
		t.Run(name, func(t *testing.T) {
			s := placed(1)
			s.Job.Spec.RestartPolicy, s.Job.Spec.Tasks[0].RestartPolicy = tc.job, tc.task
			if out := printed(s); !strings.Contains(strings.Join(strings.Fields(out), " "), strings.Join(strings.Fields(tc.want), " ")) {
				t.Errorf("no %q in\n%s", tc.want, out)
			}
		})
	}
}

// Of many events the answer has the last ten, the oldest first.
func TestTheLastEvents(t *testing.T) {
	s := placed(1)
	s.Whole = true
	for i := range 12 {
		e := corev1.Event{LastTimestamp: before(i), Reason: fmt.Sprintf("Event%02d", i)}
		e.InvolvedObject.UID = s.Job.UID
		s.Events = append(s.Events, e)
	}
	out := strings.Join(sentences(events(s)), " ")
	if strings.Contains(out, "Event10") || !strings.Contains(out, "Event09") || strings.Index(out, "Event09") > strings.Index(out, "Event00") {
		t.Errorf("the last ten, oldest first, are not told: %s", out)
	}
}

// Names are cut in a sentence, unless all are asked for.
func TestHowManyNamesAreListed(t *testing.T) {
	s := running()
	for i := range 6 {
		s.Job.Status.Holds = append(s.Job.Status.Holds, v1alpha1.NodeHold{Node: fmt.Sprintf("n%d", i)})
	}
	check.Equal(t, "some", []string{"It holds 6 nodes until it ends: n0, n1, n2, n3 and 2 more. [status.holds]"}, sentences(holds(s)))
	s.All = true
	check.Equal(t, "all", []string{"It holds 6 nodes until it ends: n0, n1, n2, n3, n4, n5. [status.holds]"}, sentences(holds(s)))
}

// What there is to acknowledge of a node has the faults without a limit.
func TestTheHealthOfANode(t *testing.T) {
	h := health("gpu-17", v1alpha1.NodeHealthStatus{Reports: make([]v1alpha1.HealthReport, 5)})
	check.Equal(t, "faults", 5, len((&Snapshot{Now: t0, All: true}).Health(h)))
	check.Equal(t, "of a node that is well", 0, len((&Snapshot{Now: t0}).Health(v1alpha1.NodeHealth{})))
}

func TestAnswersAreWrapped(t *testing.T) {
	out := &bytes.Buffer{}
	Print(out, &Snapshot{}, &Answer{Namespace: "research", Name: "llama", State: v1alpha1.StateRunning, Facts: []Fact{
		{Text: "It is short.", Source: "status"},
		{Text: strings.Repeat("word ", 17) + strings.Repeat("long-", 20) + " end."},
	}})
	check.Equal(t, "output", `TrainingJob research/llama: Running
- It is short. [status]
- word word word word word word word word word word word word word word word
  word word
  long-long-long-long-long-long-long-long-long-long-long-long-long-long-long-long-long-long-long-long-
  end.
`, out.String())
}

// A task that was made smaller than it has shrunk has no ranks until the manager has looked.
func TestAJobThatIsSmallerThanItHasShrunk(t *testing.T) {
	job := &v1alpha1.TrainingJob{Spec: v1alpha1.TrainingJobSpec{Tasks: []v1alpha1.Task{{Name: "worker", Replicas: 2}}}}
	job.Status = v1alpha1.TrainingJobStatus{State: v1alpha1.StateRunning, Tasks: []v1alpha1.TaskStatus{{Name: "worker", Shrunk: 3}}}
	for _, replicas := range []int32{2, -1} {
		job.Spec.Tasks[0].Replicas = replicas
		s := &Snapshot{Job: job, Whole: true, FromFile: true}
		answer := Ask(s, nil)
		Print(io.Discard, s, &answer)
		check.Equal(t, "state", v1alpha1.StateRunning, answer.State)
	}
}
