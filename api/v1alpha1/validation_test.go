// What the API server refuses of a new TrainingJob, where, and in which words.

package v1alpha1

import (
	"testing"
)

type refusal struct {
	doc   string // default: minimal
	set   set
	field string
	want  string
}

func checkRefusals(t *testing.T, tests map[string]refusal) {
	t.Helper()
	server := newAPIServer(t)
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			doc := tc.doc
			if doc == "" {
				doc = minimal
			}
			obj := server.prepare(t, tc.set.apply(t, doc))
			wantError(t, server.Create(obj), tc.field, tc.want)
		})
	}
}

func TestRefusesJob(t *testing.T) {
	checkRefusals(t, map[string]refusal{
		"a manager without a domain": {set: set{"spec.managedBy": "multikueue"}, field: "spec.managedBy", want: "has to be a domain and a path"},
		"a manager without a path":   {set: set{"spec.managedBy": "kueue.x-k8s.io/"}, field: "spec.managedBy", want: "has to be a domain and a path"},
		"Lockstep as another manager": {
			set: set{"spec.managedBy": "lockstep.dev/manager"}, field: "spec.managedBy", want: "leave it out for Lockstep",
		},
		"name that starts with a digit": {
			set: set{"metadata.name": "7b"}, field: "metadata", want: "start with a letter",
		},
		"name with a dot": {
			set: set{"metadata.name": "llama.70b"}, field: "metadata", want: "must not hold dots",
		},
		"name too long for its pods": {
			// 63 - len("-999-worker-15") = 49
			set:   set{"metadata.name": "a2345678901234567890123456789012345678901234567890"},
			field: "metadata", want: "at most 49 here",
		},
		"name too long for the digits of the replicas": {
			set: set{
				"metadata.name":          "a234567890123456789012345678901234567890123456789",
				"spec.tasks[0].replicas": "101",
			},
			field: "metadata", want: "at most 48 here",
		},
		"name too long for the digits of maxReplicas": {
			set: set{
				"metadata.name":             "a234567890123456789012345678901234567890123456789",
				"spec.tasks[0].maxReplicas": "101",
			},
			field: "metadata", want: "at most 48 here",
		},
		"name too long for the spares": {
			// 63 - len("-999-worker-spare-999") = 42; spares may be raised later
			set: set{
				"metadata.name":        "a234567890123456789012345678901234567890123",
				"spec.tasks[0].spares": "0",
			},
			field: "metadata", want: "at most 42 here",
		},
		"no tasks":       {set: set{"spec.tasks": "[]"}, field: "spec.tasks", want: "at least 1 items"},
		"tasks left out": {set: set{"spec.tasks": ""}, field: "spec.tasks", want: "Required value"},
		"empty queue":    {set: set{"spec.queue": `""`}, field: "spec.queue", want: "at least 1 chars"},
		"minAvailable above the replicas": {
			set: set{"spec.minAvailable": "17"}, field: "spec.minAvailable", want: "at most 16",
		},
		"minAvailable above the replicas of two tasks": {
			doc: full, set: set{"spec.minAvailable": "17"}, field: "spec.minAvailable", want: "at most 16",
		},
		"minAvailable 0": {
			set: set{"spec.minAvailable": "0"}, field: "spec.minAvailable", want: "greater than or equal to 1",
		},
		"hard topology without a tier": {
			set:   set{"spec.networkTopology": "{mode: hard}"},
			field: "spec.networkTopology.highestTierAllowed", want: "mode hard needs highestTierAllowed",
		},
		"topology is hard by default": {
			set:   set{"spec.networkTopology": "{}"},
			field: "spec.networkTopology.highestTierAllowed", want: "mode hard needs highestTierAllowed",
		},
		"unknown topology mode": {
			set:   set{"spec.networkTopology": "{mode: firm}"},
			field: "spec.networkTopology.mode", want: `supported values: "hard", "soft"`,
		},
		"negative tier": {
			set:   set{"spec.networkTopology": "{highestTierAllowed: -1}"},
			field: "spec.networkTopology.highestTierAllowed", want: "greater than or equal to 0",
		},
		"minAvailable above what an elastic task is sure to have": {
			set:   set{"spec.minAvailable": "9", "spec.tasks[0].minReplicas": "8"},
			field: "spec.minAvailable", want: "at most 8, the sum of their replicas, or minReplicas",
		},
		"minAvailable above what tasks are sure to have, one of them elastic": {
			set: set{
				"spec.minAvailable": "11", "spec.tasks[0].minReplicas": "8",
				"spec.tasks[1]": "{name: data, replicas: 2, template: {spec: {containers: [{name: c}]}}}",
			},
			field: "spec.minAvailable", want: "at most 10, the sum",
		},
		"minAvailable below all pods with a partition": {
			set:   set{"spec.minAvailable": "12", "spec.tasks[0].partition": "{size: 4}"},
			field: "spec.minAvailable", want: "less than all pods where a task has a partition",
		},
		"successPolicy of an unknown task": {
			set:   set{"spec.successPolicy": "{tasks: [worker, launcher]}"},
			field: "spec.successPolicy.tasks", want: "names launcher, which is not in spec.tasks",
		},
		"successPolicy of no task": {
			set: set{"spec.successPolicy": "{tasks: []}"}, field: "spec.successPolicy.tasks", want: "at least 1 items",
		},
		"no deadline at all": {
			set:   set{"spec.activeDeadlineSeconds": "0"},
			field: "spec.activeDeadlineSeconds", want: "greater than or equal to 1",
		},
		"negative time to live": {
			set:   set{"spec.ttlSecondsAfterFinished": "-1"},
			field: "spec.ttlSecondsAfterFinished", want: "greater than or equal to 0",
		},
		"negative hold": {
			set: set{"spec.hold": "{seconds: -1}"}, field: "spec.hold.seconds", want: "greater than or equal to 0",
		},
		"unknown hold policy": {
			set: set{"spec.hold": "{policy: Never}"}, field: "spec.hold.policy", want: `"OnRecovery", "Always"`,
		},
	})
}

