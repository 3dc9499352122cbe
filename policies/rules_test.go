package policies

import (
	"testing"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/rules"
	"github.com/lockstep-dev/lockstep/test/check"
)

func TestMatch(t *testing.T) {
	crash := func(codes ...int32) rules.Failure {
		f := rules.Failure{Event: v1alpha1.PodFailed, Rank: gang.Rank{Task: "worker", Index: 0}}
		for i, code := range codes {
			f.Details.Containers = append(f.Details.Containers, gang.ContainerFailure{Name: []string{"train", "sidecar"}[i], ExitCode: code, Reason: "Error"})
		}
		return f
	}
	reason := func(f rules.Failure, reason string) rules.Failure { f.Details.Reason = reason; return f }
	disrupted := func(f rules.Failure, reason string) rules.Failure { f.Disrupted = reason; return f }
	in, notIn := v1alpha1.ExitCodesIn, v1alpha1.ExitCodesNotIn
	preset := func(operator v1alpha1.ExitCodesOperator, of v1alpha1.ExitCodePreset, values ...int32) v1alpha1.Rule {
		r := rule("r", exits(operator, "", values...))
		r.Match.ExitCodes.Presets = []v1alpha1.ExitCodePreset{of}
		return r
	}
	tests := map[string]struct {
		rule    v1alpha1.Rule
		failure rules.Failure
		want    bool
	}{
		"no part given matches all":             {rule("r"), crash(1), true},
		"any event":                             {rule("r", on(v1alpha1.AnyEvent)), crash(1), true},
		"its event among others":                {rule("r", on(v1alpha1.NodeGone, v1alpha1.PodFailed)), crash(1), true},
		"another event":                         {rule("r", on(v1alpha1.PodDeleted)), crash(1), false},
		"its task":                              {rule("r", ofTasks("head", "worker")), crash(1), true},
		"another task":                          {rule("r", ofTasks("head")), crash(1), false},
		"its exit code":                         {rule("r", exits(in, "", 1, 2)), crash(2), true},
		"another exit code":                     {rule("r", exits(in, "", 1, 2)), crash(3), false},
		"not this exit code, and it is":         {rule("r", exits(notIn, "", 1, 2)), crash(2), false},
		"not this exit code, and it is not":     {rule("r", exits(notIn, "", 1, 2)), crash(3), true},
		"the exit code of its container":        {rule("r", exits(in, "sidecar", 2)), crash(1, 2), true},
		"the exit code of another container":    {rule("r", exits(in, "train", 2)), crash(1, 2), false},
		"the code of any container":             {rule("r", exits(in, "", 2)), crash(1, 2), true},
		"one container not with this code":      {rule("r", exits(notIn, "", 2)), crash(1, 2), true},
		"a preset of its exit code":             {preset(in, v1alpha1.NVRxDoNotRequeue), crash(93), true},
		"a preset beside values":                {preset(in, v1alpha1.NVRxDoNotRequeue, 4), crash(4), true},
		"a preset of another exit code":         {preset(in, v1alpha1.MegatronRerun), crash(93), false},
		"none of a preset":                      {preset(notIn, v1alpha1.MegatronRerun), crash(16), false},
		"a preset that is not known":            {preset(in, "Later"), crash(0), false},
		"an exit code where nothing exited":     {rule("r", exits(in, "", 1)), rules.Failure{Event: v1alpha1.NodeGone}, false},
		"no exit code where nothing exited":     {rule("r", exits(notIn, "", 1)), rules.Failure{Event: v1alpha1.NodeGone}, false},
		"the reason of a container":             {rule("r", because("OOMKilled", "Error")), crash(1), true},
		"the reason of the pod":                 {rule("r", because("Evicted")), reason(crash(), "Evicted"), true},
		"the reason of its disruption":          {rule("r", because("DeletionByTaintManager")), disrupted(crash(), "DeletionByTaintManager"), true},
		"another reason":                        {rule("r", because("OOMKilled")), crash(1), false},
		"all parts have to match, and do":       {rule("r", on(v1alpha1.PodFailed), ofTasks("worker"), because("Error"), exits(in, "train", 1)), crash(1), true},
		"all parts have to match, one does not": {rule("r", on(v1alpha1.PodFailed), ofTasks("worker"), because("Error"), exits(in, "train", 7)), crash(1), false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if _, got := rules.Match([]v1alpha1.Rule{tc.rule}, tc.failure); got != tc.want {
				t.Errorf("matches: %v", got)
			}
		})
	}
}

// Each preset of the API has its code.
func TestPresetsOfExitCodes(t *testing.T) {
	for preset, code := range map[v1alpha1.ExitCodePreset]int32{
		v1alpha1.MegatronRerun: 16, v1alpha1.MegatronInvalidResult: 17, v1alpha1.NVRxDoNotRequeue: 93,
		v1alpha1.DLRoverGPUDriver: 201, v1alpha1.DLRoverGPUInUse: 202, v1alpha1.DLRoverInfoROM: 14,
	} {
		m := v1alpha1.Match{ExitCodes: &v1alpha1.ExitCodes{Operator: v1alpha1.ExitCodesIn, Presets: []v1alpha1.ExitCodePreset{preset}}}
		f := rules.Failure{Event: v1alpha1.PodFailed}
		f.Details.Containers = []gang.ContainerFailure{{Name: "train", ExitCode: code}}
		check.Equal(t, string(preset), true, rules.Matches(m, f))
	}
}

func TestTheFirstRuleThatMatchesDecides(t *testing.T) {
	all := []v1alpha1.Rule{
		rule("other", on(v1alpha1.NodeGone)),
		rule("first", on(v1alpha1.PodFailed)),
		rule("second", on(v1alpha1.AnyEvent)),
	}
	got, _ := rules.Match(all, rules.Failure{Event: v1alpha1.PodFailed})
	check.Equal(t, "rule", "first", got.Name)
}

func TestDefaultRulesHaveAnAnswerToEveryEvent(t *testing.T) {
	want := map[v1alpha1.EventType]string{
		v1alpha1.PodFailed: "everything-else", v1alpha1.PodDeleted: "everything-else", v1alpha1.NodeGone: "everything-else",
		v1alpha1.PodNotReady: "restarts-in-place", v1alpha1.NodeNotReady: "node-may-return", v1alpha1.HealthFailed: "everything-else",
		v1alpha1.PodPending: "no-room", v1alpha1.PodNotStarted: "does-not-start", v1alpha1.HealthDegraded: "health-degraded",
	}
	for event, name := range want {
		got, _ := rules.Match(rules.DefaultRules(false), rules.Failure{Event: event})
		check.Equal(t, string(event), name, got.Name)
	}
}
