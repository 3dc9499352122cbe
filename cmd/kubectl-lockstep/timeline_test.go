package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/test/check"
)

const twoIncidents = `apiVersion: lockstep.dev/v1alpha1
kind: TrainingJob
metadata: {name: llama, namespace: research}
spec: {queue: default, tasks: []}
status:
  state: Running
  attempt: 1
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
    placedTime: "2026-01-02T04:01:31.000000Z"
    endTime: "2026-01-02T04:02:00.000000Z"
    steps: [{action: RestartPod, index: 0, time: "2026-01-02T04:01:30.000000Z"}]
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
	check.Equal(t, "output", `TrainingJob research/llama: Running, attempt 1, 2 incidents remembered

incident 1, PodNotReady of pod llama-1-worker-1, container trainer exited with 1: Recovered
  2026-01-02 03:04:05       -2s  the program ended
  2026-01-02 03:04:07        0s  seen
  2026-01-02 03:04:27       20s  over
  .==========
  detect 2s, in place 20s

incident 2, NodeNotReady of pod llama-1-worker-2 on node gpu-2: RestartPod: Recovered
  2026-01-02 04:00:00        0s  seen
  2026-01-02 04:01:30     1m30s  RestartPod
  2026-01-02 04:01:31     1m31s  the last replacement may be placed
  2026-01-02 04:02:00      2m0s  over
`+"  "+strings.Repeat("-", 45)+"#"+strings.Repeat("=", 14)+`
  wait 1m30s, replace 1s, start 29s
`, out)
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
