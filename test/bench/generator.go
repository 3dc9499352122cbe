// Generator: the pools of nodes and the gangs that are put on them, the same for both sides.

package main

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	bus "volcano.sh/apis/pkg/apis/bus/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/rules"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

const (
	namespace = metav1.NamespaceDefault
	task      = "worker"
	// fanOut is how many HyperNodes have one parent.
	fanOut = 8
	// manyRestarts keeps both sides from giving a job up that is restarted on purpose.
	manyRestarts = 1000
)

// The exit codes of failing pods, by what the jobs' policies make of them.
const (
	exitPod  int32 = 1
	exitTask int32 = 101
	exitJob  int32 = 102
)

// gang is a job of as many pods as its pool has room for, a whole node each.
type gang struct {
	name string
	pods int
	pool cluster.Topology
	hold v1alpha1.HoldPolicy // of a TrainingJob
}

// roomFor is a pool of racks of 18 nodes for a gang: two racks at least, so that there is somewhere
// else to go, under HyperNodes of 8 up to a single root.
func roomFor(pods int) cluster.Topology {
	racks := cluster.GB300NVL72("", 1).NodesPerRack
	t := cluster.GB300NVL72(fmt.Sprintf("p%d", pods), max(2, ceil(pods, racks)))
	t.Tiers = tiersOf(t.Racks)
	return t
}

// tiersOf has so many racks under a single root.
func tiersOf(racks int) (tiers []int) {
	for n := racks; n > 1; n = ceil(n, fanOut) {
		tiers = append(tiers, fanOut)
	}
	return tiers
}

func ceil(a, b int) int { return (a + b - 1) / b }

// topTier is the tier of the pool's root.
func (g *gang) topTier() int { return 1 + len(g.pool.Tiers) }

func (g *gang) template() corev1.PodTemplateSpec {
	all := corev1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(int64(g.pool.GPUsPerNode), resource.DecimalSI)}
	return corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		NodeSelector:                  g.pool.NodeSelector(),
		RestartPolicy:                 corev1.RestartPolicyNever,
		TerminationGracePeriodSeconds: new(int64(1)),
		Containers: []corev1.Container{{
			Name: "main", Image: "trainer",
			Resources: corev1.ResourceRequirements{Requests: all, Limits: all},
		}},
	}}
}

// trainingJob is the gang as a TrainingJob with the default rules, and one for exitJob before them.
func (g *gang) trainingJob() client.Object {
	whole := v1alpha1.Rule{
		Name:  "whole-job",
		Match: v1alpha1.Match{ExitCodes: &v1alpha1.ExitCodes{Operator: v1alpha1.ExitCodesIn, Values: []int32{exitJob}}},
		Steps: []v1alpha1.Step{{Action: v1alpha1.RestartJob}},
	}
	return &v1alpha1.TrainingJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: g.name},
		Spec: v1alpha1.TrainingJobSpec{
			NetworkTopology: &v1alpha1.NetworkTopology{Mode: v1alpha1.TopologyHard, HighestTierAllowed: new(int32(g.topTier()))},
			Tasks:           []v1alpha1.Task{{Name: task, Replicas: int32(g.pods), Template: g.template()}},
			RestartPolicy: &v1alpha1.RestartPolicy{
				Rules:  append([]v1alpha1.Rule{whole}, rules.DefaultRules(false)...),
				Budget: &v1alpha1.Budget{MaxRestarts: new(int32(manyRestarts))}, Backoff: &v1alpha1.Backoff{InitialSeconds: new(int32(0))},
			},
			Hold: &v1alpha1.Hold{Policy: g.hold},
		},
	}
}

// supervised is the gang as a TrainingJob whose programs have supervisors, with the default rules.
func (g *gang) supervised() client.Object {
	job := g.trainingJob().(*v1alpha1.TrainingJob)
	job.Spec.Supervisor = &v1alpha1.Supervisor{}
	job.Spec.RestartPolicy.Rules = nil
	job.Spec.Tasks[0].Template.Spec.Containers[0].Command = []string{"train"}
	return job
}

// volcanoJob is the gang as a plain Volcano Job whose policies restart a failed pod, and its task
// or the job by exit code.
func (g *gang) volcanoJob() client.Object {
	job := cluster.VolcanoJob(g.name, g.pool.Name, int32(g.pods), g.pool.GPUsPerNode)
	job.Spec.Tasks[0].Name = task
	job.Spec.Tasks[0].Template = g.template()
	job.Spec.MaxRetry = manyRestarts
	job.Spec.NetworkTopology = &batch.NetworkTopologySpec{Mode: batch.HardNetworkTopologyMode, HighestTierAllowed: new(g.topTier())}
	job.Spec.Policies = []batch.LifecyclePolicy{
		{ExitCode: new(exitTask), Action: bus.RestartTaskAction},
		{ExitCode: new(exitJob), Action: bus.RestartJobAction},
		{Event: bus.PodFailedEvent, Action: bus.RestartPodAction},
	}
	return job
}
