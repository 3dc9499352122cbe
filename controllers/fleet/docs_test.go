// What README.md says of settings, samples and metrics is so.

package fleet

import (
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/yaml"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/check"
)

func readFile(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestDocumentedSampleIsTheSample(t *testing.T) {
	_, after, _ := strings.Cut(readFile(t, "README.md"), "```yaml\n")
	block, _, closed := strings.Cut(after, "```")
	sample := readFile(t, "../../config/samples/healthpolicy.yaml")
	var got, want v1alpha1.HealthPolicySpec
	var whole v1alpha1.HealthPolicy
	if err := yaml.UnmarshalStrict([]byte(block), &got); err != nil || !closed {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict([]byte(sample), &whole); err != nil {
		t.Fatal(err)
	}
	want.NodeConditions = whole.Spec.NodeConditions
	check.Equal(t, "the example in README.md", want, got)
}

func TestDocumentedMetricsAreThose(t *testing.T) {
	page := readFile(t, "README.md")
	for _, c := range []prometheus.Collector{nodeStates, quarantinedNodes, lemonNodes, quarantines, heldBackNodes, breakersOpen} {
		descriptions := make(chan *prometheus.Desc, 1)
		c.Describe(descriptions)
		_, name, _ := strings.Cut((<-descriptions).String(), `fqName: "`)
		name, _, _ = strings.Cut(name, `"`)
		if !strings.Contains(page, "| `"+name+"` |") {
			t.Errorf("README.md does not name %s", name)
		}
	}
}

// Everything that a policy can say is in the page's table.
func TestDocumentedSettingsAreThose(t *testing.T) {
	page := readFile(t, "README.md")
	for _, field := range []string{
		"quarantine.enabled", "quarantine.wellSeconds", "quarantine.lemon.failures", "quarantine.lemon.windowSeconds",
		"breaker.cluster", "breaker.hyperNode", "breaker.job", "breaker.acknowledgedTime", "silentAfterSeconds", "nodeConditions",
	} {
		if !strings.Contains(page, "| `"+field+"` |") {
			t.Errorf("README.md does not name %s", field)
		}
	}
}
