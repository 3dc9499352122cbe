// Observe: cached reads, turned into the plain value that decisions are made from.

package controllers

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// observe looks at a job and all that matters to it.
func (r *TrainingJobReconciler) observe(ctx context.Context, job *v1alpha1.TrainingJob) (*gang.Observation, error) {
	m := r.memoryOf(job)
	o := &gang.Observation{
		Now: r.Clock.Now(), Job: job, Refused: m.refused, Answers: r.checkpoints.answers(client.ObjectKeyFromObject(job)),
		Requests: requestsOf(job), HoldLimits: r.HoldLimits,
	}
	var err error
	if o.NotAdmitted, err = r.Admissions.Apply(ctx, job); err != nil {
		return nil, err
	}
	if err = r.observeMisplaced(ctx, o); err != nil {
		return nil, err
	}
	o.BindsDirectly = r.DirectBinding.allows(ctx, o.Now)
	o.LackingSince, o.SyncedTime, o.SyncHeard = m.lack.since, m.lack.synced, m.lack.heard
	o.Vacated = m.vacated.of(job.Status.Holds)
	if o.Topology, err = r.topology.Get(ctx, r.Client); err != nil {
		return nil, err
	}
	current, err := r.observeVolcanoJobs(ctx, o)
	if err != nil {
		return nil, err
	}
	if o.PodGroup, err = r.observePodGroup(ctx, current); err != nil {
		return nil, err
	}
	if err := r.observeQueue(ctx, o); err != nil {
		return nil, err
	}
	if err := r.observeQueueHolds(ctx, o); err != nil {
		return nil, err
	}
	if err := r.observePods(ctx, o); err != nil {
		return nil, err
	}
	if err := r.observeMissing(ctx, o); err != nil {
		return nil, err
	}
	if err := r.observeTaken(ctx, o); err != nil {
		return nil, err
	}
	m.reported.Store(false) // before the reports are read: a later one is another pass's
	r.observeProcesses(o)
	if err := r.observeCreateErrors(ctx, o); err != nil {
		return nil, err
	}
	m.lostNode.Store(false)
	if err := r.observeNodes(ctx, o); err != nil {
		return nil, err
	}
	if err := r.observeBudget(ctx, o); err != nil {
		return nil, err
	}
	if err := r.observeStartProblems(ctx, o); err != nil {
		return nil, err
	}
	m.sight(o)
	return o, r.observeHealth(ctx, o)
}

// observeVolcanoJobs lists the job's Volcano Jobs and returns that of the current attempt.
func (r *TrainingJobReconciler) observeVolcanoJobs(ctx context.Context, o *gang.Observation) (*batch.Job, error) {
	list := &batch.JobList{}
	if err := r.List(ctx, list, client.InNamespace(o.Job.Namespace), client.MatchingLabels{v1alpha1.LabelJob: o.Job.Name}); err != nil {
		return nil, fmt.Errorf("list Volcano Jobs: %w", err)
	}
	found := slices.DeleteFunc(list.Items, func(v batch.Job) bool { return !ownedBy(&v, o.Job) })
	name := gang.VolcanoJobName(o.Job, o.Job.Status.Attempt)
	at := slices.IndexFunc(found, func(v batch.Job) bool { return v.Name == name })
	if at < 0 && o.Job.Status.Attempt > 0 {
		// The cache may lag behind our own create: only the API server knows that a Volcano Job is gone.
		live := batch.Job{}
		err := r.Live.Get(ctx, client.ObjectKey{Namespace: o.Job.Namespace, Name: name}, &live)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("get Volcano Job %s: %w", name, err)
		}
		if err == nil && ownedBy(&live, o.Job) {
			at, found = len(found), append(found, live)
		}
	}
	for i := range found {
		o.VolcanoJobs = append(o.VolcanoJobs, volcanoJob(&found[i]))
	}
	if at < 0 {
		return nil, nil
	}
	return &found[at], nil
}

