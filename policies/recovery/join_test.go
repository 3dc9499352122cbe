package recovery

import (
	"testing"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/rules"
	"github.com/lockstep-dev/lockstep/test/check"
)

// A rank whose incident the breaker holds back is noted again in each decision about its waiting.
func TestAPodIsNamedOnce(t *testing.T) {
	inc := &v1alpha1.Incident{}
	for _, uid := range []string{"a", "b"} {
		join(inc, rules.Failure{Rank: gang.Rank{Task: "worker", Index: 1}, Pod: "llm-1-worker-1", UID: uid})
	}
	check.Equal(t, "count", int32(1), inc.PodCount)
	check.Equal(t, "pods", []v1alpha1.IncidentPod{{Name: "llm-1-worker-1", UID: "b", Task: "worker", Index: 1}}, inc.Pods)
}
