// What the API server accepts, fills in and keeps; and what may be changed later.

package v1alpha1

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func TestAccepts(t *testing.T) {
	server := newAPIServer(t)
	const twoTasks = `[
	  {name: head, template: {spec: {containers: [{name: c}]}}},
	  {name: worker, replicas: 3, template: {spec: {containers: [{name: c}]}}}]`
	tests := map[string]struct {
		doc string
		set set
	}{
		"the least":  {doc: minimal},
		"everything": {doc: full},
		"the longest name": {doc: minimal, set: set{
			"metadata.name": "a234567890123456789012345678901234567890123456789"}},
		"a part of the pods as the gang":      {doc: minimal, set: set{"spec.minAvailable": "1"}},
		"soft topology without a tier":        {doc: minimal, set: set{"spec.networkTopology": "{mode: soft}"}},
		"no framework picked":                 {doc: minimal, set: set{"spec.framework": "{}"}},
		"ray with its default tasks":          {doc: minimal, set: set{"spec.tasks": twoTasks, "spec.framework": "{ray: {}}"}},
		"mpi with a named launcher":           {doc: minimal, set: set{"spec.tasks": twoTasks, "spec.framework": "{mpi: {launcher: head}}"}},
		"tensorflow with only a worker":       {doc: minimal, set: set{"spec.framework": "{tensorflow: {}}"}},
		"an empty restart policy":             {doc: minimal, set: set{"spec.restartPolicy": "{}"}},
		"no spares":                           {doc: minimal, set: set{"spec.tasks[0].spares": "0"}},
		"an annotation of Volcano's for jobs": {doc: minimal, set: set{"spec.tasks[0].template.metadata": `{annotations: {volcano.sh/preemptable: "true"}}`}},
		"narrowed rules for one event": {doc: minimal, set: set{"spec.restartPolicy.rules": `[
		  {name: a, match: {events: [PodFailed], reasons: [OOMKilled]}, steps: [{action: FailJob}]},
		  {name: b, match: {events: [PodFailed], tasks: [worker]}, steps: [{action: RestartJob}]},
		  {name: c, match: {events: [PodFailed, NodeGone]}, steps: [{action: RestartPod}]},
		  {name: d, match: {events: [PodDeleted, NodeGone]}, steps: [{action: RestartPod}]}]`}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if errs := server.create(server.prepare(t, tc.set.apply(t, tc.doc))); len(errs) > 0 {
				t.Error(errs.ToAggregate())
			}
		})
	}
}

func TestUpdates(t *testing.T) {
	server := newAPIServer(t)
	const fixed = "cannot be changed once the job exists"
	tests := map[string]struct {
		doc   string
		set   set
		field string // empty: the update is accepted
	}{
		"suspend":                        {doc: full, set: set{"spec.suspend": "true"}},
		"restart policy":                 {doc: full, set: set{"spec.restartPolicy.excludeNodeSeconds": "60"}},
		"restart policy removed":         {doc: full, set: set{"spec.restartPolicy": ""}},
		"time to live":                   {doc: full, set: set{"spec.ttlSecondsAfterFinished": ""}},
		"deadline":                       {doc: full, set: set{"spec.activeDeadlineSeconds": "60"}},
		"hold":                           {doc: full, set: set{"spec.hold.policy": "OnRecovery"}},
		"metadata":                       {doc: full, set: set{"metadata.labels": "{a: b}"}},
		"nothing, with defaults written": {doc: minimal, set: set{"spec.queue": "default"}},
		"queue":                          {doc: full, set: set{"spec.queue": "other"}, field: "spec.queue"},
		"queue removed":                  {doc: full, set: set{"spec.queue": ""}, field: "spec.queue"},
		"priority class":                 {doc: full, set: set{"spec.priorityClassName": "low"}, field: "spec.priorityClassName"},
		"priority class removed":         {doc: full, set: set{"spec.priorityClassName": ""}, field: "spec.priorityClassName"},
		"priority class given":           {doc: minimal, set: set{"spec.priorityClassName": "low"}, field: "spec.priorityClassName"},
		"minAvailable removed":           {doc: full, set: set{"spec.minAvailable": ""}, field: "spec.minAvailable"},
		"minAvailable":                   {doc: full, set: set{"spec.minAvailable": "8"}, field: "spec.minAvailable"},
		"success policy removed":         {doc: full, set: set{"spec.successPolicy": ""}, field: "spec.successPolicy"},
		"topology removed":               {doc: full, set: set{"spec.networkTopology": ""}, field: "spec.networkTopology"},
		"topology":                       {doc: full, set: set{"spec.networkTopology.highestTierAllowed": "2"}, field: "spec.networkTopology"},
		"framework removed":              {doc: full, set: set{"spec.framework": ""}, field: "spec.framework"},
		"replicas":                       {doc: minimal, set: set{"spec.tasks[0].replicas": "8"}, field: "spec.tasks"},
		"image":                          {doc: full, set: set{"spec.tasks[1].template.spec.containers[0].image": "v2"}, field: "spec.tasks"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			errs := server.update(server.prepare(t, tc.set.apply(t, tc.doc)), server.prepare(t, tc.doc))
			if tc.field == "" && len(errs) > 0 {
				t.Error(errs.ToAggregate())
			}
			if tc.field != "" {
				wantError(t, errs, tc.field, fixed)
			}
		})
	}
}

