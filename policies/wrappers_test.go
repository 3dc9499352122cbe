// Builders of jobs, rules and observations, so that a test reads as its scenario.

package policies

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// jobWrapper builds a TrainingJob.
type jobWrapper struct{ *v1alpha1.TrainingJob }

func aJob() jobWrapper {
	return jobWrapper{&v1alpha1.TrainingJob{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "research", Name: "llm", Generation: 1, UID: types.UID("0123abcd-0000-4000-8000-000000000000"),
		},
		Spec: v1alpha1.TrainingJobSpec{Queue: "default"},
	}}
}

func (j jobWrapper) tasks(tasks ...v1alpha1.Task) jobWrapper {
	j.Spec.Tasks = tasks
	return j
}

// policy gives the job a restart policy.
func (j jobWrapper) policy(parts ...func(*v1alpha1.RestartPolicy)) jobWrapper {
	j.Spec.RestartPolicy = policy(parts...)
	return j
}

// confined keeps the job within HyperNodes up to a tier.
func (j jobWrapper) confined(tier int32) jobWrapper {
	j.Spec.NetworkTopology = &v1alpha1.NetworkTopology{Mode: v1alpha1.TopologyHard, HighestTierAllowed: &tier}
	return j
}

// saving has the program asked for a checkpoint, which has a minute to save one.
func (j jobWrapper) saving(pods ...v1alpha1.CheckpointPods) jobWrapper {
	j.Spec.Checkpoint = &v1alpha1.Checkpoint{Request: v1alpha1.CheckpointRequest{
		HTTPPost: v1alpha1.HTTPPost{Port: 8081, Path: "/checkpoint"}, TimeoutSeconds: 60,
	}}
	if len(pods) > 0 {
		j.Spec.Checkpoint.Pods = &pods[0]
	}
	return j
}

// task builds a task of parts.
func task(name string, replicas int32, parts ...func(*v1alpha1.Task)) v1alpha1.Task {
	t := v1alpha1.Task{Name: name, Replicas: replicas}
	for _, part := range parts {
		part(&t)
	}
	return t
}

func withSpares(n int32) func(*v1alpha1.Task) {
	return func(t *v1alpha1.Task) { t.Spares = &n }
}

func inPartitions(size int32) func(*v1alpha1.Task) {
	return func(t *v1alpha1.Task) { t.Partition = &v1alpha1.Partition{Size: size} }
}

func downTo(n int32) func(*v1alpha1.Task) {
	return func(t *v1alpha1.Task) { t.MinReplicas = &n }
}

// policy builds a restart policy of parts.
func policy(parts ...func(*v1alpha1.RestartPolicy)) *v1alpha1.RestartPolicy {
	p := &v1alpha1.RestartPolicy{}
	for _, part := range parts {
		part(p)
	}
	return p
}

func withRules(all ...v1alpha1.Rule) func(*v1alpha1.RestartPolicy) {
	return func(p *v1alpha1.RestartPolicy) { p.Rules = all }
}

func budget(maxRestarts, windowSeconds int32) func(*v1alpha1.RestartPolicy) {
	return func(p *v1alpha1.RestartPolicy) {
		p.Budget = &v1alpha1.Budget{MaxRestarts: &maxRestarts, WindowSeconds: windowSeconds}
	}
}

func backoff(initialSeconds, maxSeconds int32) func(*v1alpha1.RestartPolicy) {
	return func(p *v1alpha1.RestartPolicy) {
		p.Backoff = &v1alpha1.Backoff{InitialSeconds: &initialSeconds, MaxSeconds: maxSeconds}
	}
}

func excluding(seconds int32) func(*v1alpha1.RestartPolicy) {
	return func(p *v1alpha1.RestartPolicy) { p.ExcludeNodeSeconds = &seconds }
}

func unreachable(p v1alpha1.UnreachableNodePolicy, afterSeconds int32) func(*v1alpha1.RestartPolicy) {
	return func(out *v1alpha1.RestartPolicy) {
		out.UnreachableNode = &v1alpha1.UnreachableNode{Policy: p, AfterSeconds: &afterSeconds}
	}
}

