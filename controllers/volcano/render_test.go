// The Volcano Job that is rendered, against golden files: go test -update writes them.

package volcano

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

var update = flag.Bool("update", false, "write the golden files")

func TestRender(t *testing.T) {
	inputs, err := filepath.Glob("testdata/render/*.yaml")
	if err != nil || len(inputs) == 0 {
		t.Fatalf("no inputs: %v", err)
	}
	for _, input := range inputs {
		t.Run(strings.TrimSuffix(filepath.Base(input), ".yaml"), func(t *testing.T) {
			raw, err := os.ReadFile(input)
			if err != nil {
				t.Fatal(err)
			}
			job := &v1alpha1.TrainingJob{}
			if err := yaml.UnmarshalStrict(raw, job); err != nil {
				t.Fatal(err)
			}
			before := job.DeepCopy()
			got, err := yaml.Marshal(Render(job, 3, &Supervision{Image: "lockstep-manager:v1", Address: "supervisors.example:9444", ServerName: "supervisors.example"}))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before, job); diff != "" {
				t.Errorf("the job was changed:\n%s", diff)
			}
			golden := strings.TrimSuffix(input, ".yaml") + ".golden"
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("Volcano Job (-want +got):\n%s", diff)
			}
		})
	}
}

// The kubelet leaves the arguments of a supervised program as they are: the rank of its pod's name may be another one's.
func TestTheKubeletExpandsNoArgument(t *testing.T) {
	spec := &corev1.PodSpec{Containers: []corev1.Container{{Command: []string{"train", "$(RANK)"}, Args: []string{"--rank=$(RANK)", "$$5"}}}}
	supervise(spec, &v1alpha1.Supervisor{}, &Supervision{})
	got := slices.Concat(spec.Containers[0].Command, spec.Containers[0].Args)
	if diff := cmp.Diff([]string{"--expand", "--", "train", "$$(RANK)", "--rank=$$(RANK)", "$$$$5"}, got[len(got)-6:]); diff != "" {
		t.Errorf("the end of the command (-want +got):\n%s", diff)
	}
}
