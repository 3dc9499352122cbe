// The same gang as a TrainingJob and as a plain Volcano Job.

package main

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	bus "volcano.sh/apis/pkg/apis/bus/v1alpha1"

	"github.com/lockstep-dev/lockstep/test/real"
)

// endless is more steps than any run comes to.
const endless = 1_000_000

// gang is a training within one rack.
func (b *bench) gang(name string) *real.Training {
	t := b.ground.NewTraining(name, b.options.ranks, endless)
	t.Job.Spec.NetworkTopology.HighestTierAllowed = new(int32(1))
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

// jobName is that of a side's n-th run.
func (s *side) jobName(n int) string {
	short := map[string]string{string(bus.RestartPodAction): "pod", string(bus.RestartTaskAction): "task", string(bus.RestartJobAction): "job"}
	if name, ok := short[s.policy]; ok {
		return fmt.Sprintf("volcano-%s-%d", name, n)
	}
	return fmt.Sprintf("lockstep-%d", n)
}
