package simulate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/lockstep-dev/lockstep/test/check"
)

const sample = "../../../config/samples/quickstart.yaml"

// simulate runs the command, and returns what it prints.
func simulate(args ...string) (string, error) {
	streams, _, out, _ := genericiooptions.NewTestIOStreams()
	c := New(streams)
	c.SetArgs(args)
	err := c.Execute()
	return out.String(), err
}

const spares = "../../../config/samples/spares.yaml"

func TestSimulatePlaysAJob(t *testing.T) {
	args := []string{"-f", sample, "--compare", spares, "--for", "365d", "--plays", "3", "--sweep", "rules[node-may-return].afterSeconds=10s..60s"}
	out, err := simulate(args...)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"4 pods on 19 nodes for 365d, 3 plays from seed 1.", "                                quickstart             spares whole-job restarts",
		"ETTR                        0.98", "GPU-hours lost", "  steps since a save", "replaced: own node", "spares against quickstart:",
		"A job that is never down, by the published formula: ETTR 0.98", "  Faulty GPU", "rules[node-may-return].afterSeconds, 3 plays of each:",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	again, err := simulate(args...)
	check.Equal(t, "the same seed, the same answer", out, again)
	check.Equal(t, "error", nil, err)
	for line := range strings.SplitSeq(out, "\n") {
		if n := len([]rune(line)); n > 80 {
			t.Errorf("a line of %d columns: %s", n, line)
		}
	}
}

func TestASweepIsDrawn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sweep.svg")
	if _, err := simulate("-f", sample, "--for", "90d", "--plays", "2", "--sweep", "rules[everything-else].steps[1].afterSeconds=60s..5m", "--svg", file); err != nil {
		t.Fatal(err)
	}
	picture, err := os.ReadFile(file)
	check.Equal(t, "error", nil, err)
	for _, want := range []string{"<svg", "afterSeconds [s]", "ETTR", "</svg>"} {
		if !strings.Contains(string(picture), want) {
			t.Errorf("no %q in the picture", want)
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
		"no GPUs":              {[]string{"-f", sample, "--gpus-per-node", "0"}, "--gpus-per-node is 0"},
		"too few GPUs":         {[]string{"-f", sample, "--gpus-per-node", "4"}, "a pod of task worker has 8 GPUs, and a node has 4: see --gpus-per-node"},
		"too few nodes at all": {[]string{"-f", sample, "--nodes", "-3"}, "--nodes is -3"},
		"a topology of others": {[]string{"-f", sample, "--topology", sample}, "has to have HyperNodes and Nodes"},
		"no topology":          {[]string{"-f", sample, "--topology", "nowhere.yaml"}, "--topology: stat nowhere.yaml: no such file"},
		"an unknown scope":     {[]string{"-f", sample, "--failures", file(counted + "- {name: x, failures: 1, effect: NodeLoss, scope: Row, repair: 1h}\n")}, `cause "x" has scope "Row", which is neither Node nor HyperNode`},
		"no slowdown":          {[]string{"-f", sample, "--failures", file(counted + "- {name: x, failures: 1, effect: Degradation, repair: 1h}\n")}, `cause "x" has slowdown 0: a Degradation needs one`},
		"jobs of no incident":  {[]string{"-f", sample, "--failures", sample}, "the jobs remember no incident that tells of a failure"},
		"other objects":        {[]string{"-f", sample, "--failures", file("apiVersion: v1\nkind: Node\nmetadata: {name: node-1}\n")}, "the object is a Node, and has to be a TrainingJob"},
		"counted twice":        {[]string{"-f", sample, "--failures", file(counted + "- {name: x, failures: 1, perThousandNodeDays: 1, effect: ProcessExit}\n")}, `cause "x" has failures and perThousandNodeDays: give one`},
		"lemons":               {[]string{"-f", sample, "--failures", file("lemons: {nodes: 3, failures: 0.5}\n" + counted + "- {name: x, failures: 1, effect: ProcessExit}\n")}, "lemons: 3 of the nodes have 0.5 of the failures"},
		"a picture of nothing": {[]string{"-f", sample, "--svg", "x.svg"}, "--svg is a picture of a sweep, and there is no --sweep"},
		"parts of seconds":     {[]string{"-f", sample, "--sweep", "hold.seconds=1s..2500ms"}, "has to be FIELD=FROM..TO in whole seconds"},
		"steps out of order":   {[]string{"-f", sample, "--sweep", "rules[everything-else].steps[1].afterSeconds=1s..20m"}, "its steps are not in the order of their times"},
		"no rack":              {[]string{"-f", sample, "--nodes-per-rack", "0"}, "--nodes-per-rack is 0"},
		"an unknown model":     {[]string{"-f", sample, "--failures", "gpt"}, `there is no failure model "gpt": the models are b200, llama3, rsc1, rsc2`},
		"an unknown effect":    {[]string{"-f", sample, "--failures", file(counted + "- {name: x, failures: 1, effect: Boom, repair: 1h}\n")}, `cause "x" has effect "Boom", which is none of`},
		"no repair":            {[]string{"-f", sample, "--failures", file(counted + "- {name: x, failures: 1, effect: NodeLoss}\n")}, `cause "x" has effect NodeLoss and needs repair`},
		"no causes":            {[]string{"-f", sample, "--failures", file("source: x\n")}, "causes is empty"},
		"nobody counted":       {[]string{"-f", sample, "--failures", file("causes: [{name: x, failures: 1, effect: ProcessExit}]\n")}, "nodes is 0 and days is 0, and both have to be positive"},
		"a negative time":      {[]string{"-f", sample, "--restore", "-1s"}, "Restore is -1s, and must not be negative"},
		"no checkpoints":       {[]string{"-f", sample, "--checkpoint-interval", "0"}, "CheckpointInterval is 0s, and has to be positive"},
		"no sweep":             {[]string{"-f", sample, "--sweep", "hold.seconds"}, "has to be FIELD=FROM..TO"},
		"a sweep of nothing":   {[]string{"-f", sample, "--sweep", "budget.maxRestarts=1s..2s"}, `there is no field "budget.maxRestarts"`},
		"an argument too many": {[]string{"-f", sample, "more"}, `"more": simulate takes no names; give the job by -f`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := simulate(tc.args...)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestASweepGoesFromOneTimeToTheOther(t *testing.T) {
	field, times, err := parseSweep("rules[r].afterSeconds=10s..10m")
	check.Equal(t, "error", nil, err)
	check.Equal(t, "field", "rules[r].afterSeconds", field)
	check.Equal(t, "times", []time.Duration{
		10 * time.Second, 20 * time.Second, 39 * time.Second, 77 * time.Second, 153 * time.Second, 303 * time.Second, 10 * time.Minute,
	}, times)
	_, times, err = parseSweep("hold.seconds=0s..3s")
	check.Equal(t, "error", nil, err)
	check.Equal(t, "times", []time.Duration{0, time.Second, 2 * time.Second, 3 * time.Second}, times)
}
