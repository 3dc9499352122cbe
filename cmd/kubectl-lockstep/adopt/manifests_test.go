package adopt

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/simulate"
)

var update = flag.Bool("update", false, "write testdata/adopted.txt")

// source is where a manifest comes from.
type source struct{ File, Repository, Commit, Path, License string }

// manifests are the public ones, with their sources, and the runtimes that they refer to.
func manifests(t *testing.T) (all []source, read func(file string) []*unstructured.Unstructured) {
	t.Helper()
	raw, err := os.ReadFile("testdata/sources.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(raw, &all); err != nil {
		t.Fatal(err)
	}
	parsed := map[string][]*unstructured.Unstructured{}
	for _, s := range all {
		raw, err := os.ReadFile(filepath.Join("testdata", s.File))
		if err != nil {
			t.Fatal(err)
		}
		parsed[s.File] = objects(t, string(raw))
	}
	read = func(file string) (out []*unstructured.Unstructured) {
		for _, o := range parsed[file] {
			out = append(out, o.DeepCopy())
		}
		return out
	}
	return all, read
}

// withRuntimes are the objects of a manifest, and the runtimes of the TrainJobs.
func withRuntimes(all []source, read func(string) []*unstructured.Unstructured, file string) []*unstructured.Unstructured {
	out := read(file)
	for _, s := range all {
		if strings.HasPrefix(s.File, "runtimes/") && strings.HasPrefix(file, "trainjob/") {
			out = append(out, read(s.File)...)
		}
	}
	return out
}

// Ten public manifests of each kind become TrainingJobs that the API server takes. What each of them loses is in testdata/adopted.txt.
func TestPublicManifests(t *testing.T) {
	all, read := manifests(t)
	count := map[string]int{}
	var report strings.Builder
	for _, s := range all {
		kind := filepath.Dir(s.File)
		count[kind]++
		if s.License == "" || len(s.Commit) != 40 {
			t.Errorf("%s: the source is not said", s.File)
		}
		if kind == "runtimes" {
			continue
		}
		fmt.Fprintf(&report, "%s\n", s.File)
		jobs, others := Jobs(withRuntimes(all, read, s.File))
		if len(jobs) == 0 || len(others) > 0 {
			t.Errorf("%s: %d jobs, and %v", s.File, len(jobs), others)
		}
		for _, job := range jobs {
			fmt.Fprint(&report, lostBy(t, s.File, job))
		}
	}
	if diff := cmp.Diff(map[string]int{"jobset": 10, "pytorchjob": 10, "trainjob": 10, "volcano": 10, "runtimes": 2}, count); diff != "" {
		t.Error(diff)
	}
	const golden = "testdata/adopted.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(report.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), report.String()); diff != "" {
		t.Errorf("run with -update to write it (-want +got):\n%s", diff)
	}
}

// lostBy says what a job of a file loses. Its TrainingJob is one that the API server takes.
func lostBy(t *testing.T, file string, job Adopted) string {
	t.Helper()
	err := job.Err
	if err == nil {
		_, err = simulate.Admit(job.Job)
	}
	if err != nil {
		t.Errorf("%s: %s: %v", file, job.From, err)
	}
	lines := []string{fmt.Sprintf("  %s: %d", job.From, len(job.Lost))}
	for _, line := range job.Lost {
		lines = append(lines, "    "+line)
	}
	return strings.Join(lines, "\n") + "\n"
}

// saysNothing are values, by their path without indexes, whose absence means the same: they are neither carried over nor reported.
var saysNothing = map[string]bool{
	// names, and kinds that are the default
	"apiVersion: trainer.kubeflow.org/v1alpha1":                      true,
	"metadata.labels.trainer.kubeflow.org/framework: torch":          true,
	"spec.runtimeRef.apiGroup: trainer.kubeflow.org":                 true,
	"spec.runtimeRef.kind: ClusterTrainingRuntime":                   true,
	"spec.runtimePatches.manager: example.io/platform-team":          true,
	"spec.runtimePatches.manager: trainer.kubeflow.org/kubeflow-sdk": true,
	"spec.tasks.template.metadata.name: web":                         true,
	"spec.template.spec.replicatedJobs.template.metadata.labels.trainer.kubeflow.org/trainjob-ancestor-step: dataset-initializer": true,
	"spec.template.spec.replicatedJobs.template.metadata.labels.trainer.kubeflow.org/trainjob-ancestor-step: trainer":             true,
	// other defaults
	"spec.elasticPolicy.rdzvBackend: c10d":                                         true,
	"spec.mlPolicy.numNodes: 1":                                                    true,
	"spec.pytorchReplicaSpecs.Master.replicas: 1":                                  true,
	"spec.pytorchReplicaSpecs.Worker.replicas: 1":                                  true,
	"spec.queue: default":                                                          true,
	"spec.replicatedJobs.replicas: 1":                                              true,
	"spec.replicatedJobs.template.spec.parallelism: 1":                             true,
	"spec.schedulerName: volcano":                                                  true,
	"spec.successPolicy.operator: All":                                             true,
	"spec.tasks.replicas: 1":                                                       true,
	"spec.tasks.template.spec.containers.resources: map[]":                         true,
	"spec.tasks.template.spec.schedulerName: volcano":                              true,
	"spec.template.spec.replicatedJobs.replicas: 1":                                true,
	"spec.replicatedJobs.template.spec.podFailurePolicy.rules.onPodConditions: []": true,
	// as many as there are pods
	"spec.minAvailable: 3":                             true,
	"spec.minAvailable: 4":                             true,
	"spec.minAvailable: 5":                             true,
	"spec.replicatedJobs.template.spec.completions: 1": true,
	"spec.replicatedJobs.template.spec.completions: 2": true,
	"spec.replicatedJobs.template.spec.completions: 3": true,
	"spec.replicatedJobs.template.spec.completions: 4": true,
	// what each TrainingJob of the framework has
	"spec.plugins.svc: []":               true,
	"spec.podGroupPolicy.volcano: map[]": true,
	"spec.replicatedJobs.template.spec.template.spec.containers.env.valueFrom.fieldRef.fieldPath: metadata.annotations['batch.kubernetes.io/job-completion-index']": true,
}

