// The torchrun commands of pages and samples, as they stand there.

package torchrun

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

const (
	root = "../../.."
	// python is the one that has Debian's torch.
	python = "/usr/bin/python3"
	// parse has torch read the arguments of each command, up to what it would start.
	parse = `
import json, sys
from torch.distributed.run import parse_args, config_from_args
for place, args in json.loads(sys.argv[1]).items():
    print(place, args, flush=True)
    config_from_args(parse_args(args))
`
)

// inPods fills in what Kubernetes does.
var inPods = strings.NewReplacer("$(WORLD_SIZE)", "4", "$(RANK)", "1", "$(MASTER_ADDR)", "llama-1-master-0.llama-1", "$(MASTER_PORT)", "23456",
	"$(LOCKSTEP_JOB)", "llama")

// Versions of torch before 2 know only the spelling with underscores, and later ones know both.
func TestFlagsAreSpelledForAllVersions(t *testing.T) {
	for place, args := range documented(t) {
		for _, arg := range args {
			if flag, _, _ := strings.Cut(arg, "="); strings.HasPrefix(flag, "--") && strings.Contains(flag[2:], "-") {
				t.Errorf("%s: torch 1.13 refuses %s", place, flag)
			}
		}
	}
}

// `make test-real` runs it with a real torch.
func TestTorchTakesTheDocumentedCommands(t *testing.T) {
	if err := exec.CommandContext(t.Context(), python, "-c", "import torch").Run(); err != nil {
		t.Skipf("%s has no torch: make test-real installs it", python)
	}
	commands, err := json.Marshal(documented(t))
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), python, "-c", parse, string(commands)).CombinedOutput(); err != nil {
		t.Errorf("%v, at the last of\n%s", err, out)
	}
}

// documented are the arguments of torchrun's commands, by where they stand.
func documented(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for _, page := range []string{"README.md", "config/first-week.md"} {
		found[page] = ofPage(t, page)
	}
	err := filepath.WalkDir(filepath.Join(root, "config", "samples"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		if args := ofSample(t, path); args != nil {
			found[path] = args
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if samples := len(found) - 2; samples < 3 {
		t.Errorf("%d samples with torchrun are found, and there are more", samples)
	}
	return found
}

// ofPage are the arguments of the first command of a page.
func ofPage(t *testing.T, page string) []string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	_, command, found := strings.Cut(strings.ReplaceAll(string(raw), "\\\n", " "), " torchrun --")
	if !found {
		t.Fatalf("%s has no torchrun command", page)
	}
	command, _, _ = strings.Cut("--"+command, "\n")
	return strings.Fields(inPods.Replace(strings.ReplaceAll(command, "'", "")))
}

// ofSample are the arguments of the first container of a TrainingJob; nil where that runs something else.
func ofSample(t *testing.T, path string) []string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	job := &v1alpha1.TrainingJob{}
	if err := yaml.Unmarshal(raw, job); err != nil || len(job.Spec.Tasks) == 0 {
		return nil // another kind
	}
	command := job.Spec.Tasks[0].Template.Spec.Containers[0].Command
	if len(command) == 0 || command[0] != "torchrun" {
		return nil
	}
	var args []string
	for _, arg := range command[1:] {
		args = append(args, inPods.Replace(arg))
	}
	return args
}
