package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/lockstep-dev/lockstep/test/check"
)

// mixed has a job that becomes a TrainingJob, one whose name has no place in that of a Service, and an object that is no job.
const mixed = `apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Service, metadata: {name: web}}
- apiVersion: batch.volcano.sh/v1alpha1
  kind: Job
  metadata: {name: 9lives}
  spec: {tasks: [{name: a, template: {spec: {containers: [{name: c, image: i}]}}}]}
- apiVersion: batch.volcano.sh/v1alpha1
  kind: Job
  metadata: {name: fine}
  spec: {policies: [{event: PodEvicted, action: RestartJob}], tasks: [{name: a, template: {spec: {containers: [{name: c, image: i}]}}}]}
`

func TestAdopt(t *testing.T) {
	adopt := func(stdin string, args ...string) (stdout, stderr string, err error) {
		streams, in, out, errOut := genericiooptions.NewTestIOStreams()
		in.WriteString(stdin)
		c := newCommand(streams)
		c.SetArgs(append([]string{"adopt"}, args...))
		err = c.Execute()
		return out.String(), errOut.String(), err
	}
	stdout, stderr, err := adopt(mixed, "-f", "-")
	check.Equal(t, "the TrainingJob", `apiVersion: lockstep.dev/v1alpha1
kind: TrainingJob
metadata:
  name: fine
spec:
  tasks:
  - name: a
    replicas: 1
    template:
      spec:
        containers:
        - image: i
          name: c
`, stdout)
	if err == nil || !strings.Contains(err.Error(), "Job 9lives: its TrainingJob would be refused: metadata: Invalid value") {
		t.Errorf("the error is %v", err)
	}
	for _, want := range []string{"Service web is left out", "Job fine:\n  - spec.policies: a TrainingJob has restartPolicy.rules"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("no %q in:\n%s", want, stderr)
		}
	}

	folder := filepath.Join("adopt", "testdata", "pytorchjob")
	if stdout, _, err = adopt("", "-f", folder); err != nil || strings.Count(stdout, "\n---\n") != 9 {
		t.Errorf("of a folder: %v\n%s", err, stdout)
	}
	if stdout, _, err = adopt("", "-f", folder, "-f", filepath.Join("adopt", "testdata", "sources.yaml")); err == nil || strings.Count(stdout, "\n---\n") != 9 {
		t.Errorf("with a file that has no object: %v\n%s", err, stdout)
	}
	service := filepath.Join(t.TempDir(), "service.yaml")
	if err := os.WriteFile(service, []byte("{apiVersion: v1, kind: Service, metadata: {name: web}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"the file is missing: give -f FILE":                       nil,
		"there is no Volcano Job, JobSet, PyTorchJob or TrainJob": {"-f", service},
		`the path "nowhere.yaml" does not exist`:                  {"-f", "nowhere.yaml"},
		`unknown command "job.yaml" for "kubectl lockstep adopt"`: {"job.yaml"},
	} {
		if _, _, err := adopt("", args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
	}
}
