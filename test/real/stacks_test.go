// Stacks of a gang that hangs: on request, and in the logs after it has been restarted.

package real

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

// stacks is what kubectl lockstep stacks prints.
func (s *scenario) stacks() string {
	s.t.Helper()
	built, err := cluster.Build(s.ctx, io.Discard, cluster.Kubectl)
	s.must(err)
	root, err := cluster.RepositoryRoot()
	s.must(err)
	plugin := filepath.Join(s.t.TempDir(), "kubectl-lockstep")
	build := exec.CommandContext(s.ctx, "go", "build", "-trimpath", "-o", plugin, "./cmd/kubectl-lockstep")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		s.t.Fatalf("%v: %s", err, out)
	}
	command := exec.CommandContext(s.ctx, plugin, "stacks", s.Job.Name, "-n", s.Job.Namespace, "--kubeconfig", ground.Kubeconfig())
	command.Env = append(os.Environ(), "PATH="+filepath.Dir(built.Path(cluster.Kubectl))+string(os.PathListSeparator)+os.Getenv("PATH"))
	out, err := command.CombinedOutput()
	if err != nil {
		s.t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// isAlone checks that one rank is where no other is, by what the plugin prints.
func (s *scenario) isAlone(shown, rank, where string) {
	s.t.Helper()
	alone := regexp.MustCompile(`(?m)^1 rank, ` + rank + `:\n((  .*)?\n)*?  .* in ` + where + `\n`)
	if !alone.MatchString(shown) || strings.Count(shown, " in "+where+"\n") != 1 {
		s.errorf("%s is not shown alone in %s", rank, where)
	}
}

// keptStacks checks what the log of a rank has from before its program was stopped.
func (s *scenario) keptStacks(rank int, what string) {
	s.t.Helper()
	log, err := s.Log(s.ctx, s.pods()[rank], 2000)
	s.must(err)
	_, after, found := strings.Cut(log, "The gang hangs: ")
	if !found || !strings.Contains(after, what) {
		s.errorf("the log of rank %d has no %q of before the restart", rank, what)
	}
}
