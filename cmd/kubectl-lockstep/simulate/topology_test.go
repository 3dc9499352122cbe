package simulate

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// aRack is a rack of nodes n0, n1 and so on with some GPUs each; none for -1, where the Node does not say.
func aRack(members string, gpus ...int) string {
	out := "apiVersion: v1\nkind: List\nitems:\n- apiVersion: topology.volcano.sh/v1alpha1\n  kind: HyperNode\n  metadata: {name: rack}\n" +
		"  spec: {tier: 1, members: [" + members + "]}\n"
	for i, n := range gpus {
		status := ""
		if n >= 0 {
			status = fmt.Sprintf(`, status: {allocatable: {nvidia.com/gpu: "%d"}, capacity: {nvidia.com/gpu: "16"}}`, n)
		}
		out += fmt.Sprintf("- {apiVersion: v1, kind: Node, metadata: {name: n%d}%s}\n", i, status)
	}
	return out
}

const everyNode = `{type: Node, selector: {regexMatch: {pattern: "^n"}}}`

func TestTheGPUsOfNodesCount(t *testing.T) {
	topology := func(members string, gpus ...int) []string {
		return []string{"-f", sample, "--topology", fileOf(t, aRack(members, gpus...))}
	}
	checkMistakes(t, map[string]mistake{
		"too few on each":   {topology(everyNode, 4, 4, 4, 4, 0), "quickstart: a pod has 8 GPUs, and no node has as many"},
		"too few nodes":     {topology(everyNode, 8, 8, 8, 7), "the job needs 4 pods at once, and a HyperNode of tier 2 or lower, as its networkTopology asks for, takes 3 at most"},
		"GPUs twice":        {append(topology(everyNode, 8, 8, 8, 8), "--gpus-per-node", "4"), "say how many GPUs they have: leave --gpus-per-node out"},
		"GPUs that are not": {append(topology(everyNode, -1, -1, -1, -1), "--gpus-per-node", "4"), "a pod has 8 GPUs, and no node has as many: see --gpus-per-node"},
		"no file":           {[]string{"-f", sample, "--topology", "nowhere.yaml"}, "--topology nowhere.yaml: open nowhere.yaml: no such file"},
		"other objects":     {[]string{"-f", sample, "--topology", sample}, "it has to have HyperNodes and Nodes"},
		"a type":            {[]string{"-f", sample, "--topology", fileOf(t, strings.Replace(aRack(everyNode, 8), "tier: 1", "tier: one", 1))}, "HyperNode rack: json: cannot unmarshal string into Go struct field HyperNodeSpec.spec.tier of type int"},
	})
}

func TestNodesTakeAsManyPodsAsTheyHaveGPUsFor(t *testing.T) {
	out, warnings := play(t, aRack(everyNode, 16, 0, 8, 8, -1))
	if !strings.HasPrefix(out, "4 pods on 3 nodes for 1d") {
		t.Error(out)
	}
	if want := "2 nodes with too few GPUs for a pod of any job left out, such as n1\n"; !strings.HasSuffix(warnings, want) {
		t.Errorf("got %q, want %q", warnings, want)
	}
}

// play plays a day of the sample in a topology, and returns what is printed, and the warnings.
func play(t *testing.T, topology string) (out, warnings string) {
	t.Helper()
	streams, _, stdout, stderr := genericiooptions.NewTestIOStreams()
	c := New(streams)
	c.SetArgs([]string{"-f", sample, "--for", "1d", "--plays", "1", "--topology", fileOf(t, topology)})
	if err := c.Execute(); err != nil {
		t.Fatal(err)
	}
	return stdout.String(), stderr.String()
}

// A job without a networkTopology may run in HyperNodes that no other one has in common.
func TestSuggestionsWithoutACommonHyperNode(t *testing.T) {
	racks := "apiVersion: v1\nkind: List\nitems:\n"
	for _, rack := range []string{"a", "b"} {
		racks += "- {apiVersion: topology.volcano.sh/v1alpha1, kind: HyperNode, metadata: {name: " + rack + "}, " +
			"spec: {tier: 1, members: [{type: Node, selector: {regexMatch: {pattern: ^" + rack + "}}}]}}\n"
		for i := range 3 {
			racks += fmt.Sprintf("- {apiVersion: v1, kind: Node, metadata: {name: %s%d}, status: {allocatable: {nvidia.com/gpu: 8}, capacity: {nvidia.com/gpu: 8}}}\n", rack, i)
		}
	}
	file := fileOf(t, job+`spec: {tasks: [{name: worker, replicas: 4, template: {spec: {containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 8}}}]}}}]}
`)
	out, err := simulate("-f", file, "--for", "10d", "--plays", "2", "--topology", fileOf(t, racks), "--suggest")
	if _, spares, _ := strings.Cut(out, "\nSearching better spares "); err != nil || !strings.Contains(spares, "No other value makes a difference") {
		t.Errorf("%v:\n%s", err, out)
	}
}
