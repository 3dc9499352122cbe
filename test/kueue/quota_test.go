// Kueue's quota decides when jobs run.

package kueue

import (
	"slices"
	"testing"

	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/controllers/kueue"
	"github.com/lockstep-dev/lockstep/test/check"
	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/operator"
)

// A job runs once its Workload is admitted, on the nodes of its flavor, and its spares count. A recovery is none of Kueue's business. One that waits has no Volcano Job,
// and runs once the first is complete.
func TestAJobRunsOnceKueueHasAdmittedIt(t *testing.T) {
	makeFlavors(t, home)
	makeQueue(t, home, "training", quota{"h100", 4 * gpus})
	job, other := gang("admitted", "training", 2), gang("waits", "training", 2)
	job.Spec.Tasks[0].Spares = new(int32(1))
	job.Spec.PriorityClassName = "training"
	must(t, client.IgnoreAlreadyExists(home.Client().Create(t.Context(), &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "training"}, Value: 7})))
	create(t, home, job)
	awaitState(t, home, job, v1alpha1.StateRunning)
	for _, p := range pods(t, home, job) {
		check.Equal(t, p.Name+" is to go to", "h100", p.Spec.NodeSelector["pool"])
	}
	w := workload(t, home, job)
	check.Equal(t, "pods that quota is for", int32(3), w.Spec.PodSets[0].Count)
	check.Equal(t, "priority", int32(7), *w.Spec.Priority)
	await(t, home, "its pods are ready", func() bool { return is(workload(t, home, job), kueue.ConditionPodsReady) })

	create(t, home, other)
	awaitReason(t, home, other, "insufficient")
	made := &batch.JobList{}
	must(t, home.Client().List(t.Context(), made, client.InNamespace(other.Namespace), client.MatchingLabels{v1alpha1.LabelJob: other.Name}))
	check.Equal(t, "Volcano Jobs of the one that waits", 0, len(made.Items))

	await(t, home, "the spare has a node", func() bool { return !slices.Contains(nodesOf(t, home, job), "") && len(nodesOf(t, home, job)) == 3 })
	before, admitted := nodesOf(t, home, job), workload(t, home, job).Status.Admission
	must(t, home.FailPod(t.Context(), client.ObjectKeyFromObject(&pods(t, home, job)[0]), 1))
	await(t, home, "the job has recovered", func() bool {
		incidents := read(t, home, job).Status.Incidents
		return len(incidents) == 1 && incidents[0].Outcome == v1alpha1.OutcomeRecovered
	})
	check.Equal(t, "nodes after the recovery", before, nodesOf(t, home, job))
	check.Equal(t, "admission after the recovery", admitted, workload(t, home, job).Status.Admission)
	check.Equal(t, "ready all the while", true, is(workload(t, home, job), kueue.ConditionPodsReady))

	var ranks []client.ObjectKey
	for _, p := range pods(t, home, job) {
		if p.Labels[v1alpha1.LabelSpare] == "" {
			ranks = append(ranks, client.ObjectKeyFromObject(&p))
		}
	}
	must(t, home.SucceedPods(t.Context(), ranks...))
	awaitState(t, home, job, v1alpha1.StateCompleted)
	await(t, home, "its Workload is finished", func() bool { return reasonOf(workload(t, home, job), kueue.ConditionFinished) == "Succeeded" })
	awaitState(t, home, other, v1alpha1.StateRunning)
}

// A job that is preempted stops, and keeps its quota until its last pod is gone. It runs on its nodes again once the other has ended.
func TestAPreemptedJobComesBackToItsNodes(t *testing.T) {
	makeFlavors(t, home)
	makeQueue(t, home, "preempts", quota{"h200", 4 * gpus})
	apply(t, home, `{"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass", "metadata": {"name": "urgent"}, "value": 1000}`)
	job, urgent := gang("preempted", "preempts", 3), gang("urgent", "preempts", 2)
	job.Spec.Tasks[0].Template.Spec.TerminationGracePeriodSeconds = new(int64(3))
	urgent.Labels[kueue.LabelPriority] = "urgent"
	create(t, home, job)
	awaitState(t, home, job, v1alpha1.StateRunning)
	before := nodesOf(t, home, job)

	create(t, home, urgent)
	await(t, home, "the quota is released", func() bool {
		released := !is(workload(t, home, job), kueue.ConditionQuotaReserved)
		if released {
			check.Equal(t, "pods that run without a quota", 0, len(pods(t, home, job)))
		}
		return released
	})
	awaitState(t, home, urgent, v1alpha1.StateRunning)
	check.Equal(t, "why it is evicted", "Preempted", reasonOf(workload(t, home, job), kueue.ConditionEvicted))
	awaitState(t, home, job, v1alpha1.StateSuspended)
	must(t, home.Client().Delete(t.Context(), urgent, client.PropagationPolicy(metav1.DeletePropagationForeground)))
	awaitState(t, home, job, v1alpha1.StateRunning)
	check.Equal(t, "nodes", before, nodesOf(t, home, job))
}

// What a suspended job gives up is another's, and the job waits for its quota when it is resumed.
func TestASuspendedJobGivesItsQuotaUp(t *testing.T) {
	makeFlavors(t, home)
	makeQueue(t, home, "suspends", quota{"h200", 2 * gpus})
	job, other := gang("held", "suspends", 2), gang("instead", "suspends", 1)
	create(t, home, job)
	awaitState(t, home, job, v1alpha1.StateRunning)
	create(t, home, other)
	awaitReason(t, home, other, "insufficient")

	patch(t, home, job.DeepCopy(), `{"spec": {"suspend": true}}`)
	awaitState(t, home, other, v1alpha1.StateRunning)
	check.Equal(t, "why it has no quota", "OnHold", reasonOf(workload(t, home, job), kueue.ConditionQuotaReserved))
	patch(t, home, job.DeepCopy(), `{"spec": {"suspend": false}}`)
	awaitReason(t, home, job, "insufficient")
	remove(t, home, other)
	awaitState(t, home, job, v1alpha1.StateRunning)
}

