// The default that docs/policies.md writes out is the default.

package policies

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// page is the users' page about restart policies.
const page = "../docs/policies.md"

func TestDocumentedDefault(t *testing.T) {
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(raw), "```yaml\n")
	block, _, closed := strings.Cut(after, "```")
	if !found || !closed {
		t.Fatal("the page has no yaml block")
	}
	documented := v1alpha1.RestartPolicy{}
	if err := yaml.UnmarshalStrict([]byte(block), &documented); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(rules.DefaultRules(false), documented.Rules); diff != "" {
		t.Errorf("rules (-code +page):\n%s", diff)
	}
	job := &v1alpha1.TrainingJob{}
	byDefault := *rules.Policies(job)[""]
	job.Spec.RestartPolicy = &documented
	if diff := cmp.Diff(byDefault, *rules.Policies(job)[""], cmp.AllowUnexported(rules.Policy{}), cmp.Comparer(func(a, b time.Duration) bool { return a == b })); diff != "" {
		t.Errorf("figures (-code +page):\n%s", diff)
	}
}

// Each worked example of the page is a part of the sample that it names, to the letter.
func TestWorkedExamples(t *testing.T) {
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	examples := strings.Split(string(raw), "\n### ")[1:]
	for _, example := range examples {
		_, link, _ := strings.Cut(example, "](")
		file, _, _ := strings.Cut(link, ")")
		_, after, _ := strings.Cut(example, "```yaml\n")
		block, _, closed := strings.Cut(after, "```")
		sample, err := os.ReadFile(file)
		if err != nil || !closed || block == "" || !strings.Contains(string(sample), block) {
			t.Errorf("example %.40q is not in %s: %v", example, file, err)
		}
	}
	if len(examples) != 8 {
		t.Errorf("%d worked examples, want 8", len(examples))
	}
}

// The rule of jobs with a supervisor stands in a block of its own.
func TestDocumentedDefaultWithASupervisor(t *testing.T) {
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(raw), "```yaml\n- name: program-fails")
	block, _, closed := strings.Cut("- name: program-fails"+after, "```")
	if !found || !closed {
		t.Fatal("the page has no block of the rule program-fails")
	}
	var documented []v1alpha1.Rule
	if err := yaml.UnmarshalStrict([]byte(block), &documented); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(rules.DefaultRules(true)[:1], documented); diff != "" {
		t.Errorf("rules (-code +page):\n%s", diff)
	}
}
