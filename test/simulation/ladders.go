package simulation

import (
	"fmt"
	"slices"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

func (t *tenant) drawPolicies(job *v1alpha1.TrainingJob) {
	worker := &job.Spec.Tasks[1]
	job.Spec.RestartPolicy, worker.RestartPolicy = nil, nil
	if !t.one(6) {
		job.Spec.RestartPolicy = t.drawPolicy(worker)
	}
	if t.one(3) {
		worker.RestartPolicy = t.drawPolicy(worker)
	}
	t.drawSupervisedRules(job)
}

// drawPolicy draws a restart policy that may concern a task: each part of it or none.
func (t *tenant) drawPolicy(task *v1alpha1.Task) *v1alpha1.RestartPolicy {
	p := &v1alpha1.RestartPolicy{}
	if !t.one(4) {
		p.Rules = t.drawRules(task)
	}
	if !t.one(3) {
		p.Budget = &v1alpha1.Budget{MaxRestarts: new(int32(t.rng.IntN(5))), WindowSeconds: int32(60 + t.rng.IntN([]int{100, 1000}[t.rng.IntN(2)]))}
	}
	if t.one(2) {
		initial := int32(t.rng.IntN(60))
		p.Backoff = &v1alpha1.Backoff{InitialSeconds: &initial, MaxSeconds: initial + int32(t.rng.IntN(200))}
	}
	if t.one(3) {
		p.ExcludeNodeSeconds = new(int32(t.rng.IntN(3) * 600))
	}
	if t.one(3) {
		p.UnreachableNode = &v1alpha1.UnreachableNode{Policy: v1alpha1.RequireProof}
	} else if t.one(2) {
		p.UnreachableNode = t.drawUnreachable()
	}
	return p
}

// drawUnreachable draws when a pod on a silent node counts as dead.
func (t *tenant) drawUnreachable() *v1alpha1.UnreachableNode {
	after := int32(t.rng.IntN(3) * 60)
	u := &v1alpha1.UnreachableNode{Policy: v1alpha1.ForceDelete, AfterSeconds: &after}
	if t.one(2) {
		u.GangDownAfterSeconds = new(after * int32(t.rng.IntN(4)) / 4)
	}
	return u
}

// drawRules draws some narrow rules and, mostly, one for everything else.
func (t *tenant) drawRules(task *v1alpha1.Task) []v1alpha1.Rule {
	if t.one(8) {
		return defaultRules()
	}
	var rules []v1alpha1.Rule
	if t.one(3) {
		rules = append(rules, v1alpha1.Rule{
			Name:  "ill",
			Match: v1alpha1.Match{Events: []v1alpha1.EventType{v1alpha1.HealthDegraded, v1alpha1.HealthFailed}},
			Steps: []v1alpha1.Step{{Action: v1alpha1.MigratePod, AfterSeconds: int32(t.rng.IntN(2) * 20)}, {Action: v1alpha1.MigratePod, AfterSeconds: 300}},
		})
	}
	for i := range t.rng.IntN(4) {
		rules = append(rules, v1alpha1.Rule{Name: fmt.Sprintf("r%d", i), Match: t.drawMatch(), Steps: t.drawSteps(task)})
	}
	if len(rules) == 0 || !t.one(4) {
		rules = append(rules, v1alpha1.Rule{
			Name: "rest", Match: v1alpha1.Match{Events: []v1alpha1.EventType{v1alpha1.AnyEvent}}, Steps: t.drawSteps(task),
		})
	}
	for i := range rules {
		rules[i].Charge = []v1alpha1.Charge{v1alpha1.ChargeAuto, v1alpha1.ChargeAuto, v1alpha1.ChargeAuto, v1alpha1.ChargeAlways, v1alpha1.ChargeNever}[t.rng.IntN(5)]
	}
	return rules
}

// drawMatch draws what a narrow rule is for.
func (t *tenant) drawMatch() v1alpha1.Match {
	events := []v1alpha1.EventType{
		v1alpha1.PodFailed, v1alpha1.PodDeleted, v1alpha1.PodNotReady, v1alpha1.PodPending, v1alpha1.NodeNotReady, v1alpha1.NodeGone,
		v1alpha1.HealthDegraded, v1alpha1.HealthFailed, v1alpha1.PodNotStarted,
	}
	t.rng.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
	m := v1alpha1.Match{Events: events[:1+t.rng.IntN(3)]}
	if t.one(6) {
		m.GangRunning = new(t.one(2))
	}
	switch {
	case t.one(2):
	case slices.Contains(m.Events, v1alpha1.PodFailed):
		operator := []v1alpha1.ExitCodesOperator{v1alpha1.ExitCodesIn, v1alpha1.ExitCodesNotIn}[t.rng.IntN(2)]
		m.ExitCodes = &v1alpha1.ExitCodes{Operator: operator, Values: []int32{2}}
	case slices.Contains(m.Events, v1alpha1.HealthDegraded):
		m.Signals = []string{"NVLinkReplay"}
	case slices.Contains(m.Events, v1alpha1.PodDeleted):
		m.PodConditions = []v1alpha1.PodConditionMatch{{Type: "DisruptionTarget"}}
	}
	return m
}

// drawSteps draws a ladder.
func (t *tenant) drawSteps(task *v1alpha1.Task) []v1alpha1.Step {
	if t.one(15) {
		return []v1alpha1.Step{{Action: v1alpha1.Ignore}}
	}
	actions := []v1alpha1.Action{
		v1alpha1.RestartPod, v1alpha1.RestartPod, v1alpha1.RestartTask, v1alpha1.RestartJob, v1alpha1.MigratePod, v1alpha1.RelocateJob,
	}
	if task.Partition != nil {
		actions = append(actions, v1alpha1.RestartPartition, v1alpha1.RestartPartition, v1alpha1.RestartPartition)
	}
	if task.MinReplicas != nil {
		actions = append(actions, v1alpha1.ShrinkTask, v1alpha1.ShrinkTask, v1alpha1.ShrinkTask)
	}
	at := []int32{0, 0, 0, 5, 30, 100}[t.rng.IntN(6)]
	var steps []v1alpha1.Step
	for range 1 + t.rng.IntN(4) {
		steps = append(steps, v1alpha1.Step{Action: actions[t.rng.IntN(len(actions))], AfterSeconds: at})
		at += []int32{10, 30, 60, 200, 600}[t.rng.IntN(5)]
	}
	if !slices.ContainsFunc(steps, func(s v1alpha1.Step) bool { return s.Action != v1alpha1.ShrinkTask }) {
		steps = append(steps, v1alpha1.Step{Action: v1alpha1.RestartPod, AfterSeconds: at}) // else nothing ever comes back
		at += 60
	}
	if t.one(8) {
		steps = append(steps, v1alpha1.Step{Action: v1alpha1.FailJob, AfterSeconds: at})
	}
	return steps
}
