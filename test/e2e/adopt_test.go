package e2e

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

// The API server takes what kubectl lockstep adopt makes of forty public manifests.
func TestAdoptedManifestsAreTaken(t *testing.T) {
	s := &scenario{t: t, ctx: t.Context()}
	binary, err := buildPlugin()
	s.must(err, "build the plugin")
	root, err := cluster.RepositoryRoot()
	s.must(err, "find the repository")
	args := []string{"adopt"}
	for _, kind := range []string{"jobset", "pytorchjob", "trainjob", "volcano", "runtimes"} {
		args = append(args, "-f", filepath.Join(root, "cmd", "kubectl-lockstep", "adopt", "testdata", kind))
	}
	out, err := exec.CommandContext(s.ctx, binary, args...).Output()
	s.must(err, "adopt the manifests")
	jobs := strings.Split(string(out), "\n---\n")
	if len(jobs) < 40 {
		t.Errorf("there are %d jobs", len(jobs))
	}
	for _, manifest := range jobs {
		job := &unstructured.Unstructured{}
		s.must(yaml.Unmarshal([]byte(manifest), job), "parse a job")
		job.SetNamespace(namespace)
		if err := testCluster.Client().Create(s.ctx, job, client.DryRunAll, client.FieldValidation("Strict")); err != nil {
			t.Errorf("%v\n%s", err, manifest)
		}
	}
}