// Each value of a manifest is in the TrainingJob, or in the report: a job without it is not the same. This finds what a conversion forgets.
func TestNothingIsLostInSilence(t *testing.T) {
	all, read := manifests(t)
	for _, s := range all {
		if strings.HasPrefix(s.File, "runtimes/") {
			continue
		}
		whole, lost := outcome(t, withRuntimes(all, read, s.File))
		for i := range read(s.File) {
			leaves(read(s.File)[i].Object, func(path []any, at string) {
				known := func(part string) bool { return strings.Contains(at, part) }
				objects := withRuntimes(all, read, s.File)
				set(objects[i].Object, path, none)
				if now, _ := outcome(t, objects); now == whole && !saysNothing[index.ReplaceAllString(at, "")] && !slices.ContainsFunc(lost, known) {
					t.Errorf("%s: %s is neither carried over nor reported", s.File, at)
				}
			})
		}
	}
}

// Values of other types, and none, in place of each value of a manifest are reported, or make no difference. They end no conversion early.
func TestOddValuesAreReported(t *testing.T) {
	all, read := manifests(t)
	odds := []any{nil, "odd", int64(-7), int64(1) << 40, true, []any{}, []any{"odd", nil, map[string]any{}}, map[string]any{}, map[string]any{"odd": []any{nil}}}
	n := 0
	for _, s := range all {
		if strings.HasPrefix(s.File, "runtimes/") {
			continue
		}
		for i := range read(s.File) {
			values(read(s.File)[i].Object, nil, func(path []any) {
				for range 2 { // of them for each value: the manifests have the same fields many times
					n++
					odd := odds[n%len(odds)]
					objects := withRuntimes(all, read, s.File)
					set(objects[i].Object, path, odd)
					jobs, _ := Jobs(objects)
					for _, job := range jobs {
						if len(job.Job.Spec.Tasks) == 0 && job.Err == nil {
							t.Errorf("%s: with %v at %v there is no task, and no error", s.File, odd, path)
						}
					}
				}
			})
		}
	}
}

// values calls f with the path of each value within one.
func values(value any, path []any, f func(path []any)) {
	if len(path) > 0 {
		f(path)
	}
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			values(v[key], append(slices.Clone(path), key), f)
		}
	case []any:
		for i, inner := range v {
			values(inner, append(slices.Clone(path), i), f)
		}
	}
}

// outcome is all that becomes of objects, and the paths of what was lost.
func outcome(t *testing.T, objects []*unstructured.Unstructured) (all string, lost []string) {
	t.Helper()
	jobs, others := Jobs(objects)
	for _, job := range jobs {
		raw, err := json.Marshal(job.Job)
		if err != nil {
			t.Fatal(err)
		}
		all += fmt.Sprintln(job.From, string(raw), job.Lost, job.Err, others)
		for _, line := range job.Lost {
			_, inRuntime, ok := strings.Cut(line, ": spec.")
			if ok {
				line = "spec." + inRuntime
			}
			path, _, _ := strings.Cut(line, ": ")
			lost = append(lost, path)
		}
	}
	return all, lost
}

// leaves calls f with the path of each value that has none within it.
func leaves(value any, f func(path []any, at string)) {
	values(value, nil, func(path []any) {
		at, inner := "", value
		for _, step := range path {
			switch v := inner.(type) {
			case map[string]any:
				inner, at = v[step.(string)], strings.TrimPrefix(fmt.Sprintf("%s.%s", at, step), ".")
			case []any:
				inner, at = v[step.(int)], fmt.Sprintf("%s[%d]", at, step)
			}
		}
		m, isMap := inner.(map[string]any)
		list, isList := inner.([]any)
		if (!isMap || len(m) == 0) && (!isList || len(list) == 0) {
			f(path, fmt.Sprintf("%s: %v", at, inner))
		}
	})
}

// set puts a value at a path. none takes out what is there; in a list null is left.
func set(value any, path []any, to any) {
	for _, step := range path[:len(path)-1] {
		switch v := value.(type) {
		case map[string]any:
			value = v[step.(string)]
		case []any:
			value = v[step.(int)]
		}
	}
	switch v := value.(type) {
	case map[string]any:
		if v[path[len(path)-1].(string)] = to; to == none {
			delete(v, path[len(path)-1].(string))
		}
	case []any:
		if v[path[len(path)-1].(int)] = to; to == none {
			v[path[len(path)-1].(int)] = nil
		}
	}
}

// none is no value.
var none any = struct{}{}
