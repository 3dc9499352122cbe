package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
	"github.com/lockstep-dev/lockstep/test/check"
	"github.com/lockstep-dev/lockstep/version"
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

// The examples of the help that need no cluster run as they are written, with files of the names in them.
func TestExamplesOfTheHelpRun(t *testing.T) {
	raw, err := os.ReadFile(sample)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{
		"llama.yaml": string(raw) + incidents, "job.yaml": string(raw), "other.yaml": string(raw), "cluster.yaml": aRack,
		"jobs.yaml":    string(raw) + incidents + "  placement: {hyperNode: rack, tier: 1, tasks: [{name: worker, nodes: [n1, n2, n3, n4]}]}\n",
		"counted.yaml": "source: ours\nnodes: 10\ndays: 100\ncauses:\n- {name: exit, failures: 10, effect: ProcessExit}\n",
	}
	for name, file := range map[string]string{
		"pytorchjob.yaml": "pytorchjob/simple.yaml", "trainjob.yaml": "trainjob/01-multi-node.yaml", "runtime.yaml": "runtimes/torch-distributed.yaml",
	} {
		manifest, err := os.ReadFile(filepath.Join("adopt", "testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		files[name] = string(manifest)
	}
	t.Chdir(t.TempDir())
	for name, content := range files {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	streams, _, _, _ := genericiooptions.NewTestIOStreams()
	n := 0
	for _, c := range verbs(newCommand(streams)) {
		for line := range strings.SplitSeq(strings.NewReplacer("\\\n", "", "'", "").Replace(c.Example), "\n") {
			args, ok := strings.CutPrefix(strings.TrimSpace(line), "kubectl lockstep ")
			args, _, _ = strings.Cut(args, " > ")
			alone := strings.Contains(args, " -f ") || (c.Name() == "submit" && strings.Contains(args, "--dry-run=client"))
			if !ok || !alone {
				continue // without a file it needs a cluster
			}
			n++
			if _, err := lockstep(strings.Fields(args)...); err != nil {
				t.Errorf("%s: %v", line, err)
			}
		}
	}
	check.Equal(t, "examples", 15, n)
}

// incidents are those of the job of the sample.
const incidents = `
status:
  incidents:
  - id: 1
    trigger: PodFailed
    class: User
    pods: [{name: llama-1-worker-1, task: worker, index: 1}]
    startTime: "2026-01-02T03:04:07.000000Z"
    endTime: "2026-01-02T03:04:27.000000Z"
    outcome: Recovered
`

// aRack is what kubectl get hypernodes,nodes -o yaml prints of five nodes in a rack.
const aRack = `apiVersion: v1
kind: List
items:
- apiVersion: topology.volcano.sh/v1alpha1
  kind: HyperNode
  metadata: {name: rack}
  spec: {tier: 1, members: [{type: Node, selector: {regexMatch: {pattern: "^n[0-9]$"}}}]}
- {apiVersion: v1, kind: Node, metadata: {name: n1}}
- {apiVersion: v1, kind: Node, metadata: {name: n2}}
- {apiVersion: v1, kind: Node, metadata: {name: n3}}
- {apiVersion: v1, kind: Node, metadata: {name: n4}}
- {apiVersion: v1, kind: Node, metadata: {name: n5}}
`

// verbs are all verbs, and those below them.
func verbs(c *cobra.Command) []*cobra.Command {
	var out []*cobra.Command
	for _, below := range c.Commands() {
		out = append(append(out, below), verbs(below)...)
	}
	return out
}

// Help is read in a terminal of 80 columns. The flags of a verb are its own: those of the connection are listed once.
func TestTheHelpFitsIntoATerminal(t *testing.T) {
	shown := [][]string{{"--help"}, {"options"}}
	streams, _, _, _ := genericiooptions.NewTestIOStreams()
	for _, c := range verbs(newCommand(streams)) {
		shown = append(shown, append(strings.Fields(c.CommandPath())[2:], "--help"))
	}
	for _, args := range shown {
		out, err := lockstep(args...)
		check.Equal(t, "error", nil, err)
		for line := range strings.SplitSeq(out, "\n") {
			if n := len([]rune(line)); n > lines.Width && len(strings.Fields(line)) > 1 {
				t.Errorf("%v: a line of %d columns: %s", args, n, line)
			}
		}
		if lists := strings.Contains(out, "--kubeconfig string"); lists != (args[0] == "options" && len(args) == 1) {
			t.Errorf("%v: the flags of the connection are listed: %v\n%s", args, lists, out)
		}
	}
}

func TestTheHelpOfAVerb(t *testing.T) {
	out, err := lockstep("map", "--help")
	check.Equal(t, "error", nil, err)
	_, flags, _ := strings.Cut(out, "\nFlags:\n")
	check.Equal(t, "flags", `      --all                     show every HyperNode with every node,
                                however many there are
  -h, --help                    help for map
  -o, --output json|yaml|wide   print for other programs, or all columns
                                and uncut lines; default: text

Use "kubectl lockstep options" for the flags of all verbs, such as --namespace.
`, flags)
}

func TestWordsThatPeopleTry(t *testing.T) {
	for word, verb := range map[string]string{"get": "list", "status": "describe\n\tstacks", "explain": "why", "dscribe": "describe"} {
		_, err := lockstep(word, "llama", "--force")
		want := `unknown command "` + word + `" for "kubectl lockstep"` + "\n\nDid you mean this?\n\t" + verb + "\n"
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	out, err := lockstep("version")
	check.Equal(t, "error", nil, err)
	check.Equal(t, "version", "kubectl lockstep "+version.String()+"\n", out)
}