func TestRefusesFramework(t *testing.T) {
	checkRefusals(t, map[string]refusal{
		"two frameworks": {
			set: set{"spec.framework": "{pytorch: {}, ray: {}}"}, field: "spec.framework", want: "at most one",
		},
		"pytorch without its default master": {
			set:   set{"spec.framework": "{pytorch: {}}"},
			field: "spec.framework.pytorch.master", want: "the task master, which has to be in spec.tasks",
		},
		"pytorch with two masters": {
			doc: full, set: set{"spec.tasks[0].replicas": "2"},
			field: "spec.framework.pytorch.master", want: "with 1 replica",
		},
		"pytorch with a worker that is not there": {
			doc: full, set: set{"spec.framework.pytorch.worker": "wrker"},
			field: "spec.framework.pytorch.worker", want: "wrker, which is not in spec.tasks",
		},
		"pytorch with the master as worker": {
			doc: full, set: set{"spec.framework.pytorch.worker": "master"},
			field: "spec.framework.pytorch.worker", want: "two tasks",
		},
		"pytorch with a port out of range": {
			doc: full, set: set{"spec.framework.pytorch.port": "65536"},
			field: "spec.framework.pytorch.port", want: "less than or equal to 65535",
		},
		"mpi without its default launcher": {
			set:   set{"spec.framework": "{mpi: {}}"},
			field: "spec.framework.mpi.launcher", want: "the task master, which",
		},
		"mpi without a worker": {
			set:   set{"spec.framework": "{mpi: {launcher: worker, worker: rank}}"},
			field: "spec.framework.mpi.worker", want: "rank, which is not in spec.tasks",
		},
		"mpi with the launcher as worker": {
			set:   set{"spec.framework": "{mpi: {launcher: worker}}", "spec.tasks[0].replicas": "1"},
			field: "spec.framework.mpi.worker", want: "two tasks",
		},
		"tensorflow without a worker": {
			set:   set{"spec.framework": "{tensorflow: {worker: w}}"},
			field: "spec.framework.tensorflow.worker", want: "w, which is not",
		},
		"tensorflow with an unknown ps": {
			set:   set{"spec.framework": "{tensorflow: {ps: params}}"},
			field: "spec.framework.tensorflow.ps", want: "params, which is not",
		},
		"tensorflow with an unknown chief": {
			set:   set{"spec.framework": "{tensorflow: {chief: boss}}"},
			field: "spec.framework.tensorflow.chief", want: "boss, which is not",
		},
		"tensorflow with an unknown evaluator": {
			set:   set{"spec.framework": "{tensorflow: {evaluator: judge}}"},
			field: "spec.framework.tensorflow.evaluator", want: "judge, which is not",
		},
		"ray without its default head": {
			set: set{"spec.framework": "{ray: {}}"}, field: "spec.framework.ray.head", want: "the task head, which",
		},
		"ray without a worker": {
			doc: full, set: set{"spec.framework": "{ray: {head: master, worker: w}}"},
			field: "spec.framework.ray.worker", want: "w, which is not",
		},
		"ray with the head as worker": {
			doc: full, set: set{"spec.framework": "{ray: {head: master, worker: master}}"},
			field: "spec.framework.ray.worker", want: "two tasks",
		},
	})
}

