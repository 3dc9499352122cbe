package simulate

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/check"
)

const sample = "../../../config/samples/quickstart.yaml"

// simulate runs the command, and returns what it prints.
func simulate(args ...string) (string, error) {
	streams, _, out, _ := genericiooptions.NewTestIOStreams()
	c := New(streams)
	c.SetArgs(args)
	c.SilenceUsage, c.SilenceErrors = true, true
	err := c.Execute()
	return out.String(), err
}

const spares = "../../../config/samples/spares.yaml"

func TestSimulatePlaysAJob(t *testing.T) {
	args := []string{"-f", sample, "--compare", spares, "--for", "365d", "--plays", "3", "--sweep", "rules[node-may-return].afterSeconds=10s..60s"}
	out, err := simulate(args...)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"4 pods on 19 nodes for 365d, 3 plays from seed 1.", " quickstart ", " spares  whole-job restarts\n  ETTR                  0.98",
		"GPU-hours lost", "  steps since a save", "  else in HyperNode", "spares against quickstart:",
		"A job that is never down, by the published formula: ETTR 0.98", "  Faulty GPU", "rules[node-may-return].afterSeconds:",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	again, err := simulate(args...)
	check.Equal(t, "the same seed, the same answer", out, again)
	check.Equal(t, "error", nil, err)
	for line := range strings.SplitSeq(out, "\n") {
		if n := len([]rune(line)); n > 80 {
			t.Errorf("a line of %d columns: %s", n, line)
		}
	}
}

func TestSupervisorsRestartPrograms(t *testing.T) {
	out, err := simulate("-f", "../../../config/samples/supervisor.yaml", "--for", "60d", "--plays", "8")
	if err != nil || !strings.Contains(out, "program restarts") {
		t.Errorf("%v, in\n%s", err, out)
	}
}

func TestASweepGoesFromOneTimeToTheOther(t *testing.T) {
	field, times, err := parseSweep("rules[r].afterSeconds=10s..10m")
	check.Equal(t, "error", nil, err)
	check.Equal(t, "field", "rules[r].afterSeconds", field)
	check.Equal(t, "times", []time.Duration{
		10 * time.Second, 20 * time.Second, 39 * time.Second, 77 * time.Second, 153 * time.Second, 303 * time.Second, 10 * time.Minute,
	}, times)
	_, times, err = parseSweep("hold.seconds=0s..3s")
	check.Equal(t, "error", nil, err)
	check.Equal(t, "times", []time.Duration{0, time.Second, 2 * time.Second, 3 * time.Second}, times)
}

