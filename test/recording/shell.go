package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

// shell runs the commands of a session in a folder with the samples, and with kubectl and its plugin on the PATH.
type shell struct{ dir, kubeconfig string }

func (s *shell) prepare(ctx context.Context) error {
	root, err := cluster.RepositoryRoot()
	if err != nil {
		return err
	}
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", filepath.Join(s.dir, "kubectl-lockstep"), "./cmd/kubectl-lockstep")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the plugin: %w\n%s", err, out)
	}
	built, err := cluster.Build(ctx, os.Stderr, cluster.Kubectl, cluster.Helm)
	if err != nil {
		return err
	}
	return errors.Join(
		os.Symlink(built.Path(cluster.Kubectl), filepath.Join(s.dir, "kubectl")),
		os.Symlink(built.Path(cluster.Helm), filepath.Join(s.dir, "helm")),
		os.Symlink(filepath.Join(root, "charts"), filepath.Join(s.dir, "charts")),
		os.Symlink(filepath.Join(root, "config"), filepath.Join(s.dir, "config")),
		os.WriteFile(filepath.Join(s.dir, "counted.yaml"), []byte(counted), 0o600),
	)
}

// record runs commands, and returns them with what they print.
func (s *shell) record(ctx context.Context, commands []string) (string, error) {
	var page bytes.Buffer
	page.WriteString("```console\n")
	for _, command := range commands {
		hidden, shown := strings.CutPrefix(command, "# ")
		out, err := s.run(ctx, hidden)
		if err != nil {
			return "", fmt.Errorf("%s: %w\n%s", hidden, err, out)
		}
		if !shown {
			fmt.Fprintf(&page, "$ %s\n%s\n", command, out)
			fmt.Printf("$ %s\n%s", command, out)
		}
	}
	page.WriteString("```\n")
	return page.String(), nil
}

func (s *shell) run(ctx context.Context, command string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Minute)
	defer cancel()
	sh := exec.CommandContext(ctx, "sh", "-c", command)
	sh.Dir = s.dir
	sh.Env = append(os.Environ(), "PATH="+s.dir+":"+os.Getenv("PATH"), "KUBECONFIG="+s.kubeconfig)
	out, err := sh.CombinedOutput()
	return string(out), err
}
