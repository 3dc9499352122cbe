// Every word of the API that Kubernetes checks is one that Kubernetes accepts.

package v1alpha1

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

// words are the constants of a file, so that no list has to be kept.
func words(t *testing.T, file string) map[string]string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		if lit, ok := spec.Values[0].(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if found[spec.Names[0].Name], err = strconv.Unquote(lit.Value); err != nil {
				t.Fatal(err)
			}
		}
		return true
	})
	return found
}

// conditionReason is what metav1.Condition demands of a reason.
var conditionReason = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)

func TestVocabularyIsValid(t *testing.T) {
	values := map[string]string{}
	for name, word := range words(t, "vocabulary.go") {
		var wrong []string
		switch {
		case strings.HasSuffix(name, "TaintPrefix"):
			wrong = validation.IsQualifiedName(word + "a-job")
		case strings.HasSuffix(name, "Suffix"):
			wrong = validation.IsDNS1123Label("task" + word)
		case strings.HasPrefix(name, "Label"), strings.HasPrefix(name, "Annotation"), strings.HasSuffix(name, "Gate"), strings.HasPrefix(name, "Taint"), name == "DryRun":
			wrong = validation.IsQualifiedName(word)
		case strings.HasPrefix(name, "Reason") && !conditionReason.MatchString(word):
			wrong = []string{"not a reason of a condition"}
		case strings.HasPrefix(name, "Condition"):
			wrong = validation.IsQualifiedName(word)
		default:
			wrong = validation.IsValidLabelValue(word) // values of labels and taints
		}
		if len(wrong) > 0 {
			t.Errorf("%s %q: %s", name, word, strings.Join(wrong, "; "))
		}
		if other, ok := values[word]; ok {
			t.Errorf("%s and %s are both %q", name, other, word)
		}
		values[word] = name
	}
	if len(values) < 20 {
		t.Errorf("found only %d words", len(values))
	}
}

// A pod template must not tolerate the taints by which Lockstep keeps pods from nodes. One that tolerates every taint is common.
func TestReservedTaintsAreRefused(t *testing.T) {
	server := newAPIServer(t)
	refused := 0
	for name, word := range words(t, "vocabulary.go") {
		if name == "HoldTaintPrefix" {
			word += "llm-0123abcd"
		} else if !strings.HasPrefix(name, "Taint") {
			continue
		}
		refused++
		for _, operator := range []string{"Exists", "Equal"} {
			doc := set{"spec.tasks[0].template.spec.tolerations": "[{key: gpu, operator: Exists}, {key: " + word + ", operator: " + operator + "}]"}.apply(t, minimal)
			wantError(t, server.Create(server.prepare(t, doc)), "spec.tasks[0].template.spec.tolerations", "must not name the taints")
		}
	}
	if refused != 3 {
		t.Errorf("%d kinds of taints are refused, and there are 3", refused)
	}
	for _, toleration := range []string{"operator: Exists", "key: gpu, operator: Exists", "key: lockstep.dev/quarantine-of-ours, operator: Exists"} {
		doc := set{"spec.tasks[0].template.spec.tolerations": "[{" + toleration + "}]"}.apply(t, minimal)
		if errs := server.Create(server.prepare(t, doc)); len(errs) > 0 {
			t.Errorf("%s: %v", toleration, errs)
		}
	}
}

// A pod template must not set what Lockstep sets on its pods; the rules that say so
// name the keys one by one, because a rule over every label would cost too much.
func TestReservedKeysAreRefused(t *testing.T) {
	server := newAPIServer(t)
	for name, word := range words(t, "vocabulary.go") {
		kind := ""
		switch {
		case strings.HasPrefix(name, "Label"):
			kind = "labels"
		case strings.HasPrefix(name, "Annotation"):
			kind = "annotations"
		default:
			continue
		}
		doc := set{"spec.tasks[0].template.metadata": "{" + kind + ": {" + word + ": x}}"}.apply(t, minimal)
		wantError(t, server.Create(server.prepare(t, doc)), "spec.tasks[0].template.metadata."+kind, word+" is reserved")
	}
}
