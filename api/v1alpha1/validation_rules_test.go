// What the API server refuses of a restart policy, where, and in which words.

package v1alpha1

import "testing"

func TestRefusesRule(t *testing.T) {
	const rules = "spec.restartPolicy.rules"
	const match, steps = rules + "[0].match", rules + "[0].steps"
	rule := func(match, steps string) set {
		return set{rules: "[{name: r, match: " + match + ", steps: " + steps + "}]"}
	}
	on := func(match string) set { return rule(match, "[{action: RestartPod}]") }
	ladder := func(steps string) set { return rule("{}", steps) }

	checkRefusals(t, map[string]refusal{
		"two rules of one name": {
			set:   set{rules: "[{name: r, match: {reasons: [A]}, steps: [{action: Ignore}]}, {name: r, match: {}, steps: [{action: Ignore}]}]"},
			field: rules + "[1]", want: "Duplicate value",
		},
		"rule without a match": {set: set{rules: "[{name: r, steps: [{action: Ignore}]}]"}, field: match, want: "Required value"},
		"rule after one that matches everything": {
			set:   set{rules: `[{name: all, match: {}, steps: [{action: Ignore}]}, {name: late, match: {reasons: [A]}, steps: [{action: Ignore}]}]`},
			field: rules, want: "rule late can never apply",
		},
		"rule after one for *": {
			set:   set{rules: `[{name: all, match: {events: [PodFailed, "*"]}, steps: [{action: Ignore}]}, {name: late, match: {}, steps: [{action: Ignore}]}]`},
			field: rules, want: "rule late can never apply",
		},
		"rule after one that matches its only event": {
			set:   set{rules: `[{name: failed, match: {events: [PodFailed, PodDeleted]}, steps: [{action: Ignore}]}, {name: late, match: {events: [PodFailed], exitCodes: {operator: In, values: [2]}}, steps: [{action: FailJob}]}]`},
			field: rules, want: "rule late can never apply",
		},
		"rule after one for a gang that runs, and one for either": {
			set: set{rules: `[{name: runs, match: {events: [NodeNotReady], gangRunning: true}, steps: [{action: Ignore}]}, {name: either, match: {events: [NodeNotReady]}, steps: [{action: Ignore}]},
				{name: late, match: {events: [NodeNotReady], gangRunning: false}, steps: [{action: Ignore}]}]`},
			field: rules, want: "rule late can never apply",
		},
		"unknown event":              {set: on("{events: [PodLost]}"), field: match + ".events[0]", want: "supported values"},
		"exit code 0":                {set: on("{exitCodes: {operator: In, values: [0]}}"), field: match + ".exitCodes.values[0]", want: "greater than or equal to 1"},
		"exit code out of range":     {set: on("{exitCodes: {operator: In, values: [256]}}"), field: match + ".exitCodes.values[0]", want: "less than or equal to 255"},
		"neither values nor presets": {set: on("{exitCodes: {operator: In}}"), field: match + ".exitCodes", want: "give values, or presets"},
		"a preset that is none":      {set: on("{exitCodes: {operator: In, presets: [Slurm]}}"), field: match + ".exitCodes.presets[0]", want: "MegatronRerun"},
		"no exit codes":              {set: on("{exitCodes: {operator: In, values: []}}"), field: match + ".exitCodes.values", want: "at least 1 items"},
		"unknown operator": {
			set: on("{exitCodes: {operator: Is, values: [1]}}"), field: match + ".exitCodes.operator", want: `"In", "NotIn"`,
		},
		"exit codes of something that does not exit": {
			set:   on("{events: [NodeGone], exitCodes: {operator: In, values: [1]}}"),
			field: match + ".exitCodes", want: "exitCodes narrows PodFailed, PodNotReady and ProcessFailed only",
		},
		"unknown task": {set: on("{tasks: [worker, launcher]}"), field: rules, want: "rule r: match.tasks names a task that is not in spec.tasks"},
		"pod condition without a type": {
			set: on("{podConditions: [{status: \"True\"}]}"), field: match + ".podConditions[0].type", want: "Required value",
		},
		"pod condition of an empty type": {
			set: on(`{podConditions: [{type: ""}]}`), field: match + ".podConditions[0].type", want: "at least 1 chars",
		},
		"pod condition of an unknown status": {
			set:   on(`{podConditions: [{type: DisruptionTarget, status: "Yes"}]}`),
			field: match + ".podConditions[0].status", want: `supported values: "True", "False", "Unknown"`,
		},
		"signals of what has none": {
			set: on("{events: [PodFailed], signals: [NVLinkReplay]}"), field: match + ".signals", want: "signals narrows HealthDegraded and HealthFailed only",
		},

		"cordons with another event": {
			set: on("{events: [NodeCordoned, NodeGone]}"), field: match + ".events", want: "a rule for NodeCordoned is for that alone",
		},
		"cordons of a gang that is down": {
			set: on("{events: [NodeCordoned], gangRunning: false}"), field: match + ".events", want: "a rule for NodeCordoned is for that alone",
		},

		"no steps":       {set: ladder("[]"), field: steps, want: "at least 1 items"},
		"unknown action": {set: ladder("[{action: Reboot}]"), field: steps + "[0].action", want: "supported values"},
		"negative time":  {set: ladder("[{action: RestartPod, afterSeconds: -1}]"), field: steps + "[0].afterSeconds", want: "greater than or equal to 0"},
		"steps out of order": {
			set:   ladder("[{action: RestartPod, afterSeconds: 90}, {action: RestartJob, afterSeconds: 60}]"),
			field: steps, want: "later than the one before",
		},
		"two steps at one time": {
			set: ladder("[{action: RestartPod}, {action: RestartJob}]"), field: steps, want: "later than the one before",
		},
		"step after FailJob": {
			set:   ladder("[{action: FailJob}, {action: RestartJob, afterSeconds: 60}]"),
			field: steps, want: "a step after FailJob can never fire",
		},
		"step beside Ignore": {
			set:   ladder("[{action: Ignore}, {action: RestartJob, afterSeconds: 60}]"),
			field: steps, want: "let it be the only step",
		},
		"RestartPartition without a partition": {
			set: ladder("[{action: RestartPod}, {action: RestartPartition, afterSeconds: 60}]"), field: rules,
			want: "rule r: RestartPartition needs a task with a partition",
		},
		"RestartPartition for a task without one": {
			doc: full, set: set{
				"spec.tasks[1].partition": "{size: 5}",
				rules:                     "[{name: r, match: {tasks: [master]}, steps: [{action: RestartPartition}]}]",
			}, field: rules, want: "rule r: RestartPartition needs a task with a partition, and the rule is for none",
		},
		"ShrinkTask without minReplicas": {
			set: ladder("[{action: ShrinkTask}]"), field: rules, want: "rule r: ShrinkTask needs a task with minReplicas",
		},
		"ShrinkTask for a task without minReplicas": {
			set: set{
				"spec.tasks[0].minReplicas": "8",
				"spec.tasks[1]":             "{name: data, template: {spec: {containers: [{name: c}]}}}",
				rules:                       "[{name: r, match: {tasks: [data]}, steps: [{action: ShrinkTask}]}]",
			}, field: rules, want: "rule r: ShrinkTask needs a task with minReplicas, and the rule is for none",
		},
		"unknown charge": {
			set:   set{rules: "[{name: r, match: {}, steps: [{action: Ignore}], charge: Half}]"},
			field: rules + "[0].charge", want: `"Auto", "Always", "Never"`,
		},
	})
}

