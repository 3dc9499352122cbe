package lab

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// Fields are the forms of the fields that Vary knows.
var Fields = []string{
	"rules[NAME].afterSeconds", "rules[NAME].steps[INDEX].afterSeconds", "unreachableNode.afterSeconds", "unreachableNode.gangDownAfterSeconds",
	"backoff.initialSeconds", "excludeNodeSeconds", "hold.seconds",
}

var ruleField = regexp.MustCompile(`^rules\[([a-z0-9-]+)\](?:\.steps\[([0-9]+)\])?\.afterSeconds$`)

// Vary returns a job with a time of its restart policy, or of its hold, changed: one of Fields. Of a rule the time of its first step
// is meant where none is named. A job without rules gets the default ones.
func Vary(job *v1alpha1.TrainingJob, field string, seconds int32) (*v1alpha1.TrainingJob, error) {
	job = job.DeepCopy()
	if job.Spec.RestartPolicy == nil {
		job.Spec.RestartPolicy = &v1alpha1.RestartPolicy{}
	}
	p := job.Spec.RestartPolicy
	if m := ruleField.FindStringSubmatch(field); m != nil {
		if len(p.Rules) == 0 {
			p.Rules = rules.DefaultRules(job.Spec.Supervisor != nil)
		}
		return job, varyRule(p.Rules, m[1], m[2], seconds)
	}
	switch field {
	case "unreachableNode.afterSeconds", "unreachableNode.gangDownAfterSeconds":
		if p.UnreachableNode == nil {
			p.UnreachableNode = &v1alpha1.UnreachableNode{}
		}
		if field == "unreachableNode.afterSeconds" {
			p.UnreachableNode.AfterSeconds = &seconds
		} else {
			p.UnreachableNode.GangDownAfterSeconds = &seconds
		}
	case "backoff.initialSeconds":
		if p.Backoff == nil {
			p.Backoff = &v1alpha1.Backoff{MaxSeconds: max(seconds, 300)}
		}
		p.Backoff.InitialSeconds = &seconds
	case "excludeNodeSeconds":
		p.ExcludeNodeSeconds = &seconds
	case "hold.seconds":
		if job.Spec.Hold == nil {
			job.Spec.Hold = &v1alpha1.Hold{Policy: v1alpha1.HoldOnRecovery}
		}
		job.Spec.Hold.Seconds = &seconds
	default:
		return nil, fmt.Errorf("there is no field %q: give one of %s", field, strings.Join(Fields, ", "))
	}
	return job, nil
}

// TimeOf is the time of a job's policy that a field has; false where it has none, and for a rule or step that is not there.
func TimeOf(job *v1alpha1.TrainingJob, field string) (time.Duration, bool) {
	p := rules.Policies(job).Of("")
	if m := ruleField.FindStringSubmatch(field); m != nil {
		at := slices.IndexFunc(p.Rules, func(r v1alpha1.Rule) bool { return r.Name == m[1] })
		i, _ := strconv.Atoi(m[2]) // no index is the first step
		if at < 0 || i >= len(p.Rules[at].Steps) {
			return 0, false
		}
		return time.Duration(p.Rules[at].Steps[i].AfterSeconds) * time.Second, true
	}
	switch field {
	case "unreachableNode.afterSeconds":
		return p.UnreachableAfter, true
	case "unreachableNode.gangDownAfterSeconds":
		return p.GangDownAfter, true
	case "backoff.initialSeconds":
		return p.InitialBackoff, true
	case "excludeNodeSeconds":
		return p.ExcludeNode, true
	}
	return 0, false
}

func varyRule(all []v1alpha1.Rule, name, index string, seconds int32) error {
	at := slices.IndexFunc(all, func(r v1alpha1.Rule) bool { return r.Name == name })
	if at < 0 {
		var names []string
		for _, r := range all {
			names = append(names, r.Name)
		}
		return fmt.Errorf("there is no rule %q: the rules are %q", name, names)
	}
	steps := slices.Clone(all[at].Steps)
	i := 0
	if index != "" {
		var err error
		if i, err = strconv.Atoi(index); err != nil {
			i = math.MaxInt
		}
	}
	if i >= len(steps) {
		return fmt.Errorf("rule %s has %d steps, and none of index %s", name, len(steps), index)
	}
	steps[i].AfterSeconds = seconds
	all[at].Steps = steps
	if !slices.IsSortedFunc(steps, func(a, b v1alpha1.Step) int { return int(a.AfterSeconds - b.AfterSeconds) }) {
		return fmt.Errorf("rule %s: with %d seconds for step %d its steps are not in the order of their times", name, seconds, i)
	}
	return nil
}
