// What the API server refuses of spares, partitions, elastic tasks and policies of tasks.

package v1alpha1

import "testing"

func TestRefusesSpares(t *testing.T) {
	const task = "spec.tasks[0]"
	checkRefusals(t, map[string]refusal{
		"negative":       {set: set{task + ".spares": "-1"}, field: task + ".spares", want: "greater than or equal to 0"},
		"more than 1000": {set: set{task + ".spares": "1001"}, field: task + ".spares", want: "less than or equal to 1000"},
		"the label of one": {
			set:   set{task + ".template.metadata": `{labels: {lockstep.dev/spare: "true"}}`},
			field: task + ".template.metadata.labels", want: "lockstep.dev/spare is reserved",
		},
		"a task with the name of the spares": {
			set: set{
				task + ".spares": "0",
				"spec.tasks[1]":  "{name: worker-spare, template: {spec: {containers: [{name: c}]}}}",
			},
			field: "spec.tasks", want: "task worker-spare has the name that the spares of task worker get",
		},
	})
}

func TestRefusesElastic(t *testing.T) {
	const task = "spec.tasks[0]"
	const pytorch, worker = "{pytorch: {}}", "spec.tasks[1]"
	pair := func(framework, master string) set {
		return set{
			"spec.framework":      framework,
			task + ".minReplicas": "1",
			worker:                "{name: " + master + ", template: {spec: {containers: [{name: c}]}}}",
		}
	}
	checkRefusals(t, map[string]refusal{
		"no minReplicas":       {set: set{task + ".minReplicas": "0"}, field: task + ".minReplicas", want: "greater than or equal to 1"},
		"maxReplicas too high": {set: set{task + ".maxReplicas": "10001"}, field: task + ".maxReplicas", want: "less than or equal to 10000"},
		"fewer than minReplicas": {
			set: set{task + ".minReplicas": "17"}, field: task + ".replicas", want: "at least minReplicas, which is 17",
		},
		"more than maxReplicas": {
			set: set{task + ".maxReplicas": "15"}, field: task + ".replicas", want: "at most maxReplicas, which is 15",
		},
		"the default of replicas below minReplicas": {
			set: set{task + ".replicas": "", task + ".minReplicas": "2"}, field: task + ".replicas", want: "at least minReplicas, which is 2",
		},
		"minReplicas above maxReplicas": {
			set: set{task + ".minReplicas": "16", task + ".maxReplicas": "15"}, field: task + ".replicas", want: "at most maxReplicas, which is 15",
		},
		"minReplicas with a partition": {
			set: set{task + ".minReplicas": "8", task + ".partition": "{size: 4}"}, field: task + ".partition",
			want: "does not go with minReplicas or maxReplicas",
		},
		"maxReplicas with a partition": {
			set: set{task + ".maxReplicas": "32", task + ".partition": "{size: 4}"}, field: task + ".partition",
			want: "does not go with minReplicas or maxReplicas",
		},
		"the worker of pytorch": {
			set: pair(pytorch, "master"), field: "spec.tasks", want: "task worker cannot have minReplicas or maxReplicas with framework.pytorch, which writes WORLD_SIZE",
		},
		"the master of pytorch": {
			doc: full, set: set{task + ".maxReplicas": "2"}, field: "spec.tasks", want: "task master cannot have",
		},
		"the worker of mpi": {
			set: pair("{mpi: {}}", "master"), field: "spec.tasks", want: "task worker cannot have minReplicas or maxReplicas with framework.mpi, which writes MPI_HOST",
		},
		"the worker of tensorflow": {
			set: pair("{tensorflow: {}}", "data"), field: "spec.tasks", want: "task worker cannot have minReplicas or maxReplicas with framework.tensorflow, which writes TF_CONFIG",
		},
		"the ps of tensorflow by default": {
			set:   set{"spec.framework": "{tensorflow: {}}", worker: "{name: ps, maxReplicas: 2, template: {spec: {containers: [{name: c}]}}}"},
			field: "spec.tasks", want: "task ps cannot have",
		},
		"the evaluator of tensorflow by name": {
			set:   set{"spec.framework": "{tensorflow: {evaluator: judge}}", worker: "{name: judge, maxReplicas: 2, template: {spec: {containers: [{name: c}]}}}"},
			field: "spec.tasks", want: "task judge cannot have",
		},
	})
}

