// What may be changed of a TrainingJob that exists, and what not, and in which words.

package v1alpha1

import (
	"maps"
	"slices"
	"strings"
	"testing"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
)

const fixed = "cannot be changed once the job exists: create a new TrainingJob instead"

func TestUpdates(t *testing.T) {
	checkUpdates(t, map[string]updated{
		"suspend":                        {doc: full, set: set{"spec.suspend": "true"}},
		"restart policy":                 {doc: full, set: set{"spec.restartPolicy.excludeNodeSeconds": "60"}},
		"restart policy removed":         {doc: full, set: set{"spec.restartPolicy": ""}},
		"time to live":                   {doc: full, set: set{"spec.ttlSecondsAfterFinished": ""}},
		"deadline":                       {doc: full, set: set{"spec.activeDeadlineSeconds": "60"}},
		"hold":                           {doc: full, set: set{"spec.hold.policy": "OnRecovery"}},
		"metadata":                       {doc: full, set: set{"metadata.labels": "{a: b}"}},
		"nothing, with defaults written": {doc: minimal, set: set{"spec.queue": "default"}},
		"queue":                          {doc: full, set: set{"spec.queue": "other"}, field: "spec.queue", want: fixed},
		"manager":                        {doc: full, set: set{"spec.managedBy": "example.com/other"}, field: "spec.managedBy", want: fixed},
		"manager removed":                {doc: full, set: set{"spec.managedBy": ""}, field: "spec.managedBy", want: fixed},
		"manager given":                  {doc: minimal, set: set{"spec.managedBy": "example.com/other"}, field: "spec.managedBy", want: fixed},
		"queue removed":                  {doc: full, set: set{"spec.queue": ""}, field: "spec.queue", want: fixed},
		"priority class":                 {doc: full, set: set{"spec.priorityClassName": "low"}, field: "spec.priorityClassName", want: fixed},
		"priority class removed":         {doc: full, set: set{"spec.priorityClassName": ""}, field: "spec.priorityClassName", want: fixed},
		"priority class given":           {doc: minimal, set: set{"spec.priorityClassName": "low"}, field: "spec.priorityClassName", want: fixed},
		"minAvailable removed":           {doc: full, set: set{"spec.minAvailable": ""}, field: "spec.minAvailable", want: fixed},
		"minAvailable":                   {doc: full, set: set{"spec.minAvailable": "8"}, field: "spec.minAvailable", want: fixed},
		"success policy removed":         {doc: full, set: set{"spec.successPolicy": ""}, field: "spec.successPolicy", want: fixed},
		"topology removed":               {doc: full, set: set{"spec.networkTopology": ""}, field: "spec.networkTopology", want: fixed},
		"topology":                       {doc: full, set: set{"spec.networkTopology.highestTierAllowed": "2"}, field: "spec.networkTopology", want: fixed},
		"framework removed":              {doc: full, set: set{"spec.framework": ""}, field: "spec.framework", want: fixed},
	})
}