// A Workload that is deactivated stops its job, and so does one that is deleted, until there is another. A job that grows needs another, too.
func TestAJobStopsWithItsWorkload(t *testing.T) {
	makeFlavors(t, home)
	makeQueue(t, home, "stops", quota{"h200", 3 * gpus})
	job := gang("stopped", "stops", 2)
	job.Spec.Tasks[0].MinReplicas, job.Spec.Tasks[0].MaxReplicas = new(int32(1)), new(int32(4))
	create(t, home, job)
	awaitState(t, home, job, v1alpha1.StateRunning)
	first := workload(t, home, job)

	patch(t, home, first, `{"spec": {"active": false}}`)
	awaitReason(t, home, job, "deactivated")
	await(t, home, "no pod is left, and no quota taken", func() bool {
		return len(pods(t, home, job)) == 0 && !is(workload(t, home, job), kueue.ConditionQuotaReserved)
	})
	patch(t, home, first, `{"spec": {"active": true}}`)
	awaitState(t, home, job, v1alpha1.StateRunning)

	must(t, home.Client().Delete(t.Context(), first))
	await(t, home, "there is another Workload, and the job runs by it", func() bool {
		w := workload(t, home, job)
		return w != nil && w.UID != first.UID && is(w, kueue.ConditionAdmitted) && read(t, home, job).Status.State == v1alpha1.StateRunning
	})

	patch(t, home, job.DeepCopy(), `{"spec": {"tasks": `+tasks(t, job, 3)+`}}`)
	await(t, home, "the job runs with three pods", func() bool {
		return read(t, home, job).Status.State == v1alpha1.StateRunning && len(pods(t, home, job)) == 3 && workload(t, home, job).Spec.PodSets[0].Count == 3
	})
	patch(t, home, job.DeepCopy(), `{"spec": {"tasks": `+tasks(t, job, 4)+`}}`)
	awaitReason(t, home, job, "insufficient")
	patch(t, home, job.DeepCopy(), `{"spec": {"tasks": `+tasks(t, job, 1)+`}}`)
	awaitState(t, home, job, v1alpha1.StateRunning)

	patch(t, home, job.DeepCopy(), `{"metadata": {"labels": {"kueue.x-k8s.io/queue-name": null}}}`)
	await(t, home, "the Workload is gone", func() bool { return workload(t, home, job) == nil })
	check.Equal(t, "pods without a queue", 1, len(slices.DeleteFunc(pods(t, home, job), func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })))
}

// Neither a manager that starts again nor a Kueue that is away stops a job that runs, nor keeps it from recovering. What the job did meanwhile, Kueue learns later.
func TestAJobRunsOnWithoutKueue(t *testing.T) {
	makeFlavors(t, home)
	makeQueue(t, home, "away", quota{"h200", 3 * gpus})
	job := gang("alone", "away", 3)
	create(t, home, job)
	awaitState(t, home, job, v1alpha1.StateRunning)
	before := pods(t, home, job)

	must(t, home.Component(cluster.Kueue).Kill())
	must(t, home.Component(operator.Name).Kill())
	must(t, home.Component(operator.Name).Start(t.Context()))
	must(t, home.FailPod(t.Context(), client.ObjectKeyFromObject(&before[0]), 1))
	await(t, home, "the job has recovered", func() bool {
		incidents := read(t, home, job).Status.Incidents
		return len(incidents) == 1 && incidents[0].Outcome == v1alpha1.OutcomeRecovered
	})
	after := pods(t, home, job)
	for i := range before {
		check.Equal(t, "node of "+before[i].Name, before[i].Spec.NodeName, after[i].Spec.NodeName)
		check.Equal(t, before[i].Name+" is as it was", i > 0, before[i].UID == after[i].UID)
	}
	for _, p := range after {
		must(t, home.SucceedPods(t.Context(), client.ObjectKeyFromObject(&p)))
	}
	awaitState(t, home, job, v1alpha1.StateCompleted)
	check.Equal(t, "has quota while Kueue is away", true, is(workload(t, home, job), kueue.ConditionQuotaReserved))

	must(t, home.Component(cluster.Kueue).Start(t.Context()))
	await(t, home, "its Workload is finished", func() bool { return is(workload(t, home, job), kueue.ConditionFinished) })
}

// A job that is admitted to another flavor than before gets new nodes there, since its pods may not go to those that it had.
func TestAJobComesBackOnAnotherFlavor(t *testing.T) {
	makeFlavors(t, home)
	makeQueue(t, home, "flavors", quota{"h200", 2 * gpus}, quota{"h100", 2 * gpus})
	job, other := gang("moves", "flavors", 2), gang("stays", "flavors", 2)
	create(t, home, job)
	awaitState(t, home, job, v1alpha1.StateRunning)
	patch(t, home, job.DeepCopy(), `{"spec": {"suspend": true}}`)
	await(t, home, "the quota is released", func() bool { return !is(workload(t, home, job), kueue.ConditionQuotaReserved) })
	create(t, home, other)
	awaitState(t, home, other, v1alpha1.StateRunning)
	patch(t, home, job.DeepCopy(), `{"spec": {"suspend": false}}`)
	awaitState(t, home, job, v1alpha1.StateRunning)
	for _, p := range pods(t, home, job) {
		check.Equal(t, "the pool that "+p.Name+" asks for", "h100", p.Spec.NodeSelector["pool"])
	}
	check.Equal(t, "incidents", 0, len(read(t, home, job).Status.Incidents))
}