// A pod whose restart waits for ten minutes is better restarted at once. What is suggested is what changes: no defaults beside it.
func TestASuggestionIsAPolicy(t *testing.T) {
	file := fileOf(t, job+`spec:
  tasks:
  - {name: worker, replicas: 2, template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}
  restartPolicy:
    rules: [{name: late, match: {}, steps: [{action: RestartPod, afterSeconds: 600}]}]
`)
	model := fileOf(t, "causes: [{name: evictions, perThousandNodeDays: 200, effect: PodLoss}]\n")
	out, err := simulate("-f", file, "--failures", model, "--for", "60d", "--suggest")
	check.Equal(t, "error", nil, err)
	for _, want := range []string{"  (" + model + ").\n", "  rules[late].steps[0].afterSeconds: 0s is better", "The policy to try:\n\nspec:\n  restartPolicy:\n    rules:\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// A program that saves too often is to save less often, and a job whose nodes are away for long is to have spares where no other node is free.
func TestASuggestionOfCheckpointsAndSpares(t *testing.T) {
	file := fileOf(t, job+`spec:
  tasks:
  - {name: master, replicas: 1, template: {spec: {containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 8}}}]}}}
  - {name: worker, replicas: 30, template: {spec: {containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 8}}}]}}}
`)
	model := fileOf(t, "causes: [{name: losses, perThousandNodeDays: 10, effect: NodeLoss, repair: 24h}]\n")
	suggest := func(args ...string) string {
		t.Helper()
		out, err := simulate(append([]string{"-f", file, "--failures", model, "--for", "60d", "--plays", "3", "--suggest"}, args...)...)
		check.Equal(t, "error", nil, err)
		_, out, _ = strings.Cut(out, "\nSearching ")
		return strings.Join(strings.Fields(out), " ")
	}
	out := suggest("--checkpoint-interval", "5m")
	for _, want := range []string{
		"--checkpoint-interval: 1h", "With failures that the search has not seen: +0.0", "Have the program save a checkpoint every 1h", "m, in place of 5m.",
		"Searching better spares of task worker, if other jobs leave no node free, where a spare counts as a pod that does not train: spares: ", "Give task worker 1 spares, in place of 0.",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if out := suggest("--checkpoint-write", "0"); strings.Contains(out, "checkpoint") {
		t.Errorf("a checkpoint that costs nothing is to be saved less often:\n%s", out)
	}
}

// A job that has been restarted tells how often its program saves.
func TestAJobTellsHowOftenItSaves(t *testing.T) {
	told := func(restarts, each int, args ...string) (seconds []float64) {
		t.Helper()
		file := fileOf(t, job+fmt.Sprintf(`spec: {tasks: [{name: worker, replicas: 2, template: {spec: {containers: [{name: c, image: i}]}}}]}
status: {availability: {startTime: "2026-01-02T03:04:05.000000Z", lostTime: [{cause: Retrained, interruptions: %d, milliseconds: %d}]}}
`, restarts, restarts*each*1000))
		setup := jsonOf(t, append([]string{"-f", file, "--for", "10d", "--plays", "1"}, args...)...).Setup
		return []float64{setup.CheckpointIntervalSeconds, setup.CheckpointWriteSeconds}
	}
	check.Equal(t, "of five restarts, after which five minutes were trained again", []float64{600, 0}, told(5, 300))
	check.Equal(t, "with what a checkpoint costs", []float64{600, 10}, told(5, 300, "--checkpoint-write", "10s"))
	check.Equal(t, "of two", []float64{1800, 30}, told(2, 300))
	check.Equal(t, "of five, and of a flag", []float64{1200, 30}, told(5, 300, "--checkpoint-interval", "20m"))
	check.Equal(t, "of less than nothing", []float64{1800, 30}, told(5, -300))
	check.Equal(t, "of years", []float64{1800, 30}, told(5, 1e9))
}

// What ranks have near them is trained again no more, and sooner restored; a whole-job restart loses it.
func TestCopiesOfCheckpoints(t *testing.T) {
	file := fileOf(t, job+`spec:
  supervisor: {checkpointTiers: [{path: /memory, scope: Pod}, {path: /shared, scope: Shared}]}
  tasks: [{name: worker, replicas: 4, template: {spec: {containers: [{name: c, image: i, command: [train]}]}}}]
`)
	lost := func(args ...string) []float64 {
		t.Helper()
		r := jsonOf(t, append([]string{"-f", file, "--for", "300d", "--plays", "1"}, args...)...)
		return []float64{r.Jobs[0].Lost["stepsSinceSave"] + r.Jobs[0].Lost["restore"], r.Jobs[1].Lost["stepsSinceSave"] + r.Jobs[1].Lost["restore"]}
	}
	without, with := lost(), lost("--copies", "Pod=10s/5s")
	check.Equal(t, "setup", map[v1alpha1.CheckpointScope]Copies{"Pod": {10, 5}}, jsonOf(t, "-f", file, "--plays", "1", "--copies", "Pod=10s/5s").Setup.Copies)
	if with[0] > 0.8*without[0] || with[1] != without[1] {
		t.Errorf("lost with copies: %v, and without: %v", with, without)
	}
	out, err := simulate("-f", file, "--for", "10d", "--plays", "1", "--copies", "Pod=10s/5s")
	if want := "Ranks with a copy of scope Pod, of which there is one every 10s,"; err != nil || !strings.Contains(out, want) {
		t.Errorf("%v, and it does not say %q:\n%s", err, want, out)
	}
}

// A job that has begun again tells how long its program takes until it trains.
func TestAJobTellsHowLongARestoreTakes(t *testing.T) {
	told := func(epoch, took int, args ...string) float64 {
		t.Helper()
		file := fileOf(t, job+fmt.Sprintf(`spec: {tasks: [{name: worker, replicas: 2, template: {spec: {containers: [{name: c, image: i}]}}}]}
status: {progress: {epoch: %d, restoreSeconds: %d}}
`, epoch, took))
		return jsonOf(t, append([]string{"-f", file, "--for", "10d", "--plays", "1"}, args...)...).Setup.RestoreSeconds
	}
	check.Equal(t, "after a restart", 300, told(2, 300))
	check.Equal(t, "at the first start, where nothing need be restored", 120, told(1, 300))
	check.Equal(t, "with a flag", 7, told(2, 300, "--restore", "7s"))
	check.Equal(t, "of less than nothing", 120, told(2, -300))
	check.Equal(t, "of weeks", 120, told(2, 2e6))
}
