package supervisor

import (
	"testing"

	"github.com/lockstep-dev/lockstep/test/check"
)

// What is expanded here would be by the kubelet, with k8s.io/kubernetes/third_party/forked/golang/expansion.
func TestACommandIsExpanded(t *testing.T) {
	environ := []string{"RANK=3", "EMPTY=", "NESTED=$(RANK)"}
	for word, want := range map[string]string{
		"--rank=$(RANK)": "--rank=3", "$(RANK)$(RANK)": "33", "$(EMPTY)": "", "$(NESTED)": "$(RANK)",
		"$(OTHER)": "$(OTHER)", "$$(RANK)": "$(RANK)", "$$$(RANK)": "$3", "$RANK ${RANK}": "$RANK ${RANK}", "$(RANK": "$(RANK", "$": "$", "$$": "$", "$()": "$()",
	} {
		check.Equal(t, word, []string{want}, expanded([]string{word}, environ))
	}
}
