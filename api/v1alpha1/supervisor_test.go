// What the API server accepts and refuses of a job with a supervisor.

package v1alpha1

import (
	"maps"
	"testing"
)

const container = "spec.tasks[0].template.spec.containers[0]"

// supervisedBy is the least that a job with a supervisor has to have, and more.
func supervisedBy(more set) set {
	all := set{"spec.supervisor": "{}", container: "{name: train, image: train, command: [python, train.py]}"}
	maps.Copy(all, more)
	return all
}

func TestRefusesSupervisor(t *testing.T) {
	checkRefusals(t, map[string]refusal{
		"no command": {
			set:   set{"spec.supervisor": "{}"},
			field: "spec.supervisor", want: "task worker: supervisor runs the program of the first container, and cannot know the one that its image begins with: give that container a command",
		},
		"liveness probe": {
			set:   supervisedBy(set{container + ".livenessProbe": "{tcpSocket: {port: 80}}"}),
			field: "spec.supervisor", want: "task worker: a livenessProbe of the first container would kill it while its program waits",
		},
		"startup probe": {
			set:   supervisedBy(set{container + ".startupProbe": "{tcpSocket: {port: 80}}"}),
			field: "spec.supervisor", want: "task worker: a startupProbe of the first container does not run again",
		},
		"mpi": {
			set: supervisedBy(set{
				"spec.framework": "{mpi: {launcher: worker, worker: w}}", "spec.tasks[0].replicas": "1",
				"spec.tasks[1]": "{name: w, template: {spec: {containers: [{name: c, command: [sshd]}]}}}",
			}),
			field: "spec.supervisor", want: "supervisor does not go with framework.mpi",
		},
		"partition": {
			set:   supervisedBy(set{"spec.tasks[0].partition": "{size: 8}"}),
			field: "spec.supervisor", want: "does not go with a partition yet",
		},
		"a relative checkpoint file": {
			set:   supervisedBy(set{"spec.supervisor": "{progress: {checkpointFile: checkpoints/latest}}"}),
			field: "spec.supervisor.progress.checkpointFile", want: "checkpointFile has to be an absolute path, as in /checkpoints/latest",
		},
		"progress by nothing": {
			set:   supervisedBy(set{"spec.supervisor": "{progress: {}}"}),
			field: "spec.supervisor.progress.checkpointFile", want: "checkpointFile and logs are both missing: give one of them, or leave progress out",
		},
		"restarts without checkpoints to count": {
			set:   supervisedBy(set{"spec.supervisor": "{progress: {logs: {preset: NeMo}, maxRestarts: 2}}"}),
			field: "spec.supervisor.progress.maxRestarts", want: "needs checkpointFile",
		},
		"another preset": {
			set:   supervisedBy(set{"spec.supervisor": "{progress: {logs: {preset: megatron}}}"}),
			field: "spec.supervisor.progress.logs.preset", want: "Unsupported value",
		},
		"logs without steps": {
			set:   supervisedBy(set{"spec.supervisor": "{progress: {logs: {checkpointDone: {regex: saved, example: saved}}}}"}),
			field: "spec.supervisor.progress.logs.trainingStep", want: "preset and trainingStep are both missing",
		},
		"a step without a number": {
			set:   supervisedBy(set{"spec.supervisor": "{progress: {logs: {trainingStep: {regex: 'step ([0-9]+)', example: step 5}}}}"}),
			field: "spec.supervisor.progress.logs.trainingStep.regex", want: "regex needs a group for the number of the step, as in step (?P<globalStep>[0-9]+)",
		},
		"an example of other lines": {
			set:   supervisedBy(set{"spec.supervisor": "{progress: {logs: {preset: Megatron, checkpointDone: {regex: saved, example: stored}}}}"}),
			field: "spec.supervisor.progress.logs.checkpointDone.example", want: "regex is not found in example: correct one of them",
		},
		"a checkpoint without an end": {
			set:   supervisedBy(set{"spec.supervisor": "{progress: {logs: {preset: HuggingFace, checkpointSave: {regex: saving, example: saving}}}}"}),
			field: "spec.supervisor.progress.logs.checkpointDone", want: "checkpointSave has the gang wait for checkpointDone, which is missing",
		},
		"a slow regular expression": {
			set:   supervisedBy(set{"spec.supervisor": "{progress: {logs: {preset: NeMo, checkpointDone: {regex: '(?:\\pL?){990}saved', example: saved}}}}"}),
			field: "spec.supervisor.progress.logs.checkpointDone.regex", want: "repetition by a number, as in {3}, is too slow: use * or +",
		},
		"no regular expression": {
			set:   supervisedBy(set{"spec.supervisor": "{progress: {logs: {trainingStep: {regex: 'step (?P<globalStep>[0-9+', example: step 5}}}}"}),
			field: "spec.supervisor.progress.logs.trainingStep", want: "missing closing ]",
		},
		"no restart without progress": {
			set:   supervisedBy(set{"spec.supervisor": "{progress: {checkpointFile: /latest, maxRestarts: 0}}"}),
			field: "spec.supervisor.progress.maxRestarts", want: "greater than or equal to 1",
		},
		"a relative folder of checkpoints": {
			set:   supervisedBy(set{"spec.supervisor": "{checkpointTiers: [{path: checkpoints, scope: Pod}]}"}),
			field: "spec.supervisor.checkpointTiers[0].path", want: "path has to be an absolute path outside /dev/shm, as in /checkpoints",
		},
		"checkpoints that are removed before the next run": {
			set:   supervisedBy(set{"spec.supervisor": "{checkpointTiers: [{path: /dev/shm/copies, scope: Pod}]}"}),
			field: "spec.supervisor.checkpointTiers[0].path", want: "for memory, mount an emptyDir of medium Memory elsewhere",
		},
		"checkpoints that nobody is known to see": {
			set:   supervisedBy(set{"spec.supervisor": "{checkpointTiers: [{path: /checkpoints}]}"}),
			field: "spec.supervisor.checkpointTiers[0].scope", want: "Required value",
		},
		"checkpoints of another format": {
			set:   supervisedBy(set{"spec.supervisor": "{checkpointTiers: [{path: /checkpoints, scope: Shared, format: Orbax}]}"}),
			field: "spec.supervisor.checkpointTiers[0].format", want: "Unsupported value",
		},
		"the same folder twice": {
			set:   supervisedBy(set{"spec.supervisor": "{checkpointTiers: [{path: /checkpoints, scope: Shared}, {path: /checkpoints, scope: Node}]}"}),
			field: "spec.supervisor.checkpointTiers[1]", want: "Duplicate value",
		},
		"two shared folders": {
			set:   supervisedBy(set{"spec.supervisor": "{checkpointTiers: [{path: /a, scope: Shared}, {path: /b, scope: Shared}]}"}),
			field: "spec.supervisor.checkpointTiers", want: "two folders are Shared",
		},
		"one piece of metadata for folders of each rank": {
			set:   supervisedBy(set{"spec.supervisor": "{checkpointTiers: [{path: /a, scope: Node, format: DCP}]}"}),
			field: "spec.supervisor.checkpointTiers[0].format", want: "format: DCP is for scope: Shared",
		},
		"checkpoints of survivors": {
			set:   supervisedBy(set{"spec.supervisor": "{survivors: Keep, checkpointTiers: [{path: /checkpoints, scope: Shared}]}"}),
			field: "spec.supervisor.checkpointTiers", want: "survivors: Keep leaves running load nothing: leave out one of them",
		},
		"other survivors": {
			set:   supervisedBy(set{"spec.supervisor": "{survivors: Stop}"}),
			field: "spec.supervisor.survivors", want: "Unsupported value",
		},
		"its action without it": {
			set:   set{"spec.restartPolicy.rules": "[{name: again, match: {}, steps: [{action: RestartProcesses}]}]"},
			field: "spec.restartPolicy.rules", want: "rule again: RestartProcesses needs spec.supervisor",
		},
	})
}

