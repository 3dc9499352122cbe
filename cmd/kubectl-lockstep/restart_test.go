package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/incident"
	"github.com/lockstep-dev/lockstep/test/check"
)

// requestedJob is a job of four workers on two nodes, whose status has an answer to the request "a".
func requestedJob(change ...func(*v1alpha1.TrainingJob)) v1alpha1.TrainingJob {
	job := jobIn("default", "llama", v1alpha1.StateRunning)
	job.ResourceVersion = "7"
	job.Spec.Tasks = []v1alpha1.Task{{Name: "worker", Replicas: 4, Partition: &v1alpha1.Partition{Size: 2}}, {Name: "loader", Replicas: 1}}
	job.Status.Placement = &v1alpha1.Placement{Tasks: []v1alpha1.TaskPlacement{{Name: "worker", Nodes: []string{"n1", "n1", "n2", "n2"}}}}
	start := metav1.NewMicroTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	job.Spec.RestartRequest = &v1alpha1.RestartRequest{ID: "a", Action: "RestartJob"}
	job.Status.RestartRequest = &v1alpha1.RestartRequestStatus{ID: "a", Time: start, Incident: 3}
	job.Status.Incidents = []v1alpha1.Incident{{
		ID: 3, StartTime: start, EndTime: new(metav1.NewMicroTime(start.Add(1500 * time.Millisecond))), Outcome: v1alpha1.OutcomeRecovered,
	}}
	for _, f := range change {
		f(&job)
	}
	return job
}

func TestRestartAndMigrateAsk(t *testing.T) {
	t.Setenv("KUBECONFIG", "/dev/null")
	const to = "PATCH " + theJobs + "/llama?fieldManager=kubectl-lockstep "
	asks := func(fields string) string {
		return to + `{"metadata":{"resourceVersion":"7"},"spec":{"restartRequest":{` + fields + `}}}`
	}
	for name, tc := range map[string]struct {
		args    []string
		written string
		err     string
	}{
		"a rank":          {[]string{"restart", "llama", "worker-1", "--reason", "slow"}, asks(`"action":"RestartPod","id":"b","pods":[{"index":1,"task":"worker"}],"reason":"slow"`), ""},
		"by its pod":      {[]string{"restart", "llama", "llama-1-worker-1", "worker-1"}, asks(`"action":"RestartPod","id":"b","pods":[{"index":1,"task":"worker"}]`), ""},
		"a partition":     {[]string{"restart", "llama", "worker-3", "--partition"}, asks(`"action":"RestartPartition","id":"b","pods":[{"index":3,"task":"worker"}]`), ""},
		"a pod before":    {[]string{"restart", "llama", "llama-2-worker-1"}, "", "pod llama-2-worker-1 is of attempt 2, and TrainingJob llama is in attempt 1: its rank is worker-1"},
		"a task":          {[]string{"restart", "llama", "--task", "worker"}, asks(`"action":"RestartTask","id":"b","pods":[{"index":0,"task":"worker"}]`), ""},
		"all":             {[]string{"restart", "llama"}, asks(`"id":"b"`), ""},
		"a move":          {[]string{"migrate", "llama", "worker-0"}, asks(`"action":"MigratePod","id":"b","pods":[{"index":0,"task":"worker"}]`), ""},
		"off a node":      {[]string{"migrate", "llama", "--node", "n2"}, asks(`"action":"MigratePod","id":"b","pods":[{"index":2,"task":"worker"},{"index":3,"task":"worker"}]`), ""},
		"out of its rack": {[]string{"migrate", "llama", "--all"}, asks(`"action":"RelocateJob","id":"b"`), ""},

		"programs":           {[]string{"restart", "llama", "--processes"}, asks(`"action":"RestartProcesses","id":"b"`), ""},
		"programs of a rank": {[]string{"restart", "llama", "worker-0", "--processes"}, "", "--processes: the programs of all ranks start again together: leave ranks, --task and --partition out"},

		"no job":              {[]string{"restart"}, "", errNoName.Error()},
		"no such rank":        {[]string{"restart", "llama", "worker-4"}, "", `"worker-4" names no rank of TrainingJob llama: give one of worker-0 to worker-3, loader-0, or the name of its pod`},
		"no such task":        {[]string{"restart", "llama", "--task", "ps"}, "", `--task: TrainingJob llama has no task "ps"`},
		"a task and a rank":   {[]string{"restart", "llama", "worker-0", "--task", "worker"}, "", "--task: give either that or the rank worker-0"},
		"no rank to a group":  {[]string{"restart", "llama", "--partition"}, "", "--partition: name a rank of each partition that is to be restarted, such as worker-0"},
		"nothing to move":     {[]string{"migrate", "llama"}, "", "say what is moved: ranks such as worker-3, --node NODE for those on a node, or --all for the whole job"},
		"nothing on the node": {[]string{"migrate", "llama", "--node", "n3"}, "", "--node: no rank of TrainingJob llama is on node \"n3\": `kubectl lockstep map llama` shows where they are"},
		"two ways":            {[]string{"migrate", "llama", "worker-0", "--all"}, "", "give ranks, --node or --all, and only one of them"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &server{objects: map[string]any{theJobs + "/llama": requestedJob()}}
			_, err := lockstep(append(tc.args, "--id", "b", "--timeout", "1ms", s.serve(t, core, product))...)
			check.Equal(t, "written", tc.written, strings.Join(s.written, "\n"))
			switch {
			case err == nil:
				t.Error("the request has no answer, and that is no error")
			case tc.err == "":
				check.Equal(t, "says what to do", true, strings.HasPrefix(err.Error(), "the manager has not answered for"))
			default:
				check.Equal(t, "error", tc.err, err.Error())
			}
		})
	}
}

