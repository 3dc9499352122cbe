// What fuzzing makes of its bytes: jobs, statuses and worlds, odd ones among them.

package policies

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// dice draws from bytes, and zeros once they are used up.
type dice struct{ data []byte }

func (d *dice) roll(sides int) int {
	if len(d.data) == 0 {
		return 0
	}
	n := int(d.data[0]) % sides
	d.data = d.data[1:]
	return n
}

func (d *dice) yes() bool { return d.roll(2) == 1 }

// odd is a small number, a negative one now and then.
func (d *dice) odd(sides int) int32 { return int32(d.roll(sides+2) - 2) }

func one[T any](d *dice, all ...T) T { return all[d.roll(len(all))] }

// some are a few of a kind.
func some[T any](d *dice, most int, draw func(i int) T) []T {
	var out []T
	for i := range d.roll(most + 1) {
		out = append(out, draw(i))
	}
	return out
}

// when is a time around the moment of the observation.
func (d *dice) when() time.Time {
	return sceneStart.Add(time.Duration(d.roll(256)-128) * 10 * time.Second)
}

func (d *dice) time() metav1.Time       { return metav1.NewTime(d.when().Truncate(time.Second)) }
func (d *dice) micro() metav1.MicroTime { return metav1.NewMicroTime(d.when()) }

func (d *dice) task() string { return one(d, "head", "worker", "worker-spare", "nobody", "") }
func (d *dice) node() string { return one(d, "n00", "n01", "n02", "n06", "n07", "gone", "") }
func (d *dice) event() v1alpha1.EventType {
	return one(d, v1alpha1.PodFailed, v1alpha1.PodDeleted, v1alpha1.PodNotReady, v1alpha1.PodNotStarted, v1alpha1.PodPending, v1alpha1.NodeNotReady, v1alpha1.NodeGone,
		v1alpha1.HealthDegraded, v1alpha1.HealthFailed, v1alpha1.AnyEvent, v1alpha1.VolcanoJobDeleted, v1alpha1.VolcanoJobEnded, v1alpha1.JobResumed,
		v1alpha1.RestartRequested, v1alpha1.ProcessFailed)
}

func (d *dice) class() v1alpha1.FailureClass {
	return one(d, v1alpha1.ClassUser, v1alpha1.ClassInfrastructure, v1alpha1.ClassPreemption, v1alpha1.ClassMaintenance)
}

func (d *dice) action() v1alpha1.Action {
	return one(d, v1alpha1.RestartPod, v1alpha1.RestartTask, v1alpha1.RestartPartition, v1alpha1.RestartJob, v1alpha1.MigratePod,
		v1alpha1.ShrinkTask, v1alpha1.RelocateJob, v1alpha1.RestartProcesses, v1alpha1.FailJob, v1alpha1.Ignore, "Dance")
}

func (d *dice) rule(name string) v1alpha1.Rule {
	r := v1alpha1.Rule{Name: name, Charge: one(d, v1alpha1.ChargeAuto, v1alpha1.ChargeAlways, v1alpha1.ChargeNever, "")}
	r.Match.Events = some(d, 2, func(int) v1alpha1.EventType { return d.event() })
	if d.roll(4) == 3 {
		r.Match.ExitCodes = &v1alpha1.ExitCodes{Operator: one(d, v1alpha1.ExitCodesIn, v1alpha1.ExitCodesNotIn), Values: []int32{d.odd(4)}}
		r.Match.Reasons = some(d, 1, func(int) string { return one(d, "Error", "Evicted") })
		r.Match.PodConditions = some(d, 1, func(int) v1alpha1.PodConditionMatch {
			return v1alpha1.PodConditionMatch{Type: "Ready", Status: one(d, "", "False")}
		})
		r.Match.Signals = some(d, 1, func(int) string { return one(d, "XID79", "NVLinkReplay") })
		r.Match.Tasks = some(d, 1, func(int) string { return d.task() })
		r.Match.GangRunning = one(d, nil, new(true), new(false))
	}
	after := int32(0)
	r.Steps = some(d, 4, func(int) v1alpha1.Step {
		after += one[int32](d, 0, 1, 60, 600)
		return v1alpha1.Step{Action: d.action(), AfterSeconds: after}
	})
	return r
}

