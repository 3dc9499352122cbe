package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/timeline"

	"github.com/lockstep-dev/lockstep/test/check"
)

const twoIncidents = `apiVersion: lockstep.dev/v1alpha1
kind: TrainingJob
metadata: {name: llama, namespace: research}
spec: {queue: default, tasks: []}
status:
  state: Running
  attempt: 1
  conditions:
  - {type: Running, status: "True", reason: PodsReady, message: "", lastTransitionTime: "2026-01-02T04:10:00Z"}
  availability:
    startTime: "2026-01-02T03:00:00.000000Z"
    lostTime:
    - {cause: PodNotReady, interruptions: 1, milliseconds: 20000}
    - {cause: NodeNotReady, interruptions: 2, milliseconds: 820000}
    suspendedMilliseconds: 600000
  incidents:
  - id: 1
    trigger: PodNotReady
    class: User
    cause: {pod: llama-1-worker-1, container: trainer, exitCode: 1, time: "2026-01-02T03:04:05Z"}
    startTime: "2026-01-02T03:04:07.000000Z"
    endTime: "2026-01-02T03:04:27.000000Z"
    outcome: Recovered
    message: incident 1, PodNotReady of pod llama-1-worker-1, container trainer exited with 1
  - id: 2
    trigger: NodeNotReady
    class: Infrastructure
    cause: {pod: llama-1-worker-2, node: gpu-2}
    startTime: "2026-01-02T04:00:00.000000Z"
    noRoomTime: "2026-01-02T04:01:40.000000Z"
    placedTime: "2026-01-02T04:03:30.000000Z"
    boundTime: "2026-01-02T04:04:00.000000Z"
    endTime: "2026-01-02T04:05:00.000000Z"
    steps:
    - {action: RestartPod, index: 0, time: "2026-01-02T04:01:00.000000Z"}
    - {action: RestartJob, index: 1, time: "2026-01-02T04:03:00.000000Z"}
    outcome: Recovered
    message: 'incident 2, NodeNotReady of pod llama-1-worker-2 on node gpu-2: RestartPod'
`

func TestTimelineIsDrawnToScale(t *testing.T) {
	file := filepath.Join(t.TempDir(), "llama.yaml")
	if err := os.WriteFile(file, []byte(twoIncidents), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := lockstep("timeline", "-f", file)
	if err != nil {
		t.Fatal(err)
	}
	check.Equal(t, "output", `TrainingJob research/llama: Running, attempt 1, incidents remembered: 2
ETTR 0.7667 from 2026-01-02 03:00:00 to 2026-01-02 04:10:00
        46m  ready
     13m40s  lost to NodeNotReady, interruptions: 2
        20s  lost to PodNotReady, interruptions: 1
        10m  suspended

incident 1, PodNotReady of pod llama-1-worker-1, container trainer exited with 1. Recovered after 20s
  2026-01-02 03:04:05       -2s  the program ended
  2026-01-02 03:04:07        0s  seen
  2026-01-02 03:04:27       20s  over
  .====
  detect 2s, start 20s

incident 2, NodeNotReady of pod llama-1-worker-2 on node gpu-2: RestartPod. Recovered after 5m
  2026-01-02 04:00:00        0s  seen
  2026-01-02 04:01:00        1m  RestartPod
  2026-01-02 04:01:40     1m40s  a replacement has to wait for room
  2026-01-02 04:03:00        3m  RestartJob
  2026-01-02 04:03:30     3m30s  the last replacement may be placed
  2026-01-02 04:04:00        4m  the last replacement has its node
  2026-01-02 04:05:00        5m  over
`+"  "+strings.Repeat("-", 12)+strings.Repeat("#", 8)+strings.Repeat("~", 28)+strings.Repeat("=", 12)+`
  decide 1m, place 40s, wait for room 2m20s, start 1m

Times are UTC. The longest bar is 5m: . detect  - decide
# place  ~ wait for room  = start  x stop  | barrier
`, out)
}

func TestTimelineOfASupervisedGang(t *testing.T) {
	file := filepath.Join(t.TempDir(), "jobs.yaml")
	const job = `apiVersion: lockstep.dev/v1alpha1
kind: TrainingJob
metadata: {name: llama, namespace: research}
status:
  state: Running
  attempt: 1
  epoch: 2
  incidents:
  - id: 1
    trigger: ProcessFailed
    class: User
    epoch: 2
    outcome: Recovered
    steps: [{action: RestartProcesses, index: 0, time: "2026-01-02T03:00:00.000000Z"}]
    startTime: "2026-01-02T03:00:00.000000Z"
    stoppedTime: "2026-01-02T03:00:02.000000Z"
    barrierTime: "2026-01-02T03:00:04.000000Z"
    runningTime: "2026-01-02T03:00:04.000000Z"
    endTime: "2026-01-02T03:00:10.000000Z"
`
	if err := os.WriteFile(file, []byte(job), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := lockstep("timeline", "-f", file)
	check.Equal(t, "error", nil, err)
	for _, want := range []string{
		"        4s  all ranks are at the barrier of epoch 2\n",
		"\n  " + strings.Repeat("x", 12) + strings.Repeat("|", 12) + strings.Repeat("=", 36) + "\n  stop 2s, barrier 2s, start 6s\n",
		"~ wait for room  = start  x stop  | barrier\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing:\n%s", want, out)
		}
	}
}