// Nothing in this cluster would answer.
func TestNoRequestToAnotherManager(t *testing.T) {
	t.Setenv("KUBECONFIG", "/dev/null")
	for _, verb := range []string{"restart", "migrate", "suspend"} {
		s := &server{objects: map[string]any{theJobs + "/llama": requestedJob(func(j *v1alpha1.TrainingJob) { j.Spec.ManagedBy = "kueue.x-k8s.io/multikueue" })}}
		args := []string{verb, "llama", "worker-0"}
		if verb == "suspend" {
			args = args[:2]
		}
		_, err := lockstep(append(args, s.serve(t, core, product))...)
		check.Equal(t, verb, "kueue.x-k8s.io/multikueue manages TrainingJob llama, and Lockstep in this cluster does not answer for it: ask in the cluster where its pods run", fmt.Sprint(err))
		check.Equal(t, "written", 0, len(s.written))
	}
}

// Of a task some ranks of which have succeeded, one that has not is named: the manager runs those that have no more.
func TestATaskThatHasRanksLeft(t *testing.T) {
	for completed, want := range map[string]int32{"": 0, "0": 1, "0-1,3": 2, "0-3": 0} {
		job := requestedJob(func(j *v1alpha1.TrainingJob) {
			j.Status.Tasks = []v1alpha1.TaskStatus{{Name: "worker", CompletedIndexes: completed}}
		})
		check.Equal(t, completed, gang.Rank{Task: "worker", Index: want}, firstOf(&job, "worker"))
	}
}

