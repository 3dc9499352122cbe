package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

// lockstep runs kubectl-lockstep against the cluster, and returns what it prints.
func (s *scenario) lockstep(args ...string) (string, error) {
	s.t.Helper()
	root, err := cluster.RepositoryRoot()
	s.must(err, "find the repository")
	binary := filepath.Join(s.t.TempDir(), "kubectl-lockstep")
	build := exec.CommandContext(s.ctx, "go", "build", "-trimpath", "-o", binary, "./cmd/kubectl-lockstep")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	s.must(err, "build the plugin: "+string(out))
	cmd := exec.CommandContext(s.ctx, binary, append(args, "--kubeconfig", testCluster.Kubeconfig())...)
	out, err = cmd.CombinedOutput()
	return string(out), err
}

func TestTheTimelineOfAJob(t *testing.T) {
	s := newScenario(t, "timeline", 1, 4)
	s.run(s.trainingJob(3))
	failed := s.pod(1).Name
	s.must(testCluster.FailPod(s.ctx, keyOf(s.pod(1)), 1), "fail a pod")
	s.recovered(1)
	out, err := s.lockstep("timeline", s.job.Name, "-n", s.job.Namespace)
	s.must(err, "show the timeline: "+out)
	for _, want := range []string{
		"TrainingJob " + s.job.Namespace + "/" + s.job.Name + ": Running, attempt 1, incidents remembered: 1",
		"PodFailed of pod " + failed, "Recovered", "RestartPod", "the last replacement may be placed", "the last replacement has its node",
		"ETTR 0.", "lost to PodFailed, interruptions: 1",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	out, err = s.lockstep("timeline", "nowhere", "-n", s.job.Namespace)
	if err == nil || !strings.Contains(out, `trainingjobs.lockstep.dev "nowhere" not found`) {
		t.Errorf("of a job that is not there: %v, %s", err, out)
	}
}
