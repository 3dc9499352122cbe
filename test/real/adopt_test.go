package real

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// Jobs of Kubeflow leave the rendezvous of torchrun to their operators. What adopt makes of them trains, with each of torchrun's ways to meet.
func TestAdoptedJobsTrain(t *testing.T) {
	if err := ground.LoadTorch(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, manifest := range map[string]func(template any) []any{
		"adopted-pytorchjob": func(template any) []any {
			return []any{map[string]any{
				"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": map[string]any{"name": "adopted-pytorchjob"},
				"spec": map[string]any{
					"elasticPolicy":       map[string]any{"rdzvBackend": "c10d", "nProcPerNode": 1, "maxRestarts": 3},
					"pytorchReplicaSpecs": map[string]any{"Worker": map[string]any{"replicas": 3, "restartPolicy": "OnFailure", "template": template}},
				},
			}}
		},
		"adopted-trainjob": func(template any) []any {
			return []any{map[string]any{
				"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": map[string]any{"name": "adopted-trainjob"},
				"spec": map[string]any{"runtimeRef": map[string]any{"name": "torch"}, "trainer": map[string]any{"numNodes": 3, "numProcPerNode": 1}},
			}, map[string]any{
				"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "ClusterTrainingRuntime", "metadata": map[string]any{"name": "torch"},
				"spec": map[string]any{
					"mlPolicy": map[string]any{"torch": map[string]any{}},
					"template": map[string]any{"spec": map[string]any{"replicatedJobs": []any{map[string]any{
						"name": "node", "template": map[string]any{"spec": map[string]any{"template": template}},
					}}}},
				},
			}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &scenario{Training: ground.NewTorchrun(name, 3, 30), t: t, ctx: context.WithoutCancel(t.Context())}
			s.Job.Spec = adopted(t, manifest(kubeflowTemplate(t, s.Training))).Spec
			s.removedAtTheEnd()
			s.must(ground.Client().Create(s.ctx, s.Job))
			s.must(s.AwaitJob(s.ctx, "the job has completed", func(job *v1alpha1.TrainingJob) bool {
				return job.Status.State == v1alpha1.StateCompleted
			}))
			if n := len(s.Job.Spec.Tasks); n != 2 {
				t.Errorf("the job has %d tasks", n)
			}
			for _, pod := range s.pods() {
				log, err := s.Log(s.ctx, pod, 1000)
				s.must(err)
				if !strings.Contains(log, "step=30") {
					t.Errorf("%s did not come to step 30:\n%s", pod.Name, log)
				}
			}
		})
	}
}

// kubeflowTemplate is that of the ranks of torchrun's job, without what an operator of Kubeflow gives torchrun.
func kubeflowTemplate(t *testing.T, training *Training) (template any) {
	t.Helper()
	pod := training.Job.Spec.Tasks[0].Template
	container := &pod.Spec.Containers[0]
	container.Name, container.Args = "node", []string{"--redirects=1", "--tee=1", "/train.py"} // Debian's torch starts no worker without the first
	raw, err := json.Marshal(pod)
	if err == nil {
		err = json.Unmarshal(raw, &template)
	}
	if err != nil {
		t.Fatal(err)
	}
	return template
}

// adopted is what kubectl lockstep adopt makes of objects, all of which it carries over.
func adopted(t *testing.T, objects []any) *v1alpha1.TrainingJob {
	t.Helper()
	raw, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": objects})
	file := filepath.Join(t.TempDir(), "jobs.json")
	if err == nil {
		err = os.WriteFile(file, raw, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	out, err := ground.Plugin(t.Context(), "adopt", "-f", file)
	if err != nil {
		t.Fatal(err)
	}
	const all = ": all of it was carried over\n"
	manifest, found := strings.CutSuffix(out, objects[0].(map[string]any)["kind"].(string)+" "+nameOf(objects[0])+all)
	if !found {
		t.Fatalf("something was lost:\n%s", out)
	}
	job := &v1alpha1.TrainingJob{}
	if err := yaml.UnmarshalStrict([]byte(manifest), job); err != nil {
		t.Fatal(err)
	}
	return job
}

func nameOf(object any) string {
	return object.(map[string]any)["metadata"].(map[string]any)["name"].(string)
}