func TestUpdatesOfTasks(t *testing.T) {
	const task = "spec.tasks[0]"
	const reshaped = "tasks cannot be added, removed, renamed or reordered once the job exists"
	only := func(field, value string) string { return set{task + "." + field: value}.apply(t, minimal) }
	const running = "can only be changed while the job is suspended"
	suspended := func(state string) string { return set{"spec.suspend": "true", "status.state": state}.apply(t, full) }
	elastic := set{task + ".minReplicas": "8", task + ".maxReplicas": "32", task + ".spares": "0"}.apply(t, minimal)
	partitioned := set{task + ".partition": "{size: 4, networkTopology: {highestTierAllowed: 1}}"}.apply(t, minimal)
	shrink := "{rules: [{name: r, match: {}, steps: [{action: ShrinkTask}]}]}"

	checkUpdates(t, map[string]updated{
		"replicas":                      {doc: minimal, set: set{task + ".replicas": "8"}, field: task + ".replicas", want: "lowered where minReplicas was given from the start"},
		"replicas lowered to the least": {doc: elastic, set: set{task + ".replicas": "8"}},
		"replicas raised to the most":   {doc: elastic, set: set{task + ".replicas": "32"}},
		"replicas too few":              {doc: elastic, set: set{task + ".replicas": "7"}, field: task + ".replicas", want: "at least minReplicas, which is 8"},
		"replicas too many":             {doc: elastic, set: set{task + ".replicas": "33"}, field: task + ".replicas", want: "at most maxReplicas, which is 32"},
		"replicas left to the default":  {doc: elastic, set: set{task + ".replicas": ""}, field: task + ".replicas", want: "at least minReplicas, which is 8"},
		"replicas lowered with minReplicas alone": {
			doc: only("minReplicas", "8"), set: set{task + ".replicas": "12"},
		},
		"replicas raised with minReplicas alone": {
			doc: only("minReplicas", "8"), set: set{task + ".replicas": "17"}, field: task + ".replicas", want: "raised where maxReplicas was",
		},
		"replicas raised with maxReplicas alone": {
			doc: only("maxReplicas", "32"), set: set{task + ".replicas": "32"},
		},
		"replicas lowered with maxReplicas alone": {
			doc: only("maxReplicas", "32"), set: set{task + ".replicas": "15"}, field: task + ".replicas", want: "lowered where minReplicas was",
		},
		"replicas lowered together with a new minReplicas": {
			doc: minimal, set: set{task + ".replicas": "8", task + ".minReplicas": "8"}, field: task + ".minReplicas", want: fixed,
		},
		"replicas of partitions": {
			doc: partitioned, set: set{task + ".replicas": "20"}, field: task + ".replicas", want: "raised where maxReplicas was",
		},
		"minReplicas":         {doc: elastic, set: set{task + ".minReplicas": "4"}, field: task + ".minReplicas", want: fixed},
		"minReplicas removed": {doc: elastic, set: set{task + ".minReplicas": ""}, field: task + ".minReplicas", want: fixed},
		"maxReplicas":         {doc: elastic, set: set{task + ".maxReplicas": "64"}, field: task + ".maxReplicas", want: fixed},
		"maxReplicas given":   {doc: minimal, set: set{task + ".maxReplicas": "64"}, field: task + ".maxReplicas", want: fixed},

		"spares":         {doc: elastic, set: set{task + ".spares": "3"}},
		"spares given":   {doc: minimal, set: set{task + ".spares": "0"}, field: task + ".spares", want: "given, be it 0, from the start"},
		"spares removed": {doc: elastic, set: set{task + ".spares": ""}, field: task + ".spares", want: "cannot be left out again"},

		"restart policy given":   {doc: minimal, set: set{task + ".restartPolicy": "{excludeNodeSeconds: 0}"}},
		"restart policy removed": {doc: only("restartPolicy", "{excludeNodeSeconds: 0}"), set: set{task + ".restartPolicy": ""}},
		"restart policy":         {doc: elastic, set: set{task + ".restartPolicy": shrink}},
		"restart policy that asks too much": {
			doc: minimal, set: set{task + ".restartPolicy": shrink}, field: task + ".restartPolicy.rules", want: "rule r: ShrinkTask needs minReplicas",
		},
		"restart policy of the job that asks too much": {
			doc: minimal, set: set{"spec.restartPolicy": shrink}, field: "spec.restartPolicy.rules", want: "rule r: ShrinkTask needs a task with minReplicas",
		},

		"image": {doc: full, set: set{"spec.tasks[1].template.spec.containers[0].image": "v2"}, field: "spec.tasks", want: running},
		"label": {doc: minimal, set: set{task + ".template.metadata": "{labels: {a: b}}"}, field: "spec.tasks", want: running},
		"image while the job is to be suspended, and may run": {
			doc: suspended("Running"), set: set{"spec.tasks[1].template.spec.containers[0].image": "v2"}, field: "spec.tasks", want: running,
		},
		"image before Lockstep has seen the job": {
			doc: set{"spec.suspend": "true"}.apply(t, minimal), set: set{task + ".template.spec.containers[0].image": "v2"}, field: "spec.tasks", want: running,
		},
		"image of a suspended job":        {doc: suspended("Suspended"), set: set{"spec.tasks[1].template.spec.containers[0].image": "v2"}},
		"image of a job that is resumed":  {doc: suspended("Suspended"), set: set{"spec.suspend": "", "spec.tasks[1].template.spec.containers[0].image": "v2"}},
		"a taint of Lockstep's tolerated": {doc: suspended("Suspended"), set: set{"spec.tasks[1].template.spec.tolerations": "[{key: lockstep.dev/quarantine, operator: Exists}]"}, field: "spec.tasks[1].template.spec.tolerations", want: "must not name the taints"},

		"partition":         {doc: partitioned, set: set{task + ".partition.size": "8"}, field: task + ".partition", want: fixed},
		"partition's tier":  {doc: partitioned, set: set{task + ".partition.networkTopology.highestTierAllowed": "2"}, field: task + ".partition", want: fixed},
		"partition removed": {doc: partitioned, set: set{task + ".partition": ""}, field: task + ".partition", want: fixed},
		"partition given":   {doc: minimal, set: set{task + ".partition": "{size: 4}"}, field: task + ".partition", want: fixed},

		"name":    {doc: minimal, set: set{task + ".name": "rank"}, field: "spec.tasks", want: reshaped},
		"added":   {doc: minimal, set: set{"spec.tasks[1]": "{name: data, template: {spec: {containers: [{name: c}]}}}"}, field: "spec.tasks", want: reshaped},
		"swapped": {doc: twoAlike, set: set{"spec.tasks[0].name": "b", "spec.tasks[1].name": "a"}, field: "spec.tasks", want: reshaped},
		"removed": {
			doc: twoAlike, set: set{"spec.tasks": "[{name: a, template: {spec: {containers: [{name: c}]}}}]"},
			field: "spec.tasks", want: reshaped,
		},
	})
}

