// The plugin of kubectl, as a user has it.

package real

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

// Kubectl runs kubectl as the cluster's administrator, and returns what it prints.
func (g *Ground) Kubectl(ctx context.Context, args ...string) (string, error) {
	built, err := cluster.Build(ctx, io.Discard, cluster.Kubectl)
	if err != nil {
		return "", err
	}
	return output(exec.CommandContext(ctx, built.Path(cluster.Kubectl), append(args, "--kubeconfig", g.Kubeconfig())...))
}

// Plugin builds kubectl-lockstep in the ground's folder, and runs it as Kubectl does.
func (g *Ground) Plugin(ctx context.Context, args ...string) (string, error) {
	built, err := cluster.Build(ctx, io.Discard, cluster.Kubectl)
	if err != nil {
		return "", err
	}
	root, err := cluster.RepositoryRoot()
	if err != nil {
		return "", err
	}
	plugin := filepath.Join(g.dir, "kubectl-lockstep")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", plugin, "./cmd/kubectl-lockstep")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := output(build); err != nil {
		return out, err
	}
	command := exec.CommandContext(ctx, plugin, append(args, "--kubeconfig", g.Kubeconfig())...)
	command.Env = append(os.Environ(), "PATH="+filepath.Dir(built.Path(cluster.Kubectl))+string(os.PathListSeparator)+os.Getenv("PATH"))
	return output(command)
}

// output is what a command prints, which is in its error, too.
func output(command *exec.Cmd) (string, error) {
	out, err := command.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", command, err, out)
	}
	return string(out), err
}
