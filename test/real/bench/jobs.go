// The same gang as a TrainingJob and as a plain Volcano Job.

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	bus "volcano.sh/apis/pkg/apis/bus/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/real"
)

// endless is more steps than any run comes to.
const endless = 1_000_000

// A gang takes the GPUs of three nodes of a rack of five, so that home has room for a spare for each rank of a lost node, whichever it is.
const (
	nodesPerRack = 5
	gpusPerNode  = 8
	gangNodes    = 3
	gangGPUs     = gangNodes * gpusPerNode
)

// gangSizes are the numbers of ranks among which these GPUs, and those of a node, can be divided.
var gangSizes = []int{gangGPUs / 8, gangGPUs / 4, gangGPUs / 2, gangGPUs}

// trainer is a training of the trainer.
func (b *bench) trainer(name string, ranks int) *real.Training {
	return within(b.ground.NewTraining(name, ranks, endless))
}

// torchrun is a training of PyTorch, whose agents leave restarts to their supervisors.
func (b *bench) torchrun(name string, ranks int) *real.Training {
	t := within(b.ground.NewTorchrun(name, ranks, endless))
	t.LeaveRestarts()
	t.Job.Spec.Supervisor = &v1alpha1.Supervisor{StopSeconds: &b.torchStop}
	return t
}

// within confines a training to one rack.
func within(t *real.Training) *real.Training {
	t.Job.Spec.NetworkTopology.HighestTierAllowed = new(int32(1))
	t.TakeGPUs(gangGPUs / t.Ranks)
	return t
}

func lockstepJob(t *real.Training, _ string) client.Object { return t.Job }

// volcanoJob has Volcano answer failed and evicted pods with one action. Its pods do not restart in
// place: Volcano is told of a pod that fails, and not of a container. They bear an unreachable node for
// as long as Lockstep does where the rest of the gang is down.
func volcanoJob(t *real.Training, action string) client.Object {
	job := &batch.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: t.Job.Namespace, Name: t.Job.Name},
		Spec: batch.JobSpec{
			SchedulerName:   "volcano",
			MinAvailable:    int32(t.Ranks),
			MaxRetry:        1000,
			NetworkTopology: &batch.NetworkTopologySpec{Mode: batch.HardNetworkTopologyMode, HighestTierAllowed: new(1)},
			Plugins: map[string][]string{
				"svc":     {"--disable-network-policy=true", "--publish-not-ready-addresses=true"},
				"pytorch": {},
			},
			Policies: []batch.LifecyclePolicy{{
				Events: []bus.Event{bus.PodFailedEvent, bus.PodEvictedEvent}, Action: bus.Action(action),
			}},
		},
	}
	for i := range t.Job.Spec.Tasks {
		task := &t.Job.Spec.Tasks[i]
		pod := task.Template.DeepCopy()
		pod.Spec.RestartPolicy = corev1.RestartPolicyNever
		pod.Spec.Containers[0].Args = append(pod.Spec.Containers[0].Args, "-run="+t.Job.Name)
		pod.Spec.Tolerations = leaving(real.GangDownSeconds)
		job.Spec.Tasks = append(job.Spec.Tasks, batch.TaskSpec{Name: task.Name, Replicas: task.Replicas, Template: *pod})
	}
	return job
}

// leaving are the tolerations of a pod that is evicted from a lost node after some seconds.
func leaving(seconds int64) []corev1.Toleration {
	var all []corev1.Toleration
	for _, key := range []string{corev1.TaintNodeUnreachable, corev1.TaintNodeNotReady} {
		all = append(all, corev1.Toleration{
			Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds,
		})
	}
	return all
}

// sides are those of the first table: Lockstep without supervisors, and each policy of Volcano.
func (o *options) sides() []*side {
	return asked(append([]*side{
		{name: "lockstep", who: "Lockstep", policy: "the default rules", job: lockstepJob, runs: o.runs, losses: 1, ranks: o.ranks, bound: o.bound},
	}, volcanoSides("volcano", o.peers, o.ranks, o.bound)...))
}

// gangSides are those of the larger gang. Two gangs with supervisors lose nodes one after the other.
func (o *options) gangSides() []*side {
	ours := []*side{
		{name: "gang-takeover", policy: "with spares that take over", supervised: true, takesOver: true, runs: min(1, o.losses), losses: o.losses},
		{name: "gang-supervised", policy: "with supervisors", supervised: true, runs: min(1, o.losses), losses: o.losses},
		{name: "gang-lockstep", policy: "without supervisors", runs: o.gangRuns, losses: 1},
	}
	for _, s := range ours {
		s.who, s.job, s.ranks, s.bound = "Lockstep", lockstepJob, o.gang, o.gangBound
	}
	return asked(append(ours, volcanoSides("gang-volcano", o.gangPeers, o.gang, o.gangBound)...))
}

// asked are the sides with a run.
func asked(sides []*side) []*side {
	return slices.DeleteFunc(sides, func(s *side) bool { return s.runs == 0 })
}

func volcanoSides(name string, runs, ranks int, bound time.Duration) []*side {
	var all []*side
	for _, policy := range []bus.Action{bus.RestartPodAction, bus.RestartTaskAction, bus.RestartJobAction} {
		all = append(all, &side{
			name: name + strings.ToLower(strings.TrimPrefix(string(policy), "Restart")), who: "Volcano", policy: string(policy),
			job: volcanoJob, runs: runs, losses: 1, ranks: ranks, bound: bound,
		})
	}
	return all
}

// jobName is that of a side's n-th run.
func (s *side) jobName(n int) string { return fmt.Sprintf("%s-%d", s.name, n) }

// series kills programs of one gang after the other.
func (b *bench) series(ctx context.Context, o *options) ([]*series, error) {
	b.torchStop = int32(o.torchStop)
	all := []*series{
		{name: "programs", program: "the trainer", training: b.trainer, supervised: true, ranks: o.gang, count: o.kills},
		{name: "bare", program: "the trainer", training: b.trainer, ranks: o.gang, count: o.bareKills},
		{name: "torchrun", program: "torchrun", training: b.torchrun, supervised: true, ranks: o.torchrun, count: o.torchKills},
	}
	all = slices.DeleteFunc(all, func(s *series) bool { return s.count == 0 })
	if o.torchKills > 0 {
		if err := b.ground.LoadTorch(ctx); err != nil {
			return nil, err
		}
	}
	for _, s := range all {
		if err := b.killPrograms(ctx, s); err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return all, nil
}