// twoAlike has two tasks that only their names tell apart.
const twoAlike = `
apiVersion: lockstep.dev/v1alpha1
kind: TrainingJob
metadata: {name: llama-70b}
spec:
  tasks:
  - {name: a, template: {spec: {containers: [{name: c}]}}}
  - {name: b, template: {spec: {containers: [{name: c}]}}}
`

type updated struct {
	doc   string
	set   set
	field string // empty: the update is accepted
	want  string
}

func checkUpdates(t *testing.T, tests map[string]updated) {
	t.Helper()
	server := newAPIServer(t)
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			old := server.prepare(t, tc.doc)
			if errs := server.Create(old); len(errs) > 0 {
				t.Fatalf("the job before the update: %v", errs.ToAggregate())
			}
			errs := server.Update(server.prepare(t, tc.set.apply(t, tc.doc)), old)
			if tc.field == "" && len(errs) > 0 {
				t.Error(errs.ToAggregate())
			}
			if tc.field != "" {
				wantError(t, errs, tc.field, tc.want)
			}
		})
	}
}

// Every field of the spec and of a task is either one that may be changed or one that a rule
// protects: a new field has to be decided on.
func TestEveryFieldIsMutableOrProtected(t *testing.T) {
	spec := newAPIServer(t).Structural.Properties["spec"]
	for path, level := range map[string]struct {
		schema  structuralschema.Structural
		mutable []string
	}{
		"spec": {
			schema: spec,
			// A task is protected field by field, and the list of tasks by their names.
			mutable: []string{"suspend", "restartPolicy", "ttlSecondsAfterFinished", "activeDeadlineSeconds", "hold", "checkpoint", "restartRequest", "tasks"},
		},
		"spec.tasks[]": {
			schema: *spec.Properties["tasks"].Items,
			// replicas and spares within limits, the template of a suspended job; another name is another task.
			mutable: []string{"restartPolicy", "replicas", "spares", "name", "template"},
		},
	} {
		var rules strings.Builder
		for _, rule := range level.schema.XValidations {
			rules.WriteString(rule.Rule + "\n")
		}
		for _, name := range slices.Sorted(maps.Keys(level.schema.Properties)) {
			protected := strings.Contains(rules.String(), "self."+name+" == oldSelf."+name+"\n") ||
				strings.Contains(rules.String(), "self."+name+" == oldSelf."+name+")")
			if protected == slices.Contains(level.mutable, name) {
				t.Errorf("%s.%s: mutable %v, protected %v", path, name, !protected, protected)
			}
		}
	}
}
