// The verbs of kubectl lockstep that show a job on one page, and all jobs as they are now.

package e2e

import (
	"bytes"
	"os/exec"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// No other test may run beside: the roles of users are made for it.
func TestAJobIsDescribed(t *testing.T) {
	s := newScenarioAlone(t, "described", 1, 4)
	s.run(s.trainingJob(3))
	user := s.userWith("lockstep-explain")
	home := s.pool.Rack(0)
	s.says(user, []string{"describe", s.job.Name},
		"TrainingJob default/described: Running", "3/3 pods are ready, in attempt 1.", "The job follows the default restart policy:",
		"Home is HyperNode "+home+" of tier 1", "Ranks in "+home+" (3):", "20 charged restarts in 24h", "reason PodsReady")
	lost := s.pod(1).Spec.NodeName
	s.must(testCluster.DeleteNode(s.ctx, lost), "delete a node")
	s.recovered(1)
	s.eventSays(corev1.EventTypeNormal, "IncidentRecovered")
	s.eventSays(corev1.EventTypeNormal, "Moved")
	s.says(user, []string{"describe", "tj/" + s.job.Name},
		"Incident 1 has been Recovered since", ": NodeGone of pod", "on node "+lost, "Steps taken: RestartPod at", "keeps away from node "+lost,
		"It was restarted 1 time: 1 of pods", "lost to NodeGone", "IncidentRecovered, told by", "worker-1 from node "+lost+" to node "+s.pod(1).Spec.NodeName)
	s.refuses(user, []string{"describe", "nowhere"}, `trainingjobs.lockstep.dev "nowhere" not found in namespace default`)
}

// A script gives the screen a terminal.
func TestTopInATerminal(t *testing.T) {
	s := newScenarioAlone(t, "terminal", 1, 4)
	s.run(s.trainingJob(3))
	user := s.userWith("lockstep-explain")
	s.says(user, []string{"top"}, "Jobs: 1 (1 Running), GPUs in use: 24.", "terminal Running 3/3 24 1.0000")
	s.says(user, []string{"top", "terminal", "--once"}, "TrainingJob default/terminal: Running, attempt 1")
	s.says(user, []string{"top", "nodes"}, s.pool.Rack(0)+" 4 1 3", "GPUs in use: 24 of 32.")
	if _, err := exec.LookPath("script"); err != nil {
		t.Skip("there is no program script, of util-linux, to make a terminal")
	}
	for _, what := range []string{"", "terminal", "nodes"} {
		out := s.inATerminal(user, "top", what)
		if !strings.Contains(out, "\x1b[?1049l") || !strings.Contains(out, "GPUs in use: 24") {
			t.Errorf("top %s: %q", what, out)
		}
	}
}

// inATerminal runs kubectl lockstep in a terminal of its own, where somebody presses q, and returns what it writes there.
func (s *scenario) inATerminal(kubeconfig string, args ...string) string {
	s.t.Helper()
	binary, err := buildPlugin()
	s.must(err, "build the plugin")
	line := strings.Join(append([]string{binary, "--kubeconfig", kubeconfig, "-n", namespace, "--interval=100ms"}, args...), " ")
	c := exec.CommandContext(s.ctx, "script", "--quiet", "--return", "--command", line, "/dev/null")
	keys, err := c.StdinPipe()
	s.must(err, "make a pipe")
	var out syncBuffer
	c.Stdout, c.Stderr = &out, &out
	s.must(c.Start(), "start a terminal")
	s.awaitAny("the screen is drawn", func(ctxT) (bool, error) { return strings.Contains(out.String(), "GPUs in use"), nil })
	_, err = keys.Write([]byte("q"))
	s.must(err, "press q")
	s.must(c.Wait(), "end it: "+out.String())
	return out.String()
}

// syncBuffer is what a program has written until now.
type syncBuffer struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.String()
}
