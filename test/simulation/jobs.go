package simulation

import (
	"fmt"
	"hash/crc32"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// uidPart is the first part of the UID of a job.
func uidPart(name string) string { return fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(name))) }

// holdKey is the key of the taint by which a job holds nodes.
func holdKey(name string) string { return v1alpha1.HoldTaintPrefix + name + "-" + uidPart(name) }

// drawJob draws a job that fits in one rack, its spares apart.
func (t *tenant) drawJob() *v1alpha1.TrainingJob {
	job := &v1alpha1.TrainingJob{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "research", Name: t.name, Generation: 1, UID: types.UID(uidPart(t.name) + "-0000-4000-8000-000000000000"),
		},
		Spec: v1alpha1.TrainingJobSpec{Queue: "default", Tasks: []v1alpha1.Task{
			{Name: "head", Replicas: 1},
			{Name: "worker", Replicas: int32(1 + t.rng.IntN(3))},
		}},
	}
	head, worker := &job.Spec.Tasks[0], &job.Spec.Tasks[1]
	if t.ranks > 0 && len(t.tenants) == 0 {
		worker.Replicas = int32(t.ranks - 1)
	}
	if t.confined {
		job.Spec.NetworkTopology = &v1alpha1.NetworkTopology{Mode: v1alpha1.TopologyHard, HighestTierAllowed: new(rackTier)}
	} else if t.one(5) {
		job.Spec.NetworkTopology = &v1alpha1.NetworkTopology{Mode: v1alpha1.TopologySoft, HighestTierAllowed: new(rackTier)}
	}
	switch t.rng.IntN(8) {
	case 0, 1:
		t.drawPartition(worker)
	case 2, 3, 4:
		worker.MinReplicas = new(1 + int32(t.rng.IntN(int(worker.Replicas))))
		worker.MaxReplicas = new(max(worker.Replicas, int32(1+t.rng.IntN(t.rackSize-1))))
	}
	if t.one(2) {
		worker.Spares = new(int32(t.rng.IntN(3)))
	}
	if t.one(8) {
		head.Spares = new(int32(t.rng.IntN(2)))
	}
	if !t.confined && worker.Partition == nil && t.one(5) {
		job.Spec.MinAvailable = new(min(2, 1+ptr.Deref(worker.MinReplicas, worker.Replicas)))
	}
	t.drawEnds(job)
	t.drawPolicies(job)
	if t.ranks > 0 && (t.ranks > 128 || t.spreads.IntN(2) == 0) {
		job.Spec.RestartPolicy, worker.RestartPolicy = nil, nil
	}
	t.drawCheckpoint(job)
	return job
}

// drawPartition gives a task partitions of two, most of them in one leaf each.
func (t *tenant) drawPartition(task *v1alpha1.Task) {
	task.Replicas = max(2, task.Replicas/2*2)
	if t.rackSize > 5 && t.one(2) {
		task.Replicas = max(4, task.Replicas)
	}
	task.Partition = &v1alpha1.Partition{Size: 2}
	switch t.rng.IntN(6) {
	case 0:
	case 1:
		task.Partition.NetworkTopology = &v1alpha1.NetworkTopology{Mode: v1alpha1.TopologySoft, HighestTierAllowed: new(leafTier)}
	default:
		task.Partition.NetworkTopology = &v1alpha1.NetworkTopology{Mode: v1alpha1.TopologyHard, HighestTierAllowed: new(leafTier)}
	}
}

func (t *tenant) drawEnds(job *v1alpha1.TrainingJob) {
	standing := 4
	if t.is(sharedNodes) {
		standing = 2
	}
	switch t.rng.IntN(standing) {
	case 0:
		job.Spec.Hold = &v1alpha1.Hold{Policy: v1alpha1.HoldAlways, Seconds: new(int32(600))}
	case 2:
		job.Spec.Hold = &v1alpha1.Hold{Policy: v1alpha1.HoldOnRecovery, Seconds: new(int32(t.rng.IntN(3) * 20))}
	}
	if t.one(5) {
		job.Spec.SuccessPolicy = &v1alpha1.SuccessPolicy{Tasks: []string{"head"}}
	}
	if t.one(12) {
		job.Spec.ActiveDeadlineSeconds = new(int64(300 + t.rng.IntN(3600)))
	}
}

// drawCheckpoint has the program asked for checkpoints, or not.
func (t *tenant) drawCheckpoint(job *v1alpha1.TrainingJob) {
	job.Spec.Checkpoint = nil
	if t.one(3) {
		return
	}
	job.Spec.Checkpoint = &v1alpha1.Checkpoint{Request: v1alpha1.CheckpointRequest{
		HTTPPost:       v1alpha1.HTTPPost{Port: 8081, Path: "/checkpoint"},
		TimeoutSeconds: []int32{1, 10, 60, 600}[t.rng.IntN(4)],
	}}
	switch t.rng.IntN(4) {
	case 0:
		job.Spec.Checkpoint.Pods = &v1alpha1.CheckpointPods{Ranks: v1alpha1.CheckpointFirst}
	case 1:
		job.Spec.Checkpoint.Pods = &v1alpha1.CheckpointPods{Tasks: []string{"worker"}, Ranks: v1alpha1.CheckpointAll}
	}
}

// drawHealthPolicy bounds the moves of some jobs.
func (w *world) drawHealthPolicy() *v1alpha1.HealthPolicySpec {
	if w.one(2) {
		return nil
	}
	limit := &v1alpha1.BreakerLimit{
		Percent: int32(w.rng.IntN(60)), Count: new(int32(w.rng.IntN(3))), WindowSeconds: int32(30 + w.rng.IntN(1200)),
	}
	return &v1alpha1.HealthPolicySpec{Breaker: v1alpha1.Breaker{Job: limit}}
}
