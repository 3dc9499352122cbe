// Spares that take over: which rank, or spare, each pod is, and when spares wait for a rank.

package real

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

const masterTask, workerTask = "master", "worker"

// TaskOf is the task of a rank: rank 0 is the master.
func TaskOf(rank int) string {
	if rank == 0 {
		return masterTask
	}
	return workerTask
}

// TakeOver gives the master one spare, and the workers so many, that take over lost ranks.
func (t *Training) TakeOver(workers int32) {
	t.Supervise()
	t.Job.Spec.Supervisor.TakeOver = &v1alpha1.TakeOver{}
	for i := range t.Job.Spec.Tasks {
		task := &t.Job.Spec.Tasks[i]
		task.Spares = new(int32(1))
		if task.Name == workerTask {
			task.Spares = &workers
		}
	}
}

// SaveWhenAsked has ranks save when they are asked to, when a peer is lost, and in the end, and not every so many steps. A rank that is frozen is
// not within a save then, of which a part is done before the store looks for later claims.
func (t *Training) SaveWhenAsked() {
	for i := range t.Job.Spec.Tasks {
		container := &t.Job.Spec.Tasks[i].Template.Spec.Containers[0]
		container.Args = append(container.Args, "-survivors-save", "-checkpoint-every=1000000")
	}
}

// AwaitSpares waits until each spare of some tasks waits for a rank, and returns them, by their tasks.
func (t *Training) AwaitSpares(ctx context.Context, tasks ...string) (waiting map[string][]corev1.Pod, err error) {
	err = await(ctx, fmt.Sprintf("the spares of %v wait", tasks), func(ctx context.Context) (bool, error) {
		all, err := t.pods(ctx)
		if err != nil {
			return false, err
		}
		if waiting, err = t.waitingSpares(ctx, all); err != nil {
			return false, err
		}
		for _, task := range t.Job.Spec.Tasks {
			for _, asked := range tasks {
				if task.Name == asked && len(waiting[asked]) < int(*task.Spares) {
					return false, nil
				}
			}
		}
		return true, nil
	})
	return waiting, err
}

// waitingSpares are the spares among pods whose supervisors wait for a rank.
func (t *Training) waitingSpares(ctx context.Context, pods []corev1.Pod) (map[string][]corev1.Pod, error) {
	status, err := t.placed(ctx)
	if err != nil {
		return nil, err
	}
	waiting := map[string][]corev1.Pod{}
	for _, pod := range pods {
		is := gang.RankOf(status, slotOf(pod))
		task, spare := strings.CutSuffix(is.Task, v1alpha1.SpareSuffix)
		if !spare || pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil {
			continue
		}
		incarnation, err := strconv.ParseInt(pod.Annotations[v1alpha1.AnnotationIncarnation], 10, 32)
		if err != nil {
			return nil, fmt.Errorf("the incarnation of pod %s: %w", pod.Name, err)
		}
		if int32(incarnation) < gang.Incarnation(status, is.Task, is.Index) {
			continue // its rank has moved, and another pod is the spare
		}
		log, err := t.Log(ctx, pod, 20)
		if err != nil {
			return nil, err
		}
		if strings.Contains(log, "state=WAITING") {
			waiting[task] = append(waiting[task], pod)
		}
	}
	return waiting, nil
}

// placed is the status that says which rank each pod is. What a test has read of the job stays.
func (t *Training) placed(ctx context.Context) (*v1alpha1.TrainingJobStatus, error) {
	job := t.Job.DeepCopy()
	if s := t.Job.Spec.Supervisor; s == nil || s.TakeOver == nil {
		return &job.Status, nil
	}
	err := t.ground.Client().Get(ctx, client.ObjectKeyFromObject(job), job)
	return &job.Status, client.IgnoreNotFound(err)
}
