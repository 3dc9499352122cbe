package main

import (
	"bytes"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/why"
	"github.com/lockstep-dev/lockstep/test/check"
)

func TestWhyAndMapNameWhatIsWrong(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"no name":        {[]string{"why"}, "the name of a TrainingJob is missing"},
		"too many":       {[]string{"why", "llama", "worker-0", "worker-1"}, "accepts at most 2 arg(s), received 3"},
		"two jobs":       {[]string{"map", "llama", "other"}, "accepts at most 1 arg(s), received 2"},
		"no such config": {[]string{"why", "llama", "--kubeconfig", "nowhere"}, "nowhere: no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := lockstep(tc.args...)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestAnswersAreWrapped(t *testing.T) {
	out := &bytes.Buffer{}
	job := &v1alpha1.TrainingJob{ObjectMeta: metav1.ObjectMeta{Namespace: "research", Name: "llama"}, Status: v1alpha1.TrainingJobStatus{State: v1alpha1.StateRunning}}
	printAnswer(out, job, &why.Answer{Facts: []why.Fact{
		{Text: "It is short.", Source: "status"},
		{Text: strings.Repeat("word ", 17) + strings.Repeat("long-", 20) + " end."},
	}})
	check.Equal(t, "output", `TrainingJob research/llama: Running
- It is short. [status]
- word word word word word word word word word word word word word word word
  word word
  long-long-long-long-long-long-long-long-long-long-long-long-long-long-long-long-long-long-long-long-
  end.
`, out.String())
}