func ownedBy(obj client.Object, job *v1alpha1.TrainingJob) bool {
	return slices.ContainsFunc(obj.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return ref.UID == job.UID })
}

func volcanoJob(v *batch.Job) gang.VolcanoJob {
	phase := v.Status.State.Phase
	return gang.VolcanoJob{
		UID:       string(v.UID),
		Name:      v.Name,
		Attempt:   numberOf(v.Labels[v1alpha1.LabelAttempt]),
		Deleting:  !v.DeletionTimestamp.IsZero(),
		Stopping:  phase == batch.Aborting || phase == batch.Completing || phase == batch.Terminating,
		Ended:     phase == batch.Aborted || phase == batch.Completed || phase == batch.Terminated || phase == batch.Failed,
		Succeeded: phase == batch.Completed,
		Size:      sizeOf(v),
	}
}

func sizeOf(v *batch.Job) gang.Size {
	size := gang.Size{MinAvailable: v.Spec.MinAvailable, Replicas: make(map[string]int32, len(v.Spec.Tasks))}
	for i := range v.Spec.Tasks {
		size.Replicas[v.Spec.Tasks[i].Name] = v.Spec.Tasks[i].Replicas
	}
	return size
}

// observePodGroup gets the PodGroup that Volcano makes for a Volcano Job, named <job>-<uid of the job>.
func (r *TrainingJobReconciler) observePodGroup(ctx context.Context, v *batch.Job) (*gang.PodGroup, error) {
	if v == nil {
		return nil, nil
	}
	pg := &scheduling.PodGroup{}
	key := client.ObjectKey{Namespace: v.Namespace, Name: v.Name + "-" + string(v.UID)}
	if err := r.Get(ctx, key, pg); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("get PodGroup %s: %w", key.Name, err)
	}
	phase := pg.Status.Phase
	return &gang.PodGroup{
		Name: pg.Name, Pending: phase == "" || phase == scheduling.PodGroupPending,
		Refreshing: refreshing(pg), RefreshedTime: refreshedTime(pg),
	}, nil
}

// observeQueue looks whether the queue exists, under which the job is counted then, and whether it is closed.
func (r *TrainingJobReconciler) observeQueue(ctx context.Context, o *gang.Observation) error {
	queue := &scheduling.Queue{}
	err := r.Get(ctx, client.ObjectKey{Name: o.Job.Spec.Queue}, queue)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("get queue %s: %w", o.Job.Spec.Queue, err)
	}
	r.countUnder(client.ObjectKeyFromObject(o.Job), labelOf(o.Job.Spec.Queue, err == nil))
	o.QueueMissing = err != nil
	o.QueueClosed = err == nil && closed(queue)
	return nil
}

// countUnder has the metrics count a job under a queue, or no longer if that is empty.
func (r *TrainingJobReconciler) countUnder(job types.NamespacedName, queue string) {
	if series.of(job) != queue {
		r.memories.of(job).endSilence()
	}
	series.move(job, queue)
}

func closed(queue *scheduling.Queue) bool {
	return queue.Status.State == scheduling.QueueStateClosed || queue.Status.State == scheduling.QueueStateClosing
}

func (r *TrainingJobReconciler) observePods(ctx context.Context, o *gang.Observation) error {
	list := &corev1.PodList{}
	err := r.List(ctx, list, client.InNamespace(o.Job.Namespace), client.MatchingFields{indexJob: string(o.Job.UID)}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	m := r.memoryOf(o.Job)
	m.showBound(list.Items)
	o.Pods = m.podsOf(o.Job, list.Items)
	gang.Place(o.Pods, &o.Job.Status)
	o.FitErrors = m.noteFitErrors(list.Items, o.Now)
	for _, pods := range []*podMemory[bool]{&m.tried, &m.opened, &m.deleted} {
		pods.keep(o.Pods)
	}
	for i := range o.Pods {
		o.Pods[i].BindingTried = m.tried.of(o.Pods[i].UID)
	}
	return nil
}

func numberOf(s string) int32 {
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil {
		return 0
	}
	return int32(n)
}