func (d *dice) failure() rules.Failure {
	f := rules.Failure{Event: d.event(), Class: d.class(), Rank: gang.Rank{Task: d.task(), Index: d.odd(4)}, Node: d.node(), Disrupted: one(d, "", "Evicted"), GangDown: d.yes()}
	f.Details = d.failed()
	f.Conditions = some(d, 2, func(int) corev1.PodCondition {
		return corev1.PodCondition{Type: one[corev1.PodConditionType](d, "Ready", "DisruptionTarget"), Status: one(d, corev1.ConditionTrue, corev1.ConditionFalse)}
	})
	if d.yes() {
		f.Signal = gang.Signal{Name: one(d, "XID79", "NVLinkReplay"), Failed: d.yes()}
	}
	return f
}

func (d *dice) failed() gang.Failure {
	return gang.Failure{
		Reason: one(d, "", "Evicted", "NodeLost"),
		Containers: some(d, 2, func(int) gang.ContainerFailure {
			return gang.ContainerFailure{Name: "train", ExitCode: d.odd(4), Reason: "Error"}
		}),
	}
}

func (d *dice) policy() *v1alpha1.RestartPolicy {
	if d.roll(3) == 0 {
		return nil
	}
	p := &v1alpha1.RestartPolicy{Rules: some(d, 3, func(i int) v1alpha1.Rule { return d.rule(fmt.Sprintf("r%d", i)) })}
	if d.yes() {
		p.Budget = &v1alpha1.Budget{MaxRestarts: new(d.odd(4)), WindowSeconds: d.odd(1000)}
		p.Backoff = &v1alpha1.Backoff{InitialSeconds: new(d.odd(60)), MaxSeconds: d.odd(200)}
		p.ExcludeNodeSeconds = new(d.odd(200))
		p.UnreachableNode = &v1alpha1.UnreachableNode{Policy: one(d, v1alpha1.ForceDelete, v1alpha1.RequireProof, ""), AfterSeconds: new(d.odd(60))}
	}
	return p
}

// job draws a job that the API server takes, in what it is about, and a status that it may not.
func (d *dice) job() *v1alpha1.TrainingJob {
	job := aJob().tasks(task("head", 1), task("worker", int32(1+d.roll(4)))).TrainingJob
	worker := &job.Spec.Tasks[1]
	switch d.roll(4) {
	case 1:
		worker.MinReplicas, worker.MaxReplicas = new(int32(1+d.roll(int(worker.Replicas)))), new(worker.Replicas+int32(d.roll(3)))
	case 2:
		worker.Replicas += worker.Replicas % 2
		worker.Partition = &v1alpha1.Partition{Size: 2}
	}
	if d.yes() {
		worker.Spares = new(int32(d.roll(3)))
	}
	if d.roll(4) == 3 {
		job.Spec.MinAvailable = new(int32(1 + d.roll(2)))
	}
	if d.roll(4) == 3 {
		job.Spec.SuccessPolicy = &v1alpha1.SuccessPolicy{Tasks: []string{d.task()}}
		job.Spec.ActiveDeadlineSeconds, job.Spec.TTLSecondsAfterFinished = new(int64(d.roll(200))), new(d.odd(200))
	}
	if d.yes() {
		job.Spec.NetworkTopology = &v1alpha1.NetworkTopology{Mode: one(d, v1alpha1.TopologyHard, v1alpha1.TopologySoft, ""), HighestTierAllowed: new(int32(d.roll(4)))}
		job.Spec.Hold = &v1alpha1.Hold{Policy: one(d, v1alpha1.HoldAlways, v1alpha1.HoldOnRecovery, ""), Seconds: one(d, nil, new(d.odd(200)))}
	}
	job.Spec.Suspend = d.roll(8) == 7
	if d.roll(6) == 5 {
		job.Annotations = map[string]string{v1alpha1.DryRun: "true"}
	}
	job.Spec.RestartPolicy, worker.RestartPolicy = d.policy(), d.policy()
	if d.yes() {
		jobWrapper{job}.saving(v1alpha1.CheckpointPods{Ranks: one(d, v1alpha1.CheckpointAll, v1alpha1.CheckpointFirst, "")})
	}
	return job
}