// The status of a job has an entry for each of its ranks, whatever their tasks.
func TestRefusesMoreRanksThanItsStatusHasRoomFor(t *testing.T) {
	checkRefusals(t, map[string]refusal{
		"too many together": {doc: full, set: set{"spec.tasks[1].replicas": "10000"}, field: "spec.tasks", want: "at most 10000 are supported"},
	})
}

func TestRefusesTask(t *testing.T) {
	const task, spec = "spec.tasks[0]", "spec.tasks[0].template.spec"
	checkRefusals(t, map[string]refusal{
		"two tasks of one name": {
			doc: full, set: set{"spec.tasks[1].name": "master"}, field: "spec.tasks[1]", want: "Duplicate value",
		},
		"name in capitals":  {set: set{task + ".name": "Worker"}, field: task + ".name", want: "should match"},
		"no replicas":       {set: set{task + ".replicas": "0"}, field: task + ".replicas", want: "greater than or equal to 1"},
		"too many replicas": {set: set{task + ".replicas": "10001"}, field: task + ".replicas", want: "less than or equal to 10000"},
		"template without a spec": {
			set: set{task + ".template": "{}"}, field: spec + ".containers", want: "at least one container",
		},
		"no containers": {
			set: set{spec + ".containers": "[]"}, field: spec + ".containers", want: "at least one container",
		},
		"restartPolicy Always": {
			set: set{spec + ".restartPolicy": "Always"}, field: spec + ".restartPolicy", want: "OnFailure",
		},
		"another scheduler": {
			set: set{spec + ".schedulerName": "default-scheduler"}, field: spec + ".schedulerName", want: "has to be volcano",
		},
		"a node of its own": {
			set: set{spec + ".nodeName": "node-1"}, field: spec + ".nodeName", want: "Lockstep and Volcano place the pods",
		},
		"a scheduling gate of its own": {
			set:   set{spec + ".schedulingGates": "[{name: example.com/mine}]"},
			field: spec + ".schedulingGates", want: "Lockstep places the pods",
		},
		"a label of Lockstep's": {
			set:   set{task + ".template.metadata": "{labels: {lockstep.dev/task: x}}"},
			field: task + ".template.metadata.labels", want: "lockstep.dev/task is reserved",
		},
		"an annotation of Volcano's": {
			set:   set{task + ".template.metadata": "{annotations: {scheduling.k8s.io/group-name: x}}"},
			field: task + ".template.metadata.annotations", want: "scheduling.k8s.io/group-name is reserved",
		},
	})
}
