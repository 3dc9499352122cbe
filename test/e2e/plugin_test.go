package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

// buildPlugin builds kubectl-lockstep, once for all tests.
var buildPlugin = sync.OnceValues(func() (string, error) {
	root, err := cluster.RepositoryRoot()
	if err != nil {
		return "", err
	}
	binary := filepath.Join(workDir, "kubectl-lockstep")
	build := exec.Command("go", "build", "-trimpath", "-o", binary, "./cmd/kubectl-lockstep")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return binary, nil
})

// lockstep runs kubectl-lockstep against the cluster, and returns what it prints.
func (s *scenario) lockstep(args ...string) (string, error) {
	s.t.Helper()
	return s.lockstepWith(testCluster.Kubeconfig(), args...)
}

// lockstepWith does the same with another kubeconfig.
func (s *scenario) lockstepWith(kubeconfig string, args ...string) (string, error) {
	s.t.Helper()
	binary, err := buildPlugin()
	s.must(err, "build the plugin")
	cmd := exec.CommandContext(s.ctx, binary, append([]string{"--kubeconfig", kubeconfig}, args...)...)
	out, err := cmd.CombinedOutput()
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
