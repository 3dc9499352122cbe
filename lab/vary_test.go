package lab

import (
	"os"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/rules"
	"github.com/lockstep-dev/lockstep/test/check"
)

func TestVary(t *testing.T) {
	before := job(2)
	first := func(j *v1alpha1.TrainingJob, name string) int32 {
		for _, r := range j.Spec.RestartPolicy.Rules {
			if r.Name == name {
				return r.Steps[0].AfterSeconds
			}
		}
		return -1
	}
	j, err := Vary(before, "rules[node-may-return].afterSeconds", 30)
	check.Equal(t, "error", nil, err)
	check.Equal(t, "of a rule of the default", int32(30), first(j, "node-may-return"))
	check.Equal(t, "the job before", true, before.Spec.RestartPolicy == nil)
	check.Equal(t, "the default", int32(90), rules.DefaultRules(false)[1].Steps[0].AfterSeconds)
	j, err = Vary(before, "rules[everything-else].steps[1].afterSeconds", 300)
	check.Equal(t, "error", nil, err)
	check.Equal(t, "of another step", int32(300), j.Spec.RestartPolicy.Rules[5].Steps[1].AfterSeconds)
	for _, field := range Fields[2:] {
		_, err := Vary(before, field, 7)
		check.Equal(t, field, nil, err)
	}
	for field, want := range map[string]string{
		"rules[nope].afterSeconds":                     `there is no rule "nope"`,
		"rules[everything-else].steps[9].afterSeconds": "has 4 steps, and none of index 9",
		"rules[node-may-return].steps[1].afterSeconds": "not in the order of their times",
		"budget.maxRestarts":                           `there is no field "budget.maxRestarts"`,
	} {
		if _, err := Vary(before, field, 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", field, err, want)
		}
	}
}

// The failure model of the page is one that can be read.
func TestTheModelOfThePageIsRead(t *testing.T) {
	raw, err := os.ReadFile("README.md")
	check.Equal(t, "error", nil, err)
	_, after, _ := strings.Cut(string(raw), "```yaml\n")
	model, _, _ := strings.Cut(after, "```")
	m, err := ParseModel([]byte(model))
	check.Equal(t, "error", nil, err)
	check.Equal(t, "causes", 5, len(m.Causes))
}
