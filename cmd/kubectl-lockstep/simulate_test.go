package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/lockstep-dev/lockstep/test/check"
)

const sample = "../../config/samples/quickstart.yaml"

// lockstep runs the command, and returns what it prints.
func lockstep(args ...string) (string, error) {
	streams, _, out, _ := genericiooptions.NewTestIOStreams()
	c := newCommand(streams)
	c.SetArgs(args)
	err := c.Execute()
	return out.String(), err
}

func TestSimulatePlaysAJob(t *testing.T) {
	out, err := lockstep("simulate", "-f", sample, "--compare", "../../config/samples/spares.yaml", "--for", "365d", "--plays", "2")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"4 pods, 365d, 2 plays from seed 1.", "llama", "quickstart.yaml      0.98", "spares.yaml", "whole-job restarts   0.98", "no downtime at all   0.98", "Faulty GPU"} {
		if !strings.Contains(strings.ToLower(out), strings.ToLower(want)) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	again, err := lockstep("simulate", "-f", sample, "--compare", "../../config/samples/spares.yaml", "--for", "365d", "--plays", "2")
	check.Equal(t, "the same seed, the same answer", out, again)
	check.Equal(t, "error", nil, err)
	for line := range strings.SplitSeq(out, "\n") {
		if len(line) > 100 {
			t.Errorf("a line of %d columns: %s", len(line), line)
		}
	}
}

func TestSimulateNamesWhatIsWrong(t *testing.T) {
	file := func(content string) string {
		name := filepath.Join(t.TempDir(), "file.yaml")
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	const counted = "source: ours\nnodes: 10\ndays: 10\ncauses:\n"
	tests := map[string]struct {
		args []string
		want string
	}{
		"no file":              {nil, `required flag(s) "filename" not set`},
		"a file that is not":   {[]string{"-f", "nowhere.yaml"}, "open nowhere.yaml: no such file"},
		"another kind":         {[]string{"-f", file("apiVersion: lockstep.dev/v1alpha1\nkind: NodeHealth\n")}, "the object is a NodeHealth, and has to be a TrainingJob"},
		"a kind of others":     {[]string{"-f", file("apiVersion: batch/v1\nkind: Job\n")}, `no kind "Job" is registered for version "batch/v1"`},
		"an unknown field":     {[]string{"-f", file("apiVersion: lockstep.dev/v1alpha1\nkind: TrainingJob\nspec: {tusks: []}\n")}, `unknown field "spec.tusks"`},
		"no tasks":             {[]string{"-f", file("apiVersion: lockstep.dev/v1alpha1\nkind: TrainingJob\n")}, "spec.tasks is empty"},
		"too few nodes":        {[]string{"-f", sample, "--nodes", "3"}, "the job has 4 pods, spares among them, and the 3 nodes take 3"},
		"no time":              {[]string{"-f", sample, "--for", "soon"}, `--for is "soon", and has to be a time such as 12h or 365d`},
		"no plays":             {[]string{"-f", sample, "--plays", "0"}, "--plays is 0"},
		"no rack":              {[]string{"-f", sample, "--nodes-per-rack", "0"}, "--nodes-per-rack is 0"},
		"an unknown model":     {[]string{"-f", sample, "--failures", "gpt"}, `there is no failure model "gpt": the models are llama3`},
		"an unknown effect":    {[]string{"-f", sample, "--failures", file(counted + "- {name: x, failures: 1, effect: Boom, repair: 1h}\n")}, `cause "x" has effect "Boom", which is none of`},
		"no repair":            {[]string{"-f", sample, "--failures", file(counted + "- {name: x, failures: 1, effect: NodeLoss}\n")}, `cause "x" has effect NodeLoss and needs repair`},
		"nobody counted":       {[]string{"-f", sample, "--failures", file("source: x\n")}, "nodes is 0 and days is 0, and both have to be positive"},
		"a negative time":      {[]string{"-f", sample, "--restore", "-1s"}, "Restore is -1s, and must not be negative"},
		"no checkpoints":       {[]string{"-f", sample, "--checkpoint-interval", "0"}, "CheckpointInterval is 0s, and has to be positive"},
		"no sweep":             {[]string{"-f", sample, "--sweep", "hold.seconds"}, "has to be FIELD=FROM..TO"},
		"a sweep of nothing":   {[]string{"-f", sample, "--sweep", "budget.maxRestarts=1s..2s"}, `there is no field "budget.maxRestarts"`},
		"an argument too many": {[]string{"-f", sample, "more"}, "unknown command \"more\""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := lockstep(append([]string{"simulate"}, tc.args...)...)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// The examples of the help that read files run as they are written, with files of those names.
func TestExamplesOfTheHelpRun(t *testing.T) {
	raw, err := os.ReadFile(sample)
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	counted := "source: ours\nnodes: 10\ndays: 100\ncauses:\n- {name: exit, failures: 10, effect: ProcessExit}\n"
	for name, content := range map[string]string{"llama.yaml": twoIncidents, "job.yaml": string(raw), "other.yaml": string(raw), "counted.yaml": counted} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	streams, _, _, _ := genericiooptions.NewTestIOStreams()
	n := 0
	for _, c := range newCommand(streams).Commands() {
		for line := range strings.SplitSeq(c.Example, "\n") {
			args, ok := strings.CutPrefix(strings.TrimSpace(line), "kubectl lockstep ")
			if !ok || !strings.Contains(args, " -f ") {
				continue // without a file it needs a cluster
			}
			n++
			if _, err := lockstep(strings.Fields(args)...); err != nil {
				t.Errorf("%s: %v", line, err)
			}
		}
	}
	check.Equal(t, "examples", 5, n)
}

func TestASweepGoesFromOneTimeToTheOther(t *testing.T) {
	s, err := parseSweep("rules[r].afterSeconds=10s..10m")
	check.Equal(t, "error", nil, err)
	check.Equal(t, "field", "rules[r].afterSeconds", s.field)
	check.Equal(t, "times", []time.Duration{
		10 * time.Second, 20 * time.Second, 39 * time.Second, 77 * time.Second, 153 * time.Second, 303 * time.Second, 10 * time.Minute,
	}, s.times())
	s, err = parseSweep("hold.seconds=0s..3s")
	check.Equal(t, "error", nil, err)
	check.Equal(t, "times", []time.Duration{0, time.Second, 2 * time.Second, 3 * time.Second}, s.times())
}
