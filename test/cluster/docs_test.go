// The scheduler configuration that users are told to set is the one that everything here is tested on.

package cluster

import (
	"os"
	"strings"
	"testing"
)

func TestDocumentedSchedulerConfiguration(t *testing.T) {
	tested, err := os.ReadFile("scheduler.yaml")
	if err != nil {
		t.Fatal(err)
	}
	documented, err := os.ReadFile("../../docs/operators.md")
	if err != nil {
		t.Fatal(err)
	}
	_, conf, found := strings.Cut(string(tested), "\nactions:")
	if !found || !strings.Contains(string(documented), "```yaml\nactions:"+conf+"```") {
		t.Error("docs/operators.md shows another configuration than scheduler.yaml")
	}
}