func TestAcceptsSupervisor(t *testing.T) {
	server := newAPIServer(t)
	for name, set := range map[string]set{
		"alone":                       supervisedBy(nil),
		"with a readiness probe":      supervisedBy(set{container + ".readinessProbe": "{tcpSocket: {port: 80}}"}),
		"survivors and progress":      supervisedBy(set{"spec.supervisor": "{survivors: Keep, progress: {checkpointFile: /checkpoints/latest, maxRestarts: 5}}"}),
		"lines of its output":         supervisedBy(set{"spec.supervisor": "{progress: {logs: {preset: Megatron, trainingStep: {regex: 'step (?P<globalStep>\\d+)/(?P<totalSteps>\\d+)', example: step 5/10}}}}"}),
		"folders of checkpoints":      supervisedBy(set{"spec.supervisor": "{checkpointTiers: [{path: /memory, scope: Pod}, {path: /dev/shmcopies, scope: Node}, {path: /checkpoints, scope: Shared, format: DCP}]}"}),
		"its action":                  supervisedBy(set{"spec.restartPolicy.rules": "[{name: again, match: {events: [ProcessFailed], exitCodes: {operator: In, values: [1]}}, steps: [{action: RestartProcesses}]}]"}),
		"an independent task without": supervisedBy(set{"spec.tasks[1]": "{name: eval, independent: true, template: {spec: {containers: [{name: c, livenessProbe: {tcpSocket: {port: 80}}}]}}}"}),
	} {
		if err := server.Create(server.prepare(t, set.apply(t, minimal))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