// Every field of the spec is either one that may be changed or one that a rule
// protects: a new field has to be decided on.
func TestEveryFieldIsMutableOrProtected(t *testing.T) {
	mutable := []string{"suspend", "restartPolicy", "ttlSecondsAfterFinished", "activeDeadlineSeconds", "hold"}
	spec := newAPIServer(t).structural.Properties["spec"]
	var rules strings.Builder
	for _, rule := range spec.XValidations {
		rules.WriteString(rule.Rule + "\n")
	}
	for _, name := range slices.Sorted(maps.Keys(spec.Properties)) {
		protected := strings.Contains(rules.String(), "self."+name+" == oldSelf."+name)
		if protected == slices.Contains(mutable, name) {
			t.Errorf("spec.%s: mutable %v, protected %v", name, !protected, protected)
		}
	}
}

func TestDefaults(t *testing.T) {
	server := newAPIServer(t)
	obj := server.prepare(t, set{
		"spec.framework":                      "{pytorch: {}}",
		"spec.networkTopology":                "{highestTierAllowed: 1}",
		"spec.restartPolicy":                  "{rules: [{name: r, match: {}, steps: [{action: RestartPod}]}]}",
		"spec.tasks[0].replicas":              "",
		"spec.tasks[0].template.spec.volumes": "[]",
	}.apply(t, minimal))
	want := `
queue: default
hold: {policy: OnRecovery, seconds: 600}
framework: {pytorch: {master: master, worker: worker, port: 23456}}
networkTopology: {mode: hard, highestTierAllowed: 1}
restartPolicy:
  rules: [{name: r, match: {}, steps: [{action: RestartPod, afterSeconds: 0}], charge: Auto}]
  budget: {maxRestarts: 20, windowSeconds: 86400}
  excludeNodeSeconds: 3600
  unreachableNode: {policy: ForceDelete, afterSeconds: 60}
tasks:
- {name: worker, replicas: 1, template: {spec: {volumes: [], containers: [{name: train, image: train}]}}}
`
	spec, err := yaml.Marshal(obj["spec"])
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(normal(t, want), normal(t, string(spec))); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
}

func normal(t *testing.T, doc string) map[string]any {
	t.Helper()
	var out map[string]any
	if err := yaml.Unmarshal([]byte(doc), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// A CRD drops the metadata of an embedded object unless its schema says otherwise.
func TestTemplateMetadataIsKept(t *testing.T) {
	obj := newAPIServer(t).prepare(t, full)
	tasks, _, err := unstructured.NestedSlice(obj, "spec", "tasks")
	if err != nil {
		t.Fatal(err)
	}
	got, _, err := unstructured.NestedMap(tasks[0].(map[string]any), "template", "metadata")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"labels":      map[string]any{"team": "llm"},
		"annotations": map[string]any{"example.com/note": "yes"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("template metadata (-want +got):\n%s", diff)
	}
}

// An incident's trigger may be a word that no rule can match.
func TestStatusAcceptsEveryTrigger(t *testing.T) {
	server := newAPIServer(t)
	for _, trigger := range []EventType{PodFailed, HealthFailed, VolcanoJobDeleted, VolcanoJobEnded, JobResumed} {
		doc := set{"status.incidents": "[{id: 1, class: User, startTime: 2026-01-02T03:04:05.000006Z, trigger: " + string(trigger) + "}]"}
		if errs := server.create(server.prepare(t, doc.apply(t, minimal))); len(errs) > 0 {
			t.Errorf("%s: %v", trigger, errs.ToAggregate())
		}
	}
}

func TestSamples(t *testing.T) {
	server := newAPIServer(t)
	files, err := filepath.Glob("../../config/samples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no samples: %v", err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for doc := range strings.SplitSeq(string(raw), "\n---\n") {
			if !strings.Contains(doc, "\nkind: TrainingJob\n") {
				continue
			}
			// Strictly, so that a misspelt field does not pass as pruned.
			if err := yaml.UnmarshalStrict([]byte(doc), &TrainingJob{}); err != nil {
				t.Errorf("%s: %v", file, err)
			}
			if errs := server.create(server.prepare(t, doc)); len(errs) > 0 {
				t.Errorf("%s: %v", file, errs.ToAggregate())
			}
		}
	}
}

// The job that README.md shows first is one that a cluster takes.
func TestReadme(t *testing.T) {
	raw, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(raw), "```yaml\n")
	doc, _, closed := strings.Cut(after, "```")
	if !found || !closed {
		t.Fatal("README.md shows no TrainingJob")
	}
	if err := yaml.UnmarshalStrict([]byte(doc), &TrainingJob{}); err != nil {
		t.Error(err)
	}
	server := newAPIServer(t)
	if errs := server.create(server.prepare(t, doc)); len(errs) > 0 {
		t.Error(errs.ToAggregate())
	}
}
