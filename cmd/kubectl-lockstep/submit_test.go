package main

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/test/check"
)

func TestSubmit(t *testing.T) {
	t.Setenv("KUBECONFIG", "/dev/null")
	image := []string{"--image", "registry.example/llama:1"}
	with := func(args ...string) []string { return append(args, append(image, "--", "train", "--lr=1")...) }
	for name, tc := range map[string]struct {
		args   []string
		answer any
		says   string // the first line
		sent   string // how the request begins
		err    string
	}{
		"created": {with("llama"), jobIn("default", "llama", ""), "trainingjob.lockstep.dev/llama created", "POST " + theJobs + "?fieldManager=kubectl-lockstep {", ""},
		"server dry run": {with("llama", "--dry-run=server"), jobIn("default", "llama", ""), "trainingjob.lockstep.dev/llama created (server dry run)",
			"POST " + theJobs + "?dryRun=All&fieldManager=kubectl-lockstep {", ""},
		"client dry run": {with("llama", "--dry-run=client"), nil, "trainingjob.lockstep.dev/llama created (dry run)", "", ""},
		"as YAML":        {with("llama", "--dry-run=client", "-o", "yaml"), nil, "apiVersion: lockstep.dev/v1alpha1", "", ""},
		"there is one": {with("llama"), refusal(409, metav1.StatusReasonAlreadyExists, `trainingjobs "llama" already exists`), "", "POST ",
			`trainingjobs "llama" already exists in namespace default: give another name, or delete that one with ` + "`kubectl delete trainingjob llama`"},
		"no right": {with("llama"), refusal(403, metav1.StatusReasonForbidden, "trainingjobs is forbidden"), "", "POST ",
			"trainingjobs is forbidden. The ClusterRole edit has all rights that this verb needs: ask an administrator to bind it to you"},
		"refused before": {with("7b"), nil, "", "", "TrainingJob 7b is refused: metadata: Invalid value: metadata.name becomes part of a Service's name: it has to start with a letter and must not hold dots"},
		"a bad tier":     {with("llama", "--tier=-1"), nil, "", "", "TrainingJob llama is refused: --tier: Invalid value: -1: --tier in body should be greater than or equal to 0"},
		"no tier":        {with("llama", "--topology=hard"), nil, "", "", "TrainingJob llama is refused: --tier: Invalid value: mode hard needs --tier, the highest tier of HyperNode that may hold the pods together: without it nothing would be constrained"},
		"no dashes":      {[]string{"llama", "train"}, nil, "", "", `"train": there is one name; the command comes after --: kubectl lockstep submit llama [flags] -- train`},
		"no name":        {with(), nil, "", "", "the name of the job is missing: kubectl lockstep submit NAME --image IMAGE -- COMMAND"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &server{objects: map[string]any{theJobs: tc.answer}}
			address := s.serve(t, core, product)
			out, err := lockstep(append([]string{"submit", address}, tc.args...)...)
			message := ""
			if err != nil {
				message = err.Error()
			}
			check.Equal(t, "error", tc.err, message)
			first, rest, _ := strings.Cut(out, "\n")
			check.Equal(t, "says", tc.says, first)
			check.Equal(t, "says what to do next", name == "created", strings.HasPrefix(rest, "kubectl lockstep list shows how far it is"))
			sent := strings.Join(s.written, "\n")
			if !strings.HasPrefix(sent, tc.sent) || (tc.sent == "") != (sent == "") {
				t.Errorf("sent %q, want %q", sent, tc.sent)
			}
			if tc.sent != "" && !strings.Contains(sent, `"command":["train","--lr=1"],"image":"registry.example/llama:1"`) && !strings.Contains(sent, `"image":"registry.example/llama:1","command":["train","--lr=1"]`) {
				t.Errorf("sent %s", sent)
			}
		})
	}
}

// What is printed has no status, and is what the API server takes.
func TestSubmitPrintsAManifest(t *testing.T) {
	t.Setenv("KUBECONFIG", "/dev/null")
	out, err := lockstep("submit", "llama", "--image", "x", "--dry-run=client", "-o", "yaml", "-n", "research", "--spares", "1")
	check.Equal(t, "error", nil, err)
	if strings.Contains(out, "status") || !strings.Contains(out, "namespace: research") {
		t.Errorf("printed\n%s", out)
	}
	check.Equal(t, "kind", true, strings.Contains(out, "kind: TrainingJob\n"))
}
