// What the API server accepts and refuses of a restart request.

package v1alpha1

import "testing"

func TestRefusesRestartRequest(t *testing.T) {
	const request = "spec.restartRequest"
	asks := func(action, pods string) set {
		return set{request: "{id: a, action: " + action + ", pods: " + pods + "}"}
	}

	checkRefusals(t, map[string]refusal{
		"no id":            {set: set{request: "{action: RestartJob}"}, field: request + ".id", want: "Required value"},
		"an empty id":      {set: set{request: `{id: "", action: RestartJob}`}, field: request + ".id", want: "at least 1 chars"},
		"no action":        {set: set{request: "{id: a}"}, field: request + ".action", want: "Required value"},
		"Ignore":           {set: asks("Ignore", "[{task: worker, index: 0}]"), field: request + ".action", want: `supported values: "RestartProcesses"`},
		"FailJob":          {set: asks("FailJob", "[]"), field: request + ".action", want: `supported values: "RestartProcesses"`},
		"no pods":          {set: set{request: "{id: a, action: MigratePod}"}, field: request + ".pods", want: "MigratePod needs to know which pods"},
		"an empty list":    {set: asks("RestartTask", "[]"), field: request + ".pods", want: "RestartTask needs to know which pods"},
		"pods of all":      {set: asks("RelocateJob", "[{task: worker, index: 0}]"), field: request + ".pods", want: "RelocateJob is about every pod of the job"},
		"pods of programs": {set: asks("RestartProcesses", "[{task: worker, index: 0}]"), field: request + ".pods", want: "RestartProcesses is about every pod of the job"},
		"an unknown task":  {set: asks("RestartPod", "[{task: ghost, index: 0}]"), field: request + ".pods", want: "names a task that is not in spec.tasks"},
		"a pod twice":      {set: asks("RestartPod", "[{task: worker, index: 0}, {task: worker, index: 0}]"), field: request + ".pods[1]", want: "Duplicate value"},
		"below zero":       {set: asks("RestartPod", "[{task: worker, index: -1}]"), field: request + ".pods[0].index", want: "greater than or equal to 0"},
	})
}

// A request stays in the spec when it has been carried out, and must not keep a task from shrinking.
func TestRestartRequestMayBeChanged(t *testing.T) {
	const one = "{id: a, action: RestartPod, pods: [{task: worker, index: 14}]}"
	checkUpdates(t, map[string]updated{
		"given":                   {doc: full, set: set{"spec.restartRequest": one}},
		"a pod that it has not":   {doc: full, set: set{"spec.restartRequest": "{id: a, action: RestartPod, pods: [{task: worker, index: 99}]}"}},
		"all of them, by default": {doc: minimal, set: set{"spec.restartRequest": "{id: a, action: RestartJob, reason: new image}"}},
	})
}