// The phase that an open incident is in lasts until now, or until the last change that a file records.
func TestTimelineOfAnOpenIncident(t *testing.T) {
	const head = `apiVersion: v1
kind: List
items:
- apiVersion: lockstep.dev/v1alpha1
  kind: TrainingJob
  metadata: {name: llama, namespace: research}
  status:
    state: Recovering
    attempt: 1
    conditions: [{type: Running, status: "False", reason: x, message: x, lastTransitionTime: "2026-01-02T03:10:00Z"}]
    incidents:
    - id: 4
      trigger: NodeGone
      class: Infrastructure
      startTime: "2026-01-02T03:00:00.000000Z"
`
	tests := map[string]struct{ rest, want string }{
		"no step":         {"", "decide 10m"},
		"a checkpoint":    {"      checkpoint: {requestTime: \"2026-01-02T03:00:01.000000Z\", deadline: \"2026-01-02T03:01:01.000000Z\", pods: 4}\n", "2026-01-02 03:00:01        1s  4 pods are asked for a checkpoint"},
		"an old one":      {"      checkpoint: {requestTime: \"2026-01-02T03:00:01.000000Z\", deadline: \"2026-01-02T03:01:01.000000Z\", endTime: \"2026-01-02T03:01:01.000000Z\", outcome: TimedOut, pods: 4, answered: 3}\n", "2026-01-02 03:01:01      1m1s  checkpoint: TimedOut, 3 of 4 pods answered"},
		"a step":          {"      steps: [{action: RestartPod, index: 0, time: \"2026-01-02T03:01:00.000000Z\"}]\n", "decide 1m, place 9m"},
		"no room":         {"      steps: [{action: RestartPod, index: 0, time: \"2026-01-02T03:01:00.000000Z\"}]\n      noRoomTime: \"2026-01-02T03:02:00.000000Z\"\n", "decide 1m, place 1m, wait for room 8m"},
		"bound":           {"      steps: [{action: RestartPod, index: 0, time: \"2026-01-02T03:01:00.000000Z\"}]\n      boundTime: \"2026-01-02T03:02:00.000000Z\"\n", "decide 1m, place 1m, start 8m"},
		"its programs":    {"      epoch: 2\n      steps: [{action: RestartProcesses, index: 0, time: \"2026-01-02T03:01:00.000000Z\"}]\n", "decide 1m, start 9m"},
		"a step after it": {"      steps: [{action: RestartPod, index: 0, time: \"2026-01-02T03:01:00.000000Z\"}, {action: RestartJob, index: 1, time: \"2026-01-02T03:05:00.000000Z\"}]\n      boundTime: \"2026-01-02T03:02:00.000000Z\"\n", "decide 1m, place 9m"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "jobs.yaml")
			if err := os.WriteFile(file, []byte(head+tc.rest), 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := lockstep("timeline", "-f", file)
			check.Equal(t, "error", nil, err)
			for _, want := range []string{"\n  " + tc.want + "\n", "incident 4, NodeGone. Open for 10m"} {
				if !strings.Contains(out, want) {
					t.Errorf("no %q in\n%s", want, out)
				}
			}
		})
	}
}

func TestTimelineAsAnObject(t *testing.T) {
	file := filepath.Join(t.TempDir(), "llama.yaml")
	if err := os.WriteFile(file, []byte(twoIncidents), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := lockstep("timeline", "-f", file, "-o", "yaml")
	check.Equal(t, "error", nil, err)
	var all timeline.Jobs
	if err := yaml.UnmarshalStrict([]byte(out), &all); err != nil {
		t.Fatal(err)
	}
	job := all.Jobs[0]
	check.Equal(t, "name", "llama", job.Name)
	check.Equal(t, "ready", int64(2760000), job.Availability.ReadyMilliseconds)
	check.Equal(t, "phases", []timeline.Phase{{Phase: "Decide", Milliseconds: 60000}, {Phase: "Place", Milliseconds: 40000}, {Phase: "WaitForRoom", Milliseconds: 140000}, {Phase: "Start", Milliseconds: 60000}}, job.Incidents[1].Phases)
	check.Equal(t, "first event", "seen", job.Incidents[1].Events[0].What)
}

func TestTimelineNamesWhatIsWrong(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"no name":          {nil, "the name of a TrainingJob is missing"},
		"names and a file": {[]string{"llama", "-f", "x.yaml"}, "give either names or -f"},
		"no such file":     {[]string{"-f", "x.yaml"}, `the path "x.yaml" does not exist`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := lockstep(append([]string{"timeline"}, tc.args...)...)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