// rule builds a rule of parts.
func rule(name string, parts ...func(*v1alpha1.Rule)) v1alpha1.Rule {
	r := v1alpha1.Rule{Name: name, Charge: v1alpha1.ChargeAuto}
	for _, part := range parts {
		part(&r)
	}
	return r
}

func on(events ...v1alpha1.EventType) func(*v1alpha1.Rule) {
	return func(r *v1alpha1.Rule) { r.Match.Events = events }
}

func ofTasks(tasks ...string) func(*v1alpha1.Rule) {
	return func(r *v1alpha1.Rule) { r.Match.Tasks = tasks }
}

func because(reasons ...string) func(*v1alpha1.Rule) {
	return func(r *v1alpha1.Rule) { r.Match.Reasons = reasons }
}

func exits(operator v1alpha1.ExitCodesOperator, container string, codes ...int32) func(*v1alpha1.Rule) {
	return func(r *v1alpha1.Rule) {
		r.Match.ExitCodes = &v1alpha1.ExitCodes{ContainerName: container, Operator: operator, Values: codes}
	}
}

func bySignal(signals ...string) func(*v1alpha1.Rule) {
	return func(r *v1alpha1.Rule) { r.Match.Signals = signals }
}

func withCondition(kind, status, reason string) func(*v1alpha1.Rule) {
	return func(r *v1alpha1.Rule) {
		r.Match.PodConditions = append(r.Match.PodConditions, v1alpha1.PodConditionMatch{Type: kind, Status: status, Reason: reason})
	}
}

func step(action v1alpha1.Action, afterSeconds int32) func(*v1alpha1.Rule) {
	return func(r *v1alpha1.Rule) {
		r.Steps = append(r.Steps, v1alpha1.Step{Action: action, AfterSeconds: afterSeconds})
	}
}

func charged(charge v1alpha1.Charge) func(*v1alpha1.Rule) {
	return func(r *v1alpha1.Rule) { r.Charge = charge }
}

// cut and cutMicro cut times as the API server's formats do.
func cut(t *metav1.Time) {
	if t != nil {
		t.Time = t.Truncate(time.Second)
	}
}

func cutMicro(t *metav1.MicroTime) {
	if t != nil {
		t.Time = t.Truncate(time.Microsecond)
	}
}

// written is a status as it comes back from the API server: its times have lost
// what their format does not keep.
func written(s v1alpha1.TrainingJobStatus) v1alpha1.TrainingJobStatus {
	s = *s.DeepCopy()
	cut(s.StartTime)
	cut(s.CompletionTime)
	for i := range s.Conditions {
		cut(&s.Conditions[i].LastTransitionTime)
	}
	for i := range s.Restarts.ChargedTimes {
		cut(&s.Restarts.ChargedTimes[i])
	}
	for i := range s.Tasks {
		for j := range s.Tasks[i].ChargedTimes {
			cut(&s.Tasks[i].ChargedTimes[j])
		}
	}
	for i := range s.LeftHyperNodes {
		cut(&s.LeftHyperNodes[i].Until)
	}
	for i := range s.ExcludedNodes {
		cut(&s.ExcludedNodes[i].Until)
	}
	for i := range s.Holds {
		cut(s.Holds[i].Until)
	}
	if a := s.Availability; a != nil {
		cutMicro(&a.StartTime)
		cutMicro(a.EndTime)
		if a.Interruption != nil {
			cutMicro(&a.Interruption.StartTime)
		}
	}
	if r := s.RestartRequest; r != nil {
		cutMicro(&r.Time)
	}
	for i := range s.Incidents {
		cutIncident(&s.Incidents[i])
	}
	return s
}

func cutIncident(inc *v1alpha1.Incident) {
	cutMicro(&inc.StartTime)
	cutMicro(inc.NoRoomTime)
	cutMicro(inc.PlacedTime)
	cutMicro(inc.BoundTime)
	cutMicro(inc.EndTime)
	if c := inc.Checkpoint; c != nil {
		cutMicro(&c.RequestTime)
		cutMicro(&c.Deadline)
		cutMicro(c.EndTime)
	}
	for j := range inc.Steps {
		cutMicro(&inc.Steps[j].Time)
	}
}
