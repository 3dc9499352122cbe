// The other tenant: gangs that fail and recover again and again.

package tenants

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

const (
	// gangs of the other tenant, and ranks of each.
	gangs, ranks = 4, 2
	// failEvery is how long each of them is left alone between two failures, if it is ready by then.
	failEvery = 4 * time.Second
)

// phase is a part of a run.
type phase string

// The phases, in order: quiet, attack, settle, quiet. Failures while what the attackers have left is removed count in neither half.
const (
	quiet  phase = "quiet"
	attack phase = "attack"
	settle phase = "settle"
)

// work is that of the other tenant.
type work struct {
	mu     sync.Mutex
	during phase
	// late are the times from a failure until it was decided what to do about it, by the phase in which the failure was. heardLate are those
	// until a bystander's watch had the failure: what the API server and the machine take.
	late, heardLate map[phase][]time.Duration
	errs            []error

	// heard is when the bystander heard that a pod had failed.
	heard map[types.UID]time.Time
}

func (w *work) enter(p phase) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.during = p
}

func (w *work) now() phase {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.during
}

func (w *work) decided(p phase, f failure, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.late[p] = append(w.late[p], at.Sub(f.at))
	if heard, is := w.heard[f.pod]; is {
		w.heardLate[p] = append(w.heardLate[p], heard.Sub(f.at))
		delete(w.heard, f.pod)
	}
}

// lateness is how late the decisions of a phase were, and how late the bystander heard of the failures.
func (w *work) lateness(p phase) (decisions, bystander lateness) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return latenessOf(w.late[p]), latenessOf(w.heardLate[p])
}

// awaitFailure waits until a decision about a failure of a phase is known. On a slow machine a recovery can take as long as a phase.
func (w *work) awaitFailure(t *testing.T, p phase) {
	t.Helper()
	await(t, fmt.Sprintf("the other tenant has failed in %s", p), func(context.Context) error {
		if decisions, _ := w.lateness(p); decisions.Failures == 0 {
			return errors.Join(errors.New("it has not"), w.wrong())
		}
		return nil
	})
}

// listen is the bystander. It watches the pods of the other tenant until the context ends.
func (w *work) listen(ctx context.Context) error {
	for ctx.Err() == nil {
		watcher, err := testCluster.Client().Watch(ctx, &corev1.PodList{}, client.InNamespace(workers))
		switch {
		case isOver(ctx):
			return nil
		case err != nil:
			return fmt.Errorf("watch the pods of the other tenant: %w", err)
		}
		for event := range watcher.ResultChan() {
			if pod, is := event.Object.(*corev1.Pod); is && pod.Status.Phase == corev1.PodFailed {
				w.hear(pod.UID, time.Now())
			}
		}
		watcher.Stop() // the server ends a watch now and then
	}
	return nil
}

func (w *work) hear(pod types.UID, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, is := w.heard[pod]; !is {
		w.heard[pod] = at
	}
}

func (w *work) failed(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.errs = append(w.errs, err)
	}
}

// wrong is what has gone wrong so far.
func (w *work) wrong() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return errors.Join(w.errs...)
}

// startWork creates the gangs and has them fail until the returned function is called, which returns what went wrong.
func startWork(t *testing.T) (*work, func() error) {
	t.Helper()
	w := &work{during: quiet, late: map[phase][]time.Duration{}, heardLate: map[phase][]time.Duration{}, heard: map[types.UID]time.Time{}}
	var all []*v1alpha1.TrainingJob
	for i := range gangs {
		job := gang(fmt.Sprintf("work-%d", i))
		must(t, testCluster.Client().Create(t.Context(), job), "create a gang")
		all = append(all, job)
	}
	for _, job := range all {
		await(t, job.Name+" runs", func(ctx context.Context) error { return runs(ctx, job) })
	}
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for _, job := range all {
		group.Go(func() { w.failed(w.failAgainAndAgain(ctx, job)) })
	}
	group.Go(func() { w.failed(w.listen(ctx)) })
	return w, func() error {
		stop()
		group.Wait()
		return w.wrong()
	}
}