// A wait goes on where the API server does not answer once. An interrupted one ends with that as its error.
func TestWaitOutlastsTheAPIServer(t *testing.T) {
	t.Setenv("KUBECONFIG", "/dev/null")
	down := refusal(503, metav1.StatusReasonServiceUnavailable, "no endpoints")
	s := &server{objects: map[string]any{theJobs + "/llama": down}}
	flags := genericclioptions.NewConfigFlags(false)
	flags.APIServer = new(strings.TrimPrefix(s.serve(t, core, product), "--server="))
	c, err := newCluster(flags)
	check.Equal(t, "error", nil, err)
	r := restartRequest{}
	always := func(*v1alpha1.TrainingJob) bool { return true }
	go func() {
		for asked := false; !asked; time.Sleep(time.Millisecond) {
			s.mu.Lock()
			if asked = slices.Contains(s.asked, theJobs+"/llama"); asked {
				s.objects[theJobs+"/llama"] = requestedJob()
			}
			s.mu.Unlock()
		}
	}()
	_, err = r.await(t.Context(), c, "llama", time.Hour, always)
	check.Equal(t, "once it is back", nil, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = r.follow(ctx, io.Discard, c, "llama")
	check.Equal(t, "interrupted", true, errors.Is(err, context.Canceled))
}

// An older CRD has no such field: the API server answers with the job as it was.
func TestARequestThatIsPruned(t *testing.T) {
	t.Setenv("KUBECONFIG", "/dev/null")
	pruned := requestedJob(func(j *v1alpha1.TrainingJob) { j.Spec.RestartRequest, j.Status.RestartRequest = nil, nil })
	for name, args := range map[string][]string{
		"restart": {"restart", "llama"}, "migrate": {"migrate", "llama", "--all"}, "server dry run": {"restart", "llama", "--dry-run=server"},
	} {
		s := &server{objects: map[string]any{theJobs + "/llama": pruned}}
		_, err := lockstep(append(args, s.serve(t, core, product))...)
		check.Equal(t, name, errPruned.Error(), fmt.Sprint(err))
	}
	s := &server{objects: map[string]any{theJobs + "/llama": pruned}}
	_, err := lockstep("restart", "llama", "--dry-run=client", s.serve(t, core, product))
	check.Equal(t, "nothing is sent", nil, err)
}

// The status has the answer to the last request only.
func TestWaitOutlastsOtherRequests(t *testing.T) {
	t.Setenv("KUBECONFIG", "/dev/null")
	for name, tc := range map[string]struct {
		incident int32
		err      string
	}{
		"still known": {3, ""},
		"forgotten":   {2, "incident 2 of TrainingJob llama is over, and how it ended is not known: its status keeps the last incidents only"},
	} {
		s := &server{objects: map[string]any{theJobs + "/llama": requestedJob()}} // which answers the request "a"
		address := s.serve(t, core, product)
		flags := genericclioptions.NewConfigFlags(false)
		flags.APIServer = new(strings.TrimPrefix(address, "--server="))
		c, err := newCluster(flags)
		check.Equal(t, "error", nil, err)
		r := restartRequest{RestartRequest: v1alpha1.RestartRequest{ID: "b"}, timeout: time.Second}
		message := ""
		if err := r.awaitEnd(t.Context(), io.Discard, c, "llama", tc.incident); err != nil {
			message = err.Error()
		}
		check.Equal(t, name, tc.err, message)
	}
}

func TestWhatBecameOfARequest(t *testing.T) {
	t.Setenv("KUBECONFIG", "/dev/null")
	for name, tc := range map[string]struct {
		change func(*v1alpha1.TrainingJob)
		args   []string
		out    string
		err    string
	}{
		"begun": {func(*v1alpha1.TrainingJob) {}, nil, "trainingjob.lockstep.dev/llama: RestartJob of the whole job is incident 3\n`kubectl lockstep timeline llama` shows how far it is.\n", ""},
		"over":  {func(*v1alpha1.TrainingJob) {}, []string{"--wait"}, "trainingjob.lockstep.dev/llama: RestartJob of the whole job is incident 3\nRecovered after 1.5s\n", ""},
		"failed": {func(j *v1alpha1.TrainingJob) {
			j.Status.Incidents[0].Outcome, j.Status.Incidents[0].Message = v1alpha1.OutcomeFailed, "it fell again"
		}, []string{"--wait"}, "trainingjob.lockstep.dev/llama: RestartJob of the whole job is incident 3\n", "incident 3: Failed after 1.5s: it fell again"},
		"takes long": {func(j *v1alpha1.TrainingJob) {
			j.Status.State, j.Status.Ready = v1alpha1.StateRecovering, "3/5"
			j.Status.Incidents[0].Outcome, j.Status.Incidents[0].EndTime = "", nil
		}, []string{"--wait", "--timeout", "600ms"}, "trainingjob.lockstep.dev/llama: RestartJob of the whole job is incident 3\nRecovering, Decide, 3/5 ready\n", "it was not over after 600ms (--timeout): `kubectl lockstep timeline llama` shows how far it is"},
		"without a checkpoint": {func(j *v1alpha1.TrainingJob) {
			j.Status.Incidents[0].Checkpoint = &v1alpha1.IncidentCheckpoint{Outcome: v1alpha1.CheckpointRefused, Pods: 4, Answered: 3, Message: "llama-1-worker-2: answered 404 Not Found"}
		}, []string{"--wait"}, "trainingjob.lockstep.dev/llama: RestartJob of the whole job is incident 3\nRecovered after 1.5s, without a checkpoint: Refused, 3 of 4 pods answered (llama-1-worker-2: answered 404 Not Found)\n", ""},
		"refused": {func(j *v1alpha1.TrainingJob) { j.Status.RestartRequest.Message = "the gang has not been placed yet" }, nil, "", "RestartJob of the whole job is refused: the gang has not been placed yet"},
		"a dry run of the job": {func(j *v1alpha1.TrainingJob) { j.Annotations = map[string]string{v1alpha1.DryRun: "true"} }, []string{"--wait"},
			"trainingjob.lockstep.dev/llama: RestartJob of the whole job is incident 3\nIt is only recorded: the job has the annotation lockstep.dev/dry-run.\nRecovered after 1.5s\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := &server{now: time.Date(2026, 1, 2, 3, 5, 0, 0, time.UTC), objects: map[string]any{theJobs + "/llama": requestedJob(tc.change)}}
			out, err := lockstep(append(append([]string{"restart", "llama", "--id", "a"}, tc.args...), s.serve(t, core, product))...)
			message := ""
			if err != nil {
				message = err.Error()
			}
			check.Equal(t, "error", tc.err, message)
			check.Equal(t, "says", tc.out, out)
			check.Equal(t, "written", 0, len(s.written)) // it was asked for before
		})
	}
}

