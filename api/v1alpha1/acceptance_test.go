// What the API server accepts, fills in and keeps; and what may be changed later.

package v1alpha1

import (
	"errors"
	"os"
	"path/filepath"
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
		"an annotation of Volcano's for jobs": {doc: minimal, set: set{"spec.tasks[0].template.metadata": `{annotations: {volcano.sh/preemptable: "true"}}`}},
		"a rule for hangs after one for *": {doc: minimal, set: set{"spec.restartPolicy.rules": `[
		  {name: all, match: {events: ["*"]}, steps: [{action: RestartPod}]},
		  {name: hangs, match: {events: [Stalled]}, steps: [{action: RestartPod}]}]`}},
		"a rule for cordons after one for *": {doc: minimal, set: set{"spec.restartPolicy.rules": `[
		  {name: all, match: {}, steps: [{action: RestartPod}]},
		  {name: maintenance, match: {events: [NodeCordoned], tasks: [worker]}, steps: [{action: MigratePod}]}]`}},
		"narrowed rules for one event": {doc: minimal, set: set{"spec.restartPolicy.rules": `[
		  {name: a, match: {events: [PodFailed], reasons: [OOMKilled]}, steps: [{action: FailJob}]},
		  {name: a2, match: {events: [PodFailed], podConditions: [{type: DisruptionTarget}]}, steps: [{action: Ignore}]},
		  {name: b, match: {events: [PodFailed], tasks: [worker]}, steps: [{action: RestartJob}]},
		  {name: c, match: {events: [PodFailed, NodeGone]}, steps: [{action: RestartPod}]},
		  {name: d, match: {events: [PodDeleted, NodeGone]}, steps: [{action: RestartPod}]}]`}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if errs := server.Create(server.prepare(t, tc.set.apply(t, tc.doc))); len(errs) > 0 {
				t.Error(errs.ToAggregate())
			}
		})
	}
}

func TestAcceptsTask(t *testing.T) {
	server := newAPIServer(t)
	const task = "spec.tasks[0]"
	const data = "{name: data, replicas: 2, template: {spec: {containers: [{name: c}]}}}"
	rules := func(match, action string) string {
		return "{rules: [{name: r, match: " + match + ", steps: [{action: " + action + "}]}]}"
	}
	tests := map[string]set{
		"no spares": {task + ".spares": "0"},
		"the longest name with spares": {
			task + ".spares": "1000", "metadata.name": "a23456789012345678901234567890123456789012",
		},
		"the longest name with maxReplicas": {
			task + ".maxReplicas": "100", "metadata.name": "a234567890123456789012345678901234567890123456789",
		},
		"a task with the name of spares that there are none of": {
			"spec.tasks[1]": "{name: worker-spare, template: {spec: {containers: [{name: c}]}}}",
		},
		"replicas at both ends":                      {task + ".minReplicas": "16", task + ".maxReplicas": "16"},
		"replicas between":                           {task + ".minReplicas": "1", task + ".maxReplicas": "10000"},
		"minReplicas alone":                          {task + ".minReplicas": "8"},
		"an elastic worker of ray":                   {task + ".minReplicas": "8", "spec.tasks[1]": "{name: head, template: {spec: {containers: [{name: c}]}}}", "spec.framework": "{ray: {}}"},
		"an elastic task beside those of tensorflow": {"spec.tasks[1]": data, "spec.tasks[1].minReplicas": "1", "spec.framework": "{tensorflow: {}}"},
		"minAvailable of what is sure to be there":   {"spec.minAvailable": "10", task + ".minReplicas": "8", "spec.tasks[1]": data},
		"partitions without a topology":              {task + ".partition": "{size: 4}"},
		"one partition":                              {task + ".partition": "{size: 16}"},
		"partitions closer than the job": {
			task + ".partition": "{size: 4, networkTopology: {highestTierAllowed: 1}}", "spec.networkTopology": "{highestTierAllowed: 2}",
		},
		"partitions as close as the job": {
			task + ".partition": "{size: 4, networkTopology: {highestTierAllowed: 2}}", "spec.networkTopology": "{highestTierAllowed: 2}",
		},
		"partitions of a job that stays close where it can": {
			task + ".partition": "{size: 4, networkTopology: {highestTierAllowed: 2}}", "spec.networkTopology": "{mode: soft, highestTierAllowed: 1}",
		},
		"partitions and all pods as minAvailable": {task + ".partition": "{size: 4}", "spec.minAvailable": "16"},
		"partitions and spares":                   {task + ".partition": "{size: 4}", task + ".spares": "4"},
		"an empty policy":                         {task + ".restartPolicy": "{}"},
		"a policy of every part but rules": {
			task + ".restartPolicy": "{budget: {maxRestarts: 1}, backoff: {initialSeconds: 30}, excludeNodeSeconds: 0, unreachableNode: {policy: RequireProof}}",
		},
		"RestartPartition for the job":          {task + ".partition": "{size: 4}", "spec.restartPolicy": rules("{}", "RestartPartition")},
		"RestartPartition for the task by name": {task + ".partition": "{size: 4}", "spec.tasks[1]": data, "spec.restartPolicy": rules("{tasks: [worker]}", "RestartPartition")},
		"RestartPartition for the task":         {task + ".partition": "{size: 4}", task + ".restartPolicy": rules("{}", "RestartPartition")},
		"ShrinkTask for the job":                {task + ".minReplicas": "8", "spec.restartPolicy": rules("{}", "ShrinkTask")},
		"ShrinkTask for the task":               {task + ".minReplicas": "8", task + ".restartPolicy": rules("{}", "ShrinkTask")},
		"MigratePod":                            {"spec.restartPolicy": rules("{}", "MigratePod")},
		"a pod that finds no node":              {"spec.restartPolicy": rules("{events: [PodPending]}", "RelocateJob")},
		"exit codes by presets alone":           {"spec.restartPolicy": rules("{events: [PodFailed], exitCodes: {operator: In, presets: [NVRxDoNotRequeue]}}", "FailJob")},
		"exit codes of a crash in place":        {"spec.restartPolicy": rules("{events: [PodNotReady], exitCodes: {operator: In, values: [2]}}", "FailJob")},
		"health signals":                        {"spec.restartPolicy": rules("{events: [HealthDegraded, HealthFailed], signals: [NVLinkReplay, XID79]}", "MigratePod")},
		"pod conditions":                        {"spec.restartPolicy": rules("{podConditions: [{type: DisruptionTarget}, {type: Ready, status: \"False\", reason: A}]}", "Ignore")},
		"no backoff":                            {"spec.restartPolicy": "{backoff: {}}"},
		"a backoff that does not grow":          {"spec.restartPolicy": "{backoff: {initialSeconds: 60, maxSeconds: 60}}"},
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			if errs := server.Create(server.prepare(t, change.apply(t, minimal))); len(errs) > 0 {
				t.Error(errs.ToAggregate())
			}
		})
	}
}

