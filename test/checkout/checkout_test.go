package checkout

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestFiles(t *testing.T) {
	root, folder := t.TempDir(), t.TempDir()
	script := `git init -q . && git config user.name a && git config user.email a@example.com &&
		echo one > f && git add f && git commit -qm one && echo two > f`
	command := exec.Command("bash", "-c", script)
	command.Dir = root
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("make a repository: %v\n%s", err, out)
	}
	if err := Files(t.Context(), root, "HEAD", folder); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(folder, "f")); err != nil || string(got) != "one\n" {
		t.Errorf("the file of the commit is %q, %v", got, err)
	}
	if err := Files(t.Context(), root, "nowhere", folder); err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("the error about a commit that is not there: %v", err)
	}
}