func TestAJobThatTakesNoRequest(t *testing.T) {
	t.Setenv("KUBECONFIG", "/dev/null")
	for name, tc := range map[string]struct {
		change func(*v1alpha1.TrainingJob)
		err    string
	}{
		"ended": {func(j *v1alpha1.TrainingJob) {
			j.Status.State = v1alpha1.StateFailed
			j.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionFailed, Status: metav1.ConditionTrue}}
		}, "TrainingJob llama has ended (Failed): create a new one to train again"},
		"without a node": {func(j *v1alpha1.TrainingJob) {
			inc := &j.Status.Incidents[0]
			inc.Outcome, inc.EndTime, inc.NoRoomTime = "", nil, &inc.StartTime
			inc.Steps = []v1alpha1.FiredStep{{Action: v1alpha1.RestartPod, Time: inc.StartTime}}
		}, "incident 3 waits for a node, and until it has one the gang cannot train: RestartJob would only restart ranks that are well. --force does it all the same; `kubectl lockstep why llama` says what is missing"},
		"suspended": {func(j *v1alpha1.TrainingJob) { j.Spec.Suspend = true }, "TrainingJob llama is suspended: `kubectl lockstep resume llama` creates all of its pods again"},
		"another request": {func(j *v1alpha1.TrainingJob) {
			j.Spec.RestartRequest = &v1alpha1.RestartRequest{ID: "c", Action: "RestartPod", Pods: []v1alpha1.RequestedPod{{Task: "worker", Index: 2}}}
		}, "TrainingJob llama has a request that the manager has not seen yet (RestartPod of worker-2): `kubectl lockstep check` finds out whether the manager runs"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &server{now: time.Date(2026, 1, 2, 4, 0, 0, 0, time.UTC), objects: map[string]any{theJobs + "/llama": requestedJob(tc.change)}}
			_, err := lockstep("restart", "llama", s.serve(t, core, product))
			check.Equal(t, "error", tc.err, err.Error())
		})
	}
}

