// README.md names each attribute and each stage.

package tracing

import (
	"os"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
)

func TestDocumentedNamesAreThose(t *testing.T) {
	raw, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	names := []string{passName, Observe, Decide, Record, Act}
	for _, key := range []attribute.Key{
		jobName, jobUID, jobQueue, hyperNode, incidentID, incidentTrigger, incidentClass, incidentRule, incidentOutcome, incidentMessage,
		incidentPods, incidentVictims, stepIndex, stepDryRun, checkpointOutcome, checkpointPods, checkpointAnswered,
	} {
		names = append(names, string(key))
	}
	for _, name := range names {
		if !strings.Contains(string(raw), "`"+name+"`") {
			t.Errorf("README.md does not name %s", name)
		}
	}
}