func TestRefusesPartition(t *testing.T) {
	const task = "spec.tasks[0]"
	const partition = task + ".partition"
	checkRefusals(t, map[string]refusal{
		"without a size": {set: set{partition: "{}"}, field: partition + ".size", want: "Required value"},
		"of no pods":     {set: set{partition: "{size: 0}"}, field: partition + ".size", want: "greater than or equal to 1"},
		"one of them not whole": {
			set: set{partition: "{size: 5}"}, field: task + ".replicas", want: "a multiple of partition.size, which is 5",
		},
		"larger than the task": {
			set: set{partition: "{size: 32}"}, field: task + ".replicas", want: "a multiple of partition.size, which is 32",
		},
		"hard topology without a tier": {
			set:   set{partition: "{size: 4, networkTopology: {}}"},
			field: partition + ".networkTopology.highestTierAllowed", want: "mode hard needs highestTierAllowed",
		},
		"a tier above that of the job": {
			set: set{
				partition:              "{size: 4, networkTopology: {highestTierAllowed: 2}}",
				"spec.networkTopology": "{highestTierAllowed: 1}",
			},
			field: "spec.tasks", want: "task worker: partition.networkTopology.highestTierAllowed may be at most 1",
		},
		"a soft tier above that of the job": {
			set: set{
				partition:              "{size: 4, networkTopology: {mode: soft, highestTierAllowed: 2}}",
				"spec.networkTopology": "{highestTierAllowed: 1}",
			},
			field: "spec.tasks", want: "task worker: partition.networkTopology.highestTierAllowed may be at most 1",
		},
	})
}

// A task's policy has the rules of the job's, and some of its own.
func TestRefusesPolicyOfTask(t *testing.T) {
	const policy = "spec.tasks[0].restartPolicy"
	const rules = policy + ".rules"
	rule := func(match, steps string) set {
		return set{rules: "[{name: r, match: " + match + ", steps: " + steps + "}]"}
	}
	checkRefusals(t, map[string]refusal{
		"match.tasks": {
			set: rule("{tasks: [worker]}", "[{action: RestartPod}]"), field: rules,
			want: "rule r: match.tasks has no place in the restartPolicy of a task",
		},
		"RestartPartition without a partition": {
			set: rule("{}", "[{action: RestartPod}, {action: RestartPartition, afterSeconds: 60}]"), field: rules,
			want: "rule r: RestartPartition needs a partition: give the task one, or use RestartTask",
		},
		"ShrinkTask without minReplicas": {
			set: rule("{}", "[{action: ShrinkTask}]"), field: rules, want: "rule r: ShrinkTask needs minReplicas",
		},
		"ShrinkTask where another task has minReplicas": {
			set: set{
				rules:           "[{name: r, match: {}, steps: [{action: ShrinkTask}]}]",
				"spec.tasks[1]": "{name: data, minReplicas: 1, template: {spec: {containers: [{name: c}]}}}",
			},
			field: rules, want: "rule r: ShrinkTask needs minReplicas",
		},
		"two rules of one name": {
			set:   set{rules: "[{name: r, match: {reasons: [A]}, steps: [{action: Ignore}]}, {name: r, match: {}, steps: [{action: Ignore}]}]"},
			field: rules + "[1]", want: "Duplicate value",
		},
		"rule after one that matches everything": {
			set:   set{rules: "[{name: all, match: {}, steps: [{action: Ignore}]}, {name: late, match: {reasons: [A]}, steps: [{action: Ignore}]}]"},
			field: rules, want: "rule late can never apply",
		},
		"steps out of order": {
			set:   rule("{}", "[{action: RestartPod, afterSeconds: 90}, {action: RestartJob, afterSeconds: 60}]"),
			field: rules + "[0].steps", want: "later than the one before",
		},
		"backoff that begins above its end": {
			set:   set{policy: "{backoff: {initialSeconds: 60, maxSeconds: 30}}"},
			field: policy + ".backoff.maxSeconds", want: "at least initialSeconds, which is 60",
		},
		"negative budget": {
			set: set{policy: "{budget: {maxRestarts: -1}}"}, field: policy + ".budget.maxRestarts", want: "greater than or equal to 0",
		},
	})
}