func TestRefusesPolicy(t *testing.T) {
	const policy = "spec.restartPolicy"
	checkRefusals(t, map[string]refusal{
		"negative budget": {
			set: set{policy: "{budget: {maxRestarts: -1}}"}, field: policy + ".budget.maxRestarts", want: "greater than or equal to 0",
		},
		"budget over no time": {
			set: set{policy: "{budget: {windowSeconds: 0}}"}, field: policy + ".budget.windowSeconds", want: "greater than or equal to 1",
		},
		"negative backoff": {
			set: set{policy: "{backoff: {initialSeconds: -1}}"}, field: policy + ".backoff.initialSeconds", want: "greater than or equal to 0",
		},
		"backoff of more than a day": {
			set: set{policy: "{backoff: {maxSeconds: 86401}}"}, field: policy + ".backoff.maxSeconds", want: "less than or equal to 86400",
		},
		"backoff that begins above its end": {
			set:   set{policy: "{backoff: {initialSeconds: 60, maxSeconds: 30}}"},
			field: policy + ".backoff.maxSeconds", want: "at least initialSeconds, which is 60",
		},
		"backoff that begins above the default of its end": {
			set:   set{policy: "{backoff: {initialSeconds: 600}}"},
			field: policy + ".backoff.maxSeconds", want: "at least initialSeconds, which is 600",
		},
		"negative exclusion": {
			set: set{policy: "{excludeNodeSeconds: -1}"}, field: policy + ".excludeNodeSeconds", want: "greater than or equal to 0",
		},
		"unknown policy for unreachable nodes": {
			set:   set{policy: "{unreachableNode: {policy: Hope}}"},
			field: policy + ".unreachableNode.policy", want: `"ForceDelete", "RequireProof"`,
		},
		"wait for a gang that is down, in spite of proof": {
			set:   set{policy: "{unreachableNode: {policy: RequireProof, gangDownAfterSeconds: 5}}"},
			field: policy + ".unreachableNode.gangDownAfterSeconds", want: "leave gangDownAfterSeconds out, or make policy ForceDelete",
		},
		"longer wait for a gang that is down": {
			set:   set{policy: "{unreachableNode: {gangDownAfterSeconds: 61}}"},
			field: policy + ".unreachableNode.gangDownAfterSeconds", want: "gangDownAfterSeconds can only shorten afterSeconds, which is 60",
		},
		"negative wait for an unreachable node": {
			set:   set{policy: "{unreachableNode: {afterSeconds: -1}}"},
			field: policy + ".unreachableNode.afterSeconds", want: "greater than or equal to 0",
		},
	})
}