// While an incident is open, the phase that it is in is shown.
func TestThePhaseOfAnIncident(t *testing.T) {
	start := metav1.NewMicroTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	at := func(seconds int) *metav1.MicroTime {
		return new(metav1.NewMicroTime(start.Add(time.Duration(seconds) * time.Second)))
	}
	inc := &v1alpha1.Incident{StartTime: start}
	expect := func(want incident.Phase) {
		t.Helper()
		check.Equal(t, "phase", want, phaseOf(inc, start.Add(time.Minute)))
	}
	expect(incident.Decide)
	inc.Steps = []v1alpha1.FiredStep{{Action: v1alpha1.RestartPod, Time: *at(1)}}
	expect(incident.Place)
	inc.NoRoomTime = at(2)
	expect(incident.WaitForRoom)
	inc.PlacedTime, inc.BoundTime = at(3), at(3)
	expect(incident.Start)
}

// The same request may be made again: it is one, whether the manager has seen it or not.
func TestARequestIsMadeAgain(t *testing.T) {
	t.Setenv("KUBECONFIG", "/dev/null")
	again := requestedJob(func(j *v1alpha1.TrainingJob) {
		j.Spec.RestartRequest = &v1alpha1.RestartRequest{ID: "c", Action: "RestartPod", Pods: []v1alpha1.RequestedPod{{Task: "worker", Index: 2}}}
	})
	s := &server{now: time.Date(2026, 1, 2, 4, 0, 0, 0, time.UTC), objects: map[string]any{theJobs + "/llama": again}}
	_, err := lockstep("restart", "llama", "worker-2", "--id", "c", "--dry-run=server", s.serve(t, core, product))
	check.Equal(t, "error", nil, err)
}

// An id names one request: what another action came to is no answer, even where the spec does not have the request any more.
func TestAnIDIsNotThatOfAnotherRequest(t *testing.T) {
	t.Setenv("KUBECONFIG", "/dev/null")
	forgotten := func(j *v1alpha1.TrainingJob) {
		j.Spec.RestartRequest = nil
		j.Status.Incidents[0].RequestedAction = v1alpha1.RestartJob
	}
	for name, tc := range map[string]struct {
		args   []string
		change func(*v1alpha1.TrainingJob)
		err    string
	}{
		"another action": {[]string{"migrate", "llama", "--all"}, func(*v1alpha1.TrainingJob) {},
			`--id: "a" was the id of RestartJob of the whole job: give RelocateJob of the whole job an id of its own`},
		"another rank": {[]string{"restart", "llama", "worker-1"}, func(j *v1alpha1.TrainingJob) {
			j.Spec.RestartRequest.Action, j.Spec.RestartRequest.Pods = "RestartPod", []v1alpha1.RequestedPod{{Task: "worker", Index: 2}}
		}, `--id: "a" was the id of RestartPod of worker-2: give RestartPod of worker-1 an id of its own`},
		"one that has no answer": {[]string{"migrate", "llama", "--all"}, func(j *v1alpha1.TrainingJob) { j.Status.RestartRequest = nil },
			`--id: "a" was the id of RestartJob of the whole job: give RelocateJob of the whole job an id of its own`},
		"one that is gone": {[]string{"migrate", "llama", "--all"}, forgotten,
			`--id: "a" was the id of RestartJob: give RelocateJob of the whole job an id of its own`},
		"the same, which is gone": {[]string{"restart", "llama"}, forgotten, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := &server{now: time.Date(2026, 1, 2, 3, 5, 0, 0, time.UTC), objects: map[string]any{theJobs + "/llama": requestedJob(tc.change)}}
			_, err := lockstep(append(tc.args, "--id", "a", s.serve(t, core, product))...)
			message := ""
			if err != nil {
				message = err.Error()
			}
			check.Equal(t, "error", tc.err, message)
			check.Equal(t, "written", 0, len(s.written))
		})
	}
}

