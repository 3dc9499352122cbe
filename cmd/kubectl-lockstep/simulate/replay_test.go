package simulate

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
	"github.com/lockstep-dev/lockstep/test/check"
)

// recorded gives the job of the sample a policy and three incidents: one that the kubelet recovered, a node that was lost, and one that is open.
const recorded = `
  restartPolicy:
    unreachableNode: {afterSeconds: 60, gangDownAfterSeconds: 5}
status:
  incidents:
  - id: 3
    trigger: PodNotReady
    class: User
    cause: {pod: llama-1-worker-1, container: trainer, exitCode: 1, time: "2026-01-02T03:04:05Z"}
    pods: [{name: llama-1-worker-1, task: worker, index: 1}]
    startTime: "2026-01-02T03:04:07.000000Z"
    endTime: "2026-01-02T03:04:27.000000Z"
    outcome: Recovered
  - id: 4
    trigger: NodeNotReady
    class: Infrastructure
    cause: {pod: llama-1-worker-2, node: gpu-2}
    pods: [{name: llama-1-worker-2, task: worker, index: 2, node: gpu-2}]
    victimCount: 3
    steps: [{action: RestartPod, index: 0, time: "2026-01-02T04:00:05.000000Z"}]
    placedTime: "2026-01-02T04:00:08.000000Z"
    boundTime: "2026-01-02T04:00:09.000000Z"
    startTime: "2026-01-02T04:00:00.000000Z"
    endTime: "2026-01-02T04:02:00.000000Z"
    outcome: Recovered
  - id: 5
    trigger: PodFailed
    class: User
    cause: {pod: llama-1-worker-0}
    pods: [{name: llama-1-worker-0, task: worker, index: 0}]
    startTime: "2026-01-02T05:00:00.000000Z"
`

func TestRecordedIncidentsAreReplayed(t *testing.T) {
	raw, err := os.ReadFile(sample)
	if err != nil {
		t.Fatal(err)
	}
	slow := string(raw) + "  restartPolicy:\n    unreachableNode: {afterSeconds: 600, gangDownAfterSeconds: 600}\n"
	dir := t.TempDir()
	for name, content := range map[string]string{"llama.yaml": string(raw) + recorded, "slow.yaml": slow} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := simulate("-f", filepath.Join(dir, "slow.yaml"), "--replay", filepath.Join(dir, "llama.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"The incidents of llama, 4 pods on 5 nodes, and how long not all ranks ran:\n",
		"\n                  recorded  as it was      slow  whole-job restarts\n",
		"\n  3 PodNotReady        22s        22s       22s  ",
		"\n  4 NodeNotReady      2m0s       2m0s  11m57.9s  ",
		"\n  5 PodFailed         open  ",
		"\n  together            open  ",
		"A node that was not seen to come back is away for 1d (--repair).\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if no := "no healthy free node"; strings.Contains(out, no) {
		t.Errorf("%q in\n%s", no, out)
	}
}

// replayed is what a replay of the recorded job prints, without another job.
func replayed(t *testing.T, status string, args ...string) string {
	t.Helper()
	raw, err := os.ReadFile(sample)
	check.Equal(t, "error", nil, err)
	out, err := simulate(append([]string{"--replay", fileOf(t, string(raw)+status)}, args...)...)
	check.Equal(t, "error", nil, err)
	for line := range strings.SplitSeq(out, "\n") {
		if n := len([]rune(line)); n > lines.Width {
			t.Errorf("a line of %d columns: %s", n, line)
		}
	}
	return out
}

func TestAReplaySaysWhereNoNodeIsFree(t *testing.T) {
	out := strings.Join(strings.Fields(replayed(t, recorded, "--nodes", "4", "--repair", "2h")), " ")
	for _, want := range []string{
		"as it was, incident 4: no healthy free node is left in rack-0 until", "of 4 nodes 3 with a pod of the job, 1 lost or unhealthy, 0 excluded",
		"a shorter --repair", "is away for 2h (--repair).",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

func TestAReplaySaysWhatDoesNotFitOrIsLeftOut(t *testing.T) {
	before, after, _ := strings.Cut(recorded, "    victimCount: 3\n")
	_, after, _ = strings.Cut(after, "boundTime: \"2026-01-02T04:00:09.000000Z\"\n")
	ridden := before + after
	pending := strings.Replace(ridden, "trigger: PodFailed", "trigger: PodPending", 1)
	out := strings.Join(strings.Fields(replayed(t, pending)), " ")
	for _, want := range []string{
		" 4 NodeNotReady 2m0s 29.4s ", "differs from the recorded one, the policy may have been another one then.",
		"Not played, as they tell of no failure of their own: 5 PodPending.",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// A cluster of no given size has a node for each one that an incident took away.
func TestAReplayHasTheNodesThatItLoses(t *testing.T) {
	again := strings.NewReplacer("id: 4", "id: 6", "T04:0", "T06:0").Replace(recorded[strings.Index(recorded, "  - id: 4"):strings.Index(recorded, "  - id: 5")])
	out := replayed(t, recorded+again)
	for _, want := range []string{"4 pods on 6 nodes", "\n  6 NodeNotReady      2m0s       2m0s  "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// A node that is not in the file any more was there when an incident took it away.
func TestNodesOfIncidentsAreAddedToTheTopology(t *testing.T) {
	var file strings.Builder
	file.WriteString("apiVersion: v1\nkind: List\nitems:\n- apiVersion: topology.volcano.sh/v1alpha1\n  kind: HyperNode\n  metadata: {name: rack}\n  spec:\n    tier: 1\n    members:\n")
	for i := range 5 {
		fmt.Fprintf(&file, "    - {type: Node, selector: {exactMatch: {name: gpu-%d}}}\n", i)
	}
	for _, i := range []int{0, 1, 3, 4} {
		fmt.Fprintf(&file, "- apiVersion: v1\n  kind: Node\n  metadata: {name: gpu-%d, labels: {kubernetes.io/hostname: gpu-%d}}\n  status: {allocatable: {nvidia.com/gpu: \"8\"}}\n", i, i)
	}
	out := replayed(t, recorded, "--topology", fileOf(t, file.String()))
	if !strings.Contains(out, "4 pods on 5 nodes") || !strings.Contains(out, "\n  4 NodeNotReady      2m0s       2m0s  ") {
		t.Errorf("the lost node is missing in\n%s", out)
	}
}

func TestAReplayNeedsIncidents(t *testing.T) {
	raw, err := os.ReadFile(sample)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "llama.yaml")
	if err := os.WriteFile(file, []byte(string(raw)+strings.Replace(recorded, "index: 2", "index: 99", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := simulate("-f", sample, "--replay", file); err == nil || !strings.Contains(err.Error(), `incident 4 is about pod "llama-1-worker-2", rank 99 of task "worker", which the job does not have`) {
		t.Errorf("got %v", err)
	}
	if _, err := simulate("-f", sample, "--replay", sample); err == nil || !strings.Contains(err.Error(), "remembers no incident that can be played") {
		t.Errorf("got %v", err)
	}
}
