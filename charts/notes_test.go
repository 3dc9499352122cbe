package charts

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

// Whoever has installed the chart is told what to look at, and what is left to do.
func TestNotes(t *testing.T) {
	const check, rules, sender, port = "kubectl lockstep check", "monitoring.rules=true", "lockstep-alert-sender", "lockstep-supervisors.training.svc:9444"
	for set, want := range map[string]struct{ has, lacks []string }{
		images: {
			has:   []string{check, "-namespace training rollout status deployment", "-namespace lockstep-health rollout status daemonset", rules},
			lacks: []string{sender, port},
		},
		images + "," + supervisors + ",agent.enabled=false,alerts.enabled=true,monitoring.rules=true": {
			has:   []string{check, "Secret training/lockstep-alerts-tls", sender, port, "registry.example/lockstep-run:"},
			lacks: []string{"daemonset", rules},
		},
	} {
		got := notes(t, set)
		for _, text := range want.has {
			if !strings.Contains(got, text) {
				t.Errorf("--set %s: no %q in:\n%s", set, text, got)
			}
		}
		for _, text := range want.lacks {
			if strings.Contains(got, text) {
				t.Errorf("--set %s: %q in:\n%s", set, text, got)
			}
		}
	}
}

// notes are what `helm install` ends with. Without a cluster helm renders objects alone, and the notes are put into one.
func notes(t *testing.T, set string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "lockstep")
	if out, err := exec.CommandContext(t.Context(), "cp", "-RL", "lockstep", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(dir, "templates", "NOTES.txt"))
	if err != nil {
		t.Fatal(err)
	}
	object := `{{ define "notes" }}` + string(text) + `{{ end }}{kind: ConfigMap, metadata: {name: notes}, data: {notes: {{ include "notes" . | quote }}}}`
	if err := os.WriteFile(filepath.Join(dir, "templates", "notes.yaml"), []byte(object), 0o600); err != nil {
		t.Fatal(err)
	}
	objects, err := cluster.Chart(t.Context(), dir, "--namespace", "training", "--show-only", "templates/notes.yaml", "--set", set)
	if err != nil {
		t.Fatal(err)
	}
	found, _, err := unstructured.NestedString(objects[0].Object, "data", "notes")
	if err != nil {
		t.Fatal(err)
	}
	return found
}