// gang is a job whose ranks take a node each. It is restarted as often as it fails: a pod at once, and all of it after an hour.
func gang(name string) *v1alpha1.TrainingJob {
	return &v1alpha1.TrainingJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: workers, Name: name},
		Spec: v1alpha1.TrainingJobSpec{
			Queue: workers,
			RestartPolicy: &v1alpha1.RestartPolicy{
				Rules: []v1alpha1.Rule{{
					Name: "all", Match: v1alpha1.Match{Events: []v1alpha1.EventType{v1alpha1.AnyEvent}},
					Steps: []v1alpha1.Step{{Action: v1alpha1.RestartPod}, {Action: v1alpha1.RestartJob, AfterSeconds: 3600}},
				}},
				Budget: &v1alpha1.Budget{MaxRestarts: new(int32(1000)), WindowSeconds: 60}, Backoff: &v1alpha1.Backoff{InitialSeconds: new(int32(0))},
			},
			Tasks: []v1alpha1.Task{{Name: "worker", Replicas: ranks, Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				NodeSelector:                  pool.NodeSelector(),
				RestartPolicy:                 corev1.RestartPolicyNever,
				TerminationGracePeriodSeconds: new(int64(0)),
				Containers: []corev1.Container{{
					Name: "main", Image: "trainer",
					Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{gpu: resource.MustParse(fmt.Sprint(gpus))}},
				}},
			}}}},
		},
	}
}

// runs returns an error unless a job runs and no incident of it is open.
func runs(ctx context.Context, job *v1alpha1.TrainingJob) error {
	if err := testCluster.Client().Get(ctx, client.ObjectKeyFromObject(job), job); err != nil {
		return err
	}
	if job.Status.State != v1alpha1.StateRunning {
		return fmt.Errorf("it is %s: %s", job.Status.State, job.Status.Message)
	}
	return nil
}

// failAgainAndAgain fails one rank of a gang after the other, and notes how late the decisions are.
func (w *work) failAgainAndAgain(ctx context.Context, job *v1alpha1.TrainingJob) error {
	for rank := 0; ; rank = (rank + 1) % ranks {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(failEvery):
		}
		before := lastIncident(job).ID
		key := client.ObjectKey{Namespace: workers, Name: fmt.Sprintf("%s-%d-worker-%d", job.Name, job.Status.Attempt, rank)}
		during := w.now()
		f, err := fail(ctx, key)
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("fail pod %s: %w", key, err)
		}
		err = poll(ctx, func(ctx context.Context) error {
			if err := runs(ctx, job); err != nil {
				return err
			}
			if lastIncident(job).ID == before {
				return errors.New("the failure has not been seen")
			}
			return nil
		})
		switch inc := incidentAfter(job, before); {
		case isOver(ctx):
			return nil
		case err != nil:
			return fmt.Errorf("%s does not recover: %w", job.Name, err)
		case len(inc.Steps) != 1 || inc.Steps[0].Action != v1alpha1.RestartPod:
			return fmt.Errorf("%s recovered from a failure by incident %d after %d, with the steps %v", job.Name, inc.ID, before, inc.Steps)
		default:
			w.decided(during, f, inc.Steps[0].Time.Time)
		}
	}
}

func lastIncident(job *v1alpha1.TrainingJob) v1alpha1.Incident {
	if n := len(job.Status.Incidents); n > 0 {
		return job.Status.Incidents[n-1]
	}
	return v1alpha1.Incident{}
}

// failure is that of a pod.
type failure struct {
	pod types.UID
	at  time.Time // when it was about to be written
}

// fail ends a pod as a kubelet does.
func fail(ctx context.Context, key client.ObjectKey) (f failure, err error) {
	err = poll(ctx, func(ctx context.Context) error {
		pod := &corev1.Pod{}
		if err := testCluster.Client().Get(ctx, key, pod); err != nil {
			return err
		}
		if len(pod.Status.ContainerStatuses) == 0 || pod.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("pod %s is %s", key, pod.Status.Phase)
		}
		before := client.MergeFromWithOptions(pod.DeepCopy(), client.MergeFromWithOptimisticLock{})
		f = failure{pod.UID, time.Now()}
		container := &pod.Status.ContainerStatuses[0]
		container.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: 1, Reason: "Error", StartedAt: container.State.Running.StartedAt, FinishedAt: metav1.NewTime(f.at),
		}}
		container.Ready = false
		pod.Status.Phase = corev1.PodFailed
		for i := range pod.Status.Conditions {
			if c := &pod.Status.Conditions[i]; c.Type == corev1.PodReady || c.Type == corev1.ContainersReady {
				c.Status, c.Reason = corev1.ConditionFalse, "PodFailed"
			}
		}
		return testCluster.Client().Status().Patch(ctx, pod, before)
	})
	return f, err
}

// isOver reports whether the work has been told to end.
func isOver(ctx context.Context) bool { return ctx.Err() != nil }

// incidentAfter is the first incident after another one. A machine that is busy may make a pod wait for its node, which is one more.
func incidentAfter(job *v1alpha1.TrainingJob, before int32) v1alpha1.Incident {
	for _, inc := range job.Status.Incidents {
		if inc.ID > before {
			return inc
		}
	}
	return v1alpha1.Incident{}
}