func TestDefaults(t *testing.T) {
	server := newAPIServer(t)
	const rules = "[{name: r, match: {podConditions: [{type: Ready}]}, steps: [{action: RestartPod}]}]"
	obj := server.prepare(t, set{
		"spec.framework":                      "{pytorch: {}}",
		"spec.networkTopology":                "{highestTierAllowed: 1}",
		"spec.restartPolicy":                  "{rules: " + rules + "}",
		"spec.tasks[0].replicas":              "",
		"spec.tasks[0].template.spec.volumes": "[]",
		"spec.tasks[0].partition":             "{size: 1, networkTopology: {highestTierAllowed: 1}}",
		"spec.tasks[0].restartPolicy":         "{rules: " + rules + ", budget: {}, backoff: {}, unreachableNode: {}}",
	}.apply(t, minimal))
	// The parts of a policy have no defaults, because a task's policy is laid over the job's
	// part by part; what is inside a part has.
	want := `
queue: default
hold: {policy: OnRecovery, seconds: 600}
framework: {pytorch: {master: master, worker: worker, port: 23456}}
networkTopology: {mode: hard, highestTierAllowed: 1}
restartPolicy:
  rules: [{name: r, match: {podConditions: [{type: Ready, status: "True"}]}, steps: [{action: RestartPod, afterSeconds: 0}], charge: Auto}]
tasks:
- name: worker
  replicas: 1
  partition: {size: 1, networkTopology: {mode: hard, highestTierAllowed: 1}}
  template: {spec: {volumes: [], containers: [{name: train, image: train}]}}
  restartPolicy:
    rules: [{name: r, match: {podConditions: [{type: Ready, status: "True"}]}, steps: [{action: RestartPod, afterSeconds: 0}], charge: Auto}]
    budget: {maxRestarts: 20, windowSeconds: 86400}
    backoff: {initialSeconds: 10, maxSeconds: 300}
    unreachableNode: {policy: ForceDelete, afterSeconds: 60}
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
		if errs := server.Create(server.prepare(t, doc.apply(t, minimal))); len(errs) > 0 {
			t.Errorf("%s: %v", trigger, errs.ToAggregate())
		}
	}
}

func TestSamples(t *testing.T) {
	server := newAPIServer(t)
	files, err := filepath.Glob("../../config/samples/*.yaml")
	policies, err2 := filepath.Glob("../../config/samples/restart-policies/*.yaml")
	if err := errors.Join(err, err2); err != nil || len(files) == 0 || len(policies) == 0 {
		t.Fatalf("no samples: %v", err)
	}
	files = append(files, policies...)
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
			if errs := server.Create(server.prepare(t, doc)); len(errs) > 0 {
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
	if errs := server.Create(server.prepare(t, doc)); len(errs) > 0 {
		t.Error(errs.ToAggregate())
	}
}

// A rule that has any part of match but events leaves something for the rules after it. A new part needs an example here, and has
// to be known to the CEL rule of rules.
func TestEveryPartOfMatchNarrows(t *testing.T) {
	server := newAPIServer(t)
	examples := map[string]string{
		"exitCodes": "{operator: In, values: [1]}", "reasons": "[OOMKilled]", "podConditions": "[{type: DisruptionTarget}]",
		"signals": "[NVLinkReplay]", "tasks": "[worker]", "gangRunning": "true",
	}
	spec := server.Structural.Properties["spec"]
	policy := spec.Properties["restartPolicy"]
	rules := policy.Properties["rules"]
	match := rules.Items.Properties["match"]
	for name := range match.Properties {
		if name == "events" {
			continue
		}
		example, ok := examples[name]
		if !ok {
			t.Errorf("match.%s has no example", name)
			continue
		}
		narrow := set{"spec.restartPolicy.rules": "[{name: narrow, match: {" + name + ": " + example + "}, steps: [{action: Ignore}]}, {name: rest, match: {}, steps: [{action: RestartPod}]}]"}
		if errs := server.Create(server.prepare(t, narrow.apply(t, minimal))); len(errs) > 0 {
			t.Errorf("a rule after one with match.%s is refused: %v", name, errs.ToAggregate())
		}
	}
}
