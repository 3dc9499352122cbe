// The jobs of the simulation: what users ask for, and how they change their minds.

package policies

import (
	"fmt"
	"slices"

	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// drawJob draws a job that fits into one rack, its spares apart.
func (c *cluster) drawJob() *v1alpha1.TrainingJob {
	job := aJob().tasks(task("head", 1), task("worker", int32(1+c.rng.IntN(3)))).TrainingJob
	head, worker := &job.Spec.Tasks[0], &job.Spec.Tasks[1]
	if c.confined {
		job.Spec.NetworkTopology = &v1alpha1.NetworkTopology{Mode: v1alpha1.TopologyHard, HighestTierAllowed: new(rackTier)}
	} else if c.one(5) {
		job.Spec.NetworkTopology = &v1alpha1.NetworkTopology{Mode: v1alpha1.TopologySoft, HighestTierAllowed: new(rackTier)}
	}
	switch c.rng.IntN(8) {
	case 0, 1:
		c.drawPartition(worker)
	case 2, 3, 4:
		worker.MinReplicas = new(1 + int32(c.rng.IntN(int(worker.Replicas))))
		worker.MaxReplicas = new(max(worker.Replicas, int32(1+c.rng.IntN(c.rackSize()-1))))
	}
	if c.one(2) {
		worker.Spares = new(int32(c.rng.IntN(3)))
	}
	if c.one(8) {
		head.Spares = new(int32(c.rng.IntN(2)))
	}
	if !c.confined && worker.Partition == nil && c.one(5) {
		job.Spec.MinAvailable = new(min(2, 1+ptr.Deref(worker.MinReplicas, worker.Replicas)))
	}
	c.drawEnds(job)
	c.drawPolicies(job)
	c.drawCheckpoint(job)
	return job
}

// drawPartition gives a task partitions of two, most of them in one leaf each.
func (c *cluster) drawPartition(t *v1alpha1.Task) {
	t.Replicas = 2
	if c.rackSize() > 5 && c.one(2) {
		t.Replicas = 4
	}
	t.Partition = &v1alpha1.Partition{Size: 2}
	switch c.rng.IntN(6) {
	case 0:
	case 1:
		t.Partition.NetworkTopology = &v1alpha1.NetworkTopology{Mode: v1alpha1.TopologySoft, HighestTierAllowed: new(leafTier)}
	default:
		t.Partition.NetworkTopology = &v1alpha1.NetworkTopology{Mode: v1alpha1.TopologyHard, HighestTierAllowed: new(leafTier)}
	}
}

func (c *cluster) drawEnds(job *v1alpha1.TrainingJob) {
	switch c.rng.IntN(4) {
	case 0:
		job.Spec.Hold = &v1alpha1.Hold{Policy: v1alpha1.HoldAlways, Seconds: 600}
	case 1:
		job.Spec.Hold = &v1alpha1.Hold{Policy: v1alpha1.HoldOnRecovery, Seconds: int32(c.rng.IntN(3) * 20)}
	}
	if c.one(5) {
		job.Spec.SuccessPolicy = &v1alpha1.SuccessPolicy{Tasks: []string{"head"}}
	}
	if c.one(12) {
		job.Spec.ActiveDeadlineSeconds = new(int64(300 + c.rng.IntN(3600)))
	}
}

func (c *cluster) drawPolicies(job *v1alpha1.TrainingJob) {
	worker := &job.Spec.Tasks[1]
	job.Spec.RestartPolicy, worker.RestartPolicy = nil, nil
	if !c.one(6) {
		job.Spec.RestartPolicy = c.drawPolicy(worker)
	}
	if c.one(3) {
		worker.RestartPolicy = c.drawPolicy(worker)
	}
}

// drawPolicy draws a restart policy that may concern a task: each part of it or none.
func (c *cluster) drawPolicy(t *v1alpha1.Task) *v1alpha1.RestartPolicy {
	p := &v1alpha1.RestartPolicy{}
	if !c.one(4) {
		p.Rules = c.drawRules(t)
	}
	if !c.one(3) {
		p.Budget = &v1alpha1.Budget{MaxRestarts: new(int32(c.rng.IntN(5))), WindowSeconds: int32(60 + c.rng.IntN(1000))}
	}
	if c.one(3) {
		initial := int32(c.rng.IntN(60))
		p.Backoff = &v1alpha1.Backoff{InitialSeconds: initial, MaxSeconds: initial + int32(c.rng.IntN(200))}
	}
	if c.one(3) {
		p.ExcludeNodeSeconds = new(int32(c.rng.IntN(3) * 600))
	}
	if c.one(3) {
		p.UnreachableNode = &v1alpha1.UnreachableNode{Policy: v1alpha1.RequireProof}
	} else if c.one(4) {
		p.UnreachableNode = &v1alpha1.UnreachableNode{Policy: v1alpha1.ForceDelete, AfterSeconds: new(int32(c.rng.IntN(3) * 60))}
	}
	return p
}

// drawRules draws some narrow rules and, mostly, one for everything else.
func (c *cluster) drawRules(t *v1alpha1.Task) []v1alpha1.Rule {
	if c.one(8) {
		return DefaultRules()
	}
	var rules []v1alpha1.Rule
	if c.one(3) {
		rules = append(rules, rule("ill", on(v1alpha1.HealthDegraded, v1alpha1.HealthFailed), step(v1alpha1.MigratePod, int32(c.rng.IntN(2)*20)), step(v1alpha1.MigratePod, 300)))
	}
	for i := range c.rng.IntN(4) {
		r := rule(fmt.Sprintf("r%d", i), c.drawMatch)
		r.Steps = c.drawSteps(t)
		rules = append(rules, r)
	}
	if len(rules) == 0 || !c.one(4) {
		r := rule("rest", on(v1alpha1.AnyEvent))
		r.Steps = c.drawSteps(t)
		rules = append(rules, r)
	}
	for i := range rules {
		rules[i].Charge = []v1alpha1.Charge{v1alpha1.ChargeAuto, v1alpha1.ChargeAuto, v1alpha1.ChargeAuto, v1alpha1.ChargeAlways, v1alpha1.ChargeNever}[c.rng.IntN(5)]
	}
	return rules
}

// drawMatch draws what a narrow rule is for.
func (c *cluster) drawMatch(r *v1alpha1.Rule) {
	events := []v1alpha1.EventType{
		v1alpha1.PodFailed, v1alpha1.PodDeleted, v1alpha1.PodNotReady, v1alpha1.PodPending, v1alpha1.NodeNotReady, v1alpha1.NodeGone,
		v1alpha1.HealthDegraded, v1alpha1.HealthFailed,
	}
	c.rng.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
	events = events[:1+c.rng.IntN(3)]
	r.Match.Events = events
	switch {
	case c.one(2):
	case slices.Contains(events, v1alpha1.PodFailed):
		exits([]v1alpha1.ExitCodesOperator{v1alpha1.ExitCodesIn, v1alpha1.ExitCodesNotIn}[c.rng.IntN(2)], "", 2)(r)
	case slices.Contains(events, v1alpha1.HealthDegraded):
		r.Match.Signals = []string{"NVLinkReplay"}
	case slices.Contains(events, v1alpha1.PodDeleted):
		r.Match.PodConditions = []v1alpha1.PodConditionMatch{{Type: "DisruptionTarget"}}
	}
}

// drawSteps draws a ladder.
func (c *cluster) drawSteps(t *v1alpha1.Task) []v1alpha1.Step {
	if c.one(15) {
		return []v1alpha1.Step{{Action: v1alpha1.Ignore}}
	}
	actions := []v1alpha1.Action{
		v1alpha1.RestartPod, v1alpha1.RestartPod, v1alpha1.RestartTask, v1alpha1.RestartJob, v1alpha1.MigratePod, v1alpha1.RelocateJob,
	}
	if t.Partition != nil {
		actions = append(actions, v1alpha1.RestartPartition, v1alpha1.RestartPartition, v1alpha1.RestartPartition)
	}
	if t.MinReplicas != nil {
		actions = append(actions, v1alpha1.ShrinkTask, v1alpha1.ShrinkTask, v1alpha1.ShrinkTask)
	}
	at := []int32{0, 0, 0, 5, 30, 100}[c.rng.IntN(6)]
	var steps []v1alpha1.Step
	for range 1 + c.rng.IntN(4) {
		steps = append(steps, v1alpha1.Step{Action: actions[c.rng.IntN(len(actions))], AfterSeconds: at})
		at += []int32{10, 30, 60, 200, 600}[c.rng.IntN(5)]
	}
	if !slices.ContainsFunc(steps, func(s v1alpha1.Step) bool { return s.Action != v1alpha1.ShrinkTask }) {
		steps = append(steps, v1alpha1.Step{Action: v1alpha1.RestartPod, AfterSeconds: at}) // else nothing ever comes back
		at += 60
	}
	if c.one(8) {
		steps = append(steps, v1alpha1.Step{Action: v1alpha1.FailJob, AfterSeconds: at})
	}
	return steps
}

// edit is a user who changes the spec or the annotations.
func (c *cluster) edit(change func(*v1alpha1.TrainingJob)) {
	job := c.job.DeepCopy()
	change(job)
	job.Generation++
	c.store(job)
}

func (c *cluster) changePolicy() {
	c.edit(c.drawPolicies)
	c.changed("the restart policy is changed")
}

func (c *cluster) changeReplicas() {
	w := &c.job.Spec.Tasks[1]
	if w.MinReplicas == nil {
		return
	}
	n := *w.MinReplicas + int32(c.rng.IntN(int(*w.MaxReplicas-*w.MinReplicas+1)))
	if n == w.Replicas {
		return
	}
	c.edit(func(job *v1alpha1.TrainingJob) { job.Spec.Tasks[1].Replicas = n })
	c.changed("replicas is %d", n)
}

func (c *cluster) changeSpares() {
	i := c.rng.IntN(2)
	if c.job.Spec.Tasks[i].Spares == nil {
		return
	}
	n := int32(c.rng.IntN(3))
	c.edit(func(job *v1alpha1.TrainingJob) { job.Spec.Tasks[i].Spares = &n })
	c.changed("spares of task %d is %d", i, n)
}

func (c *cluster) toggleDryRun() {
	on := c.job.Annotations[v1alpha1.DryRun] == ""
	c.edit(func(job *v1alpha1.TrainingJob) {
		job.Annotations = nil
		if on {
			job.Annotations = map[string]string{v1alpha1.DryRun: "true"}
		}
	})
	c.changed("dry run is %v", on)
}

func (c *cluster) toggleSuspend() {
	c.edit(func(job *v1alpha1.TrainingJob) { job.Spec.Suspend = !job.Spec.Suspend })
	c.changed("suspend is %v", c.job.Spec.Suspend)
}
