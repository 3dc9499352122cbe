// What the API server accepts, refuses and fills in of a checkpoint request.

package v1alpha1

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRefusesCheckpoint(t *testing.T) {
	const checkpoint = "spec.checkpoint"
	const post, pods = checkpoint + ".request.httpPost", checkpoint + ".pods"
	at := func(httpPost string) set { return set{checkpoint: "{request: {httpPost: " + httpPost + "}}"} }
	of := func(pods string) set { return set{checkpoint: "{request: {httpPost: {port: 80}}, pods: " + pods + "}"} }
	waits := func(seconds string) set {
		return set{checkpoint: "{request: {httpPost: {port: 80}, timeoutSeconds: " + seconds + "}}"}
	}

	checkRefusals(t, map[string]refusal{
		"no request":      {set: set{checkpoint: "{}"}, field: checkpoint + ".request", want: "Required value"},
		"no endpoint":     {set: set{checkpoint: "{request: {}}"}, field: post, want: "Required value"},
		"no port":         {set: at("{path: /save}"), field: post + ".port", want: "Required value"},
		"port 0":          {set: at("{port: 0}"), field: post + ".port", want: "greater than or equal to 1"},
		"port too high":   {set: at("{port: 65536}"), field: post + ".port", want: "less than or equal to 65535"},
		"a relative path": {set: at("{port: 80, path: save}"), field: post + ".path", want: "path has to begin with /"},
		"an empty path":   {set: at(`{port: 80, path: ""}`), field: post + ".path", want: "path has to begin with /"},
		"no time":         {set: waits("0"), field: checkpoint + ".request.timeoutSeconds", want: "greater than or equal to 1"},
		"too much time":   {set: waits("3601"), field: checkpoint + ".request.timeoutSeconds", want: "less than or equal to 3600"},
		"an unknown task": {set: of("{tasks: [worker, ghost]}"), field: pods + ".tasks", want: "checkpoint.pods.tasks names ghost, which is not in spec.tasks"},
		"no tasks":        {set: of("{tasks: []}"), field: pods + ".tasks", want: "at least 1 items"},
		"a task twice":    {set: of("{tasks: [worker, worker]}"), field: pods + ".tasks[1]", want: "Duplicate value"},
		"unknown ranks":   {set: of("{ranks: Last}"), field: pods + ".ranks", want: `"All", "First"`},
	})
}

func TestCheckpointDefaults(t *testing.T) {
	server := newAPIServer(t)
	doc := set{"spec.checkpoint": "{request: {httpPost: {port: 80}}, pods: {}}"}.apply(t, minimal)
	obj := server.prepare(t, doc)
	if errs := server.Create(obj); len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	want := map[string]any{
		"request": map[string]any{"httpPost": map[string]any{"port": int64(80), "path": "/"}, "timeoutSeconds": int64(120)},
		"pods":    map[string]any{"ranks": "All"},
	}
	if diff := cmp.Diff(want, obj["spec"].(map[string]any)["checkpoint"]); diff != "" {
		t.Errorf("checkpoint (-want +got):\n%s", diff)
	}
}

// To tune it is a main use: it may be given, changed and taken away while the job runs.
func TestCheckpointMayBeChanged(t *testing.T) {
	checkUpdates(t, map[string]updated{
		"given":   {doc: minimal, set: set{"spec.checkpoint": "{request: {httpPost: {port: 80}}}"}},
		"changed": {doc: full, set: set{"spec.checkpoint.request.timeoutSeconds": "600"}},
		"removed": {doc: full, set: set{"spec.checkpoint": ""}},
		"changed to a task that is none": {
			doc: full, set: set{"spec.checkpoint.pods.tasks": "[ghost]"}, field: "spec.checkpoint.pods.tasks", want: "names ghost",
		},
	})
}
