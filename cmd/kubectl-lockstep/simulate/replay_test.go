package simulate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// recorded is the job of the sample with three incidents: one that the kubelet recovered, a node that was lost, and one that is open.
const recorded = `
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
	slow := strings.Replace(string(raw), "afterSeconds: 60, gangDownAfterSeconds: 5}", "afterSeconds: 600, gangDownAfterSeconds: 600}", 1)
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
	late, err := simulate("-f", filepath.Join(dir, "slow.yaml"), "--replay", filepath.Join(dir, "llama.yaml"), "--restore", "2h")
	if err != nil || !strings.Contains(late, "\n3 PodNotReady        22s      1m18s") {
		t.Errorf("the first incident comes before the job trains: %v\n%s", err, late)
	}
	for _, want := range []string{
		"\n                recorded  as it was     slow  whole-job restarts\n",
		"\n3 PodNotReady        22s         6s       6s               15.6s\n",
		"\n4 NodeNotReady     2m50s  ",
		"\n5 PodFailed         open         6s       6s               15.6s\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
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
