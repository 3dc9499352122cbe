package simulation

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// surface is all that the simulation may know of the engine: what it observes, decides and plans.
var surface = []string{
	"gang.Answer", "gang.AnswerKey", "gang.Checkpoints", "gang.ContainerFailure", "gang.Failure", "gang.HoldLimits", "gang.Node", "gang.Observation", "gang.Pod", "gang.PodGroup", "gang.Process", "gang.ProcessFailed", "gang.ProcessState",
	"gang.Signal", "gang.Size", "gang.StartProblem", "gang.VolcanoJob", "gang.YoungerHold",
	"placement.Target", "placement.Toleration",
	"policies.Ask", "policies.AskedPod", "policies.Binding", "policies.Bindings", "policies.Decide", "policies.Decision", "policies.Lift", "policies.Order",
	"policies.Plan", "policies.PlanFor", "policies.PodDeletion", "policies.Refresh", "policies.RefreshBegin",
	"topology.HyperNode", "topology.New", "topology.Topology",
}

// The judge calls no helper of the engine that it judges.
func TestTheEngineIsABlackBox(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && slices.Contains([]string{"policies", "gang", "placement", "topology"}, x.Name) {
					used[x.Name+"."+s.Sel.Name] = true
				}
			}
			return true
		})
	}
	if diff := cmp.Diff(surface, slices.Sorted(maps.Keys(used))); diff != "" {
		t.Errorf("what the simulation uses of policies (-want +got):\n%s", diff)
	}
}
