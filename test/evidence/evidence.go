// Package evidence writes what a named target has seen into a file of the tree, with the commit and the versions that it saw it of.
package evidence

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/readme"
)

// Tested is what a run has tested.
type Tested struct {
	// Target is the command that writes the file again.
	Target string `json:"target"`
	// Commit is that of the working tree. It ends with +dirty where files that git tracks had been changed.
	Commit     string `json:"commit"`
	Go         string `json:"go"`
	Kubernetes string `json:"kubernetes"`
	Volcano    string `json:"volcano"`
	KWOK       string `json:"kwok"`
}

// Of returns what a run tests that writes into some files.
func Of(ctx context.Context, target string, files ...string) (Tested, error) {
	root, err := cluster.RepositoryRoot()
	if err != nil {
		return Tested{}, err
	}
	versions, err := readme.Pinned(ctx, root)
	if err != nil {
		return Tested{}, err
	}
	commit, err := commitOf(ctx, root, files)
	return Tested{
		Target: target, Commit: commit, Go: runtime.Version(),
		Kubernetes: versions.Kubernetes, Volcano: versions.Volcano, KWOK: versions.KWOK,
	}, err
}

// commitOf names the commit of a working tree. What an earlier run has written into the files is no change.
func commitOf(ctx context.Context, root string, files []string) (string, error) {
	commit, err := git(ctx, root, "rev-parse", "HEAD")
	if err != nil {
		return "", err
	}
	status := []string{"status", "--porcelain", "--untracked-files=no", "--", "."}
	for _, file := range files {
		path, err := filepath.Abs(file)
		if err != nil {
			return "", err
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return "", err
		}
		if filepath.IsLocal(relative) {
			status = append(status, ":(exclude)"+filepath.ToSlash(relative))
		}
	}
	changed, err := git(ctx, root, status...)
	if changed != "" {
		commit += "+dirty"
	}
	return commit, err
}

func git(ctx context.Context, root string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", append([]string{"-C", root}, args...)...).Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

// Write writes what was seen into a file, as JSON.
func Write(file string, seen any) error {
	raw, err := json.MarshalIndent(seen, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(raw, '\n'), 0o644)
}
