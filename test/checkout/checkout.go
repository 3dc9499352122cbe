// Package checkout takes the files of an earlier commit from Git, beside the working tree.
package checkout

import (
	"context"
	"fmt"
	"os/exec"
)

// Files writes the files of a commit of the repository at root into a folder, which has to exist. The error has what Git said.
func Files(ctx context.Context, root, commit, folder string) error {
	unpack := exec.CommandContext(ctx, "bash", "-c", `set -o pipefail; git archive "$1" | tar -x -C "$2"`, "bash", commit, folder)
	unpack.Dir = root
	if out, err := unpack.CombinedOutput(); err != nil {
		return fmt.Errorf("take the files of %s from Git: %w\n%s", commit, err, out)
	}
	return nil
}