// What a request has moved is not on the node any more when a script repeats it, and ranks may be named in another order.
func TestTheSameIDIsThatOfTheSameRequest(t *testing.T) {
	t.Setenv("KUBECONFIG", "/dev/null")
	byRank := func(action v1alpha1.RequestedAction, indices ...int32) func(*v1alpha1.TrainingJob) {
		return func(j *v1alpha1.TrainingJob) {
			j.Spec.RestartRequest.Action = action
			for _, i := range indices {
				j.Spec.RestartRequest.Pods = append(j.Spec.RestartRequest.Pods, v1alpha1.RequestedPod{Task: "worker", Index: i})
			}
		}
	}
	moved := func(nodes ...string) func(*v1alpha1.TrainingJob) {
		return func(j *v1alpha1.TrainingJob) {
			byRank("MigratePod", 0, 1)(j)
			j.Status.Placement.Tasks[0].Nodes = nodes
		}
	}
	gone := func(j *v1alpha1.TrainingJob) {
		moved("n3", "n3", "n2", "n2")(j)
		j.Spec.RestartRequest, j.Status.Incidents[0].RequestedAction = nil, v1alpha1.MigratePod
	}
	unanswered := func(j *v1alpha1.TrainingJob) {
		moved("n3", "n1", "n2", "n2")(j)
		j.Status.RestartRequest = nil
	}
	const refused = `--id: "a" was the id of `
	offN1 := []string{"migrate", "llama", "--node", "n1"}
	for name, tc := range map[string]struct {
		args   []string
		change func(*v1alpha1.TrainingJob)
		story  string
		err    string
	}{
		"nothing has moved":   {offN1, moved("n1", "n1", "n2", "n2"), "MigratePod of worker-0, worker-1", ""},
		"one has moved":       {offN1, moved("n3", "n1", "n2", "n2"), "MigratePod of worker-0, worker-1", ""},
		"all have moved":      {offN1, moved("n3", "n3", "n2", "n2"), "MigratePod of worker-0, worker-1", ""},
		"all, and it is gone": {offN1, gone, "MigratePod of the ranks that were on node n1", ""},
		"others are there":    {offN1, moved("n3", "n1", "n1", "n2"), "", refused + "MigratePod of worker-0, worker-1: give MigratePod of worker-1, worker-2 an id of its own"},
		"in another order":    {[]string{"restart", "llama", "worker-1", "worker-0"}, byRank("RestartPod", 0, 1), "RestartPod of worker-0, worker-1", ""},
		"fewer by name":       {[]string{"restart", "llama", "worker-1"}, byRank("RestartPod", 0, 1), "", refused + "RestartPod of worker-0, worker-1: give RestartPod of worker-1 an id of its own"},
		"more by name":        {[]string{"restart", "llama", "worker-1", "worker-0"}, byRank("RestartPod", 1), "", refused + "RestartPod of worker-1: give RestartPod of worker-1, worker-0 an id of its own"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &server{now: time.Date(2026, 1, 2, 3, 5, 0, 0, time.UTC), objects: map[string]any{theJobs + "/llama": requestedJob(tc.change)}}
			out, err := lockstep(append(tc.args, "--id", "a", s.serve(t, core, product))...)
			message := ""
			if err != nil {
				message = err.Error()
			}
			check.Equal(t, "error", tc.err, message)
			story, _, _ := strings.Cut(strings.TrimPrefix(out, "trainingjob.lockstep.dev/llama: "), " is incident 3\n")
			check.Equal(t, "says", tc.story, story)
			check.Equal(t, "written", 0, len(s.written))
		})
	}
	s := &server{now: time.Date(2026, 1, 2, 3, 5, 0, 0, time.UTC), objects: map[string]any{theJobs + "/llama": requestedJob(unanswered)}}
	_, err := lockstep(append(offN1, "--id", "a", "--timeout", "1ms", s.serve(t, core, product))...)
	check.Equal(t, "waits for the answer", true, err != nil && strings.HasPrefix(err.Error(), "the manager has not answered for"))
	if written := strings.Join(s.written, "\n"); strings.Contains(written, "pods") {
		t.Errorf("the ranks of the request were changed: %s", written)
	}
}
