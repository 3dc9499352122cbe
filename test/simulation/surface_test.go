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
	"Answer", "AnswerKey", "Ask", "AskedPod", "Binding", "Bindings", "ContainerFailure", "Decide", "Decision", "Failure", "Lift",
	"Node", "Observation", "Plan", "PlanFor", "Pod", "PodDeletion", "PodGroup", "Signal", "Size", "StartProblem",
	"Target", "Toleration", "VolcanoJob", "YoungerHold",
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
				switch x, _ := s.X.(*ast.Ident); {
				case x == nil:
				case x.Name == "policies":
					used[s.Sel.Name] = true
				case x.Name == "topology":
					used["topology."+s.Sel.Name] = true
				}
			}
			return true
		})
	}
	if diff := cmp.Diff(surface, slices.Sorted(maps.Keys(used))); diff != "" {
		t.Errorf("what the simulation uses of policies (-want +got):\n%s", diff)
	}
}
