// Kills: programs of a gang are killed one after the other, and the time is taken until all train again.

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/real"
)

const (
	// between is how many steps a gang makes from one kill to the next: a checkpoint is among them.
	between = 12
	// logGlance is how often a log is read. What is measured are the times in the logs.
	logGlance = 150 * time.Millisecond
	// settling is how long after a kill the first log is read: reading takes processor time, which the gang's restart would miss.
	settling = 3 * time.Second
	// stride is how far the rank of a kill is from the one before. It has no divisor in common with any size of a gang.
	stride = 7
)

// series is a gang whose programs are killed one after the other.
type series struct {
	name, program string
	training      func(name string, ranks int) *real.Training
	supervised    bool
	ranks, count  int

	kills []kill
	// phases are those that its pods and its Volcano Job have left Running for after the first kill.
	phases []string
	// replaced and restarted are how many pods and containers are not those of before.
	replaced, restarted int
	losses              string // what was found wrong with them
}

// kill is one program that was killed.
type kill struct {
	rank   int
	killed time.Time
	// told, stopped, started and trained are when the last rank had the order to stop, had stopped, was started again, and made a step.
	told, stopped, started, trained time.Time
}

func (k kill) toTell() time.Duration  { return k.told.Sub(k.killed) }
func (k kill) toStop() time.Duration  { return k.stopped.Sub(k.killed) }
func (k kill) toStart() time.Duration { return k.started.Sub(k.killed) }
func (k kill) startUp() time.Duration { return k.trained.Sub(k.started) }
func (k kill) toTrain() time.Duration { return k.trained.Sub(k.killed) }

func (k kill) String() string {
	return fmt.Sprintf("rank %d: told %s, stopped %s, started %s, trained %s", k.rank, max(0, k.toTell()).Round(time.Millisecond),
		max(0, k.toStop()).Round(time.Millisecond), k.toStart().Round(time.Millisecond), k.toTrain().Round(time.Millisecond))
}

// killPrograms runs a gang and kills its programs.
func (b *bench) killPrograms(ctx context.Context, s *series) (err error) {
	t := s.training(s.name, s.ranks)
	if s.supervised {
		t.Supervise()
		t.Job.Spec.RestartPolicy.Backoff = &v1alpha1.Backoff{InitialSeconds: new(int32(0))} // the next kill comes as soon as it trains again
	}
	created := time.Now()
	if err := b.ground.Client().Create(ctx, t.Job); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.remove(context.WithoutCancel(ctx), t.Job)) }()
	before, err := b.awaitRunning(ctx, t)
	if err != nil {
		return err
	}
	last, began, seen := created, time.Now(), curve{}
	for n := range s.count {
		if err := b.awaitSteps(ctx, t, before[0], last); err != nil {
			return err
		}
		k := kill{rank: (1 + stride*n) % s.ranks}
		if err := b.kill(ctx, t, s, &k, before, seen); err != nil {
			return fmt.Errorf("kill %d, of rank %d: %w", n+1, k.rank, err)
		}
		last, s.kills = k.killed, append(s.kills, k)
		fmt.Fprintf(os.Stderr, "%s: kill %d of %s\n", s.name, n+1, k)
	}
	if err := b.awaitSteps(ctx, t, before[0], last); err != nil {
		return err
	}
	s.phases = b.observer.phases(t.Job.Name, began)
	return s.compare(ctx, t, before)
}

// kill kills a program, and reads the logs until every rank has made a step again.
func (b *bench) kill(ctx context.Context, t *real.Training, s *series, k *kill, pods map[int]corev1.Pod, seen curve) error {
	pod, find := pods[k.rank], b.ground.Processes
	if s.supervised {
		find = b.ground.Programs
	}
	pids, err := find(ctx, client.ObjectKeyFromObject(&pod))
	if err != nil {
		return err
	}
	k.killed = time.Now()
	if err := cluster.Kill(pids); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(settling):
	}
	for rank := range s.ranks {
		l, err := awaitTimeline(ctx, t, pods[rank], k.killed, func(l *timeline) bool { return !l.trained.IsZero() })
		if err != nil {
			return fmt.Errorf("rank %d does not train: %w", rank, err)
		}
		if err := seen.add(l); err != nil {
			s.losses = err.Error()
		}
		k.told, k.stopped = later(k.told, l.told), later(k.stopped, l.waiting)
		k.started, k.trained = later(k.started, l.started()), later(k.trained, l.trained)
	}
	return nil
}

// compare looks at what the kills have left behind.
func (s *series) compare(ctx context.Context, t *real.Training, before map[int]corev1.Pod) error {
	after, err := t.Pods(ctx)
	if err != nil {
		return err
	}
	for rank, pod := range after {
		if pod.UID != before[rank].UID {
			s.replaced++
		}
		s.restarted += restarts(pod)
	}
	if len(t.Losses()) == 0 || s.losses != "" {
		return nil // torchrun's are in its logs, and were compared there
	}
	if err := t.CompareLosses(ctx); err != nil {
		s.losses = err.Error()
	}
	return nil
}

// awaitRunning waits until all pods of a gang run and are ready, and returns them.
func (b *bench) awaitRunning(ctx context.Context, t *real.Training) (pods map[int]corev1.Pod, err error) {
	err = wait.PollUntilContextTimeout(ctx, logGlance, real.AwaitTimeout, true, func(ctx context.Context) (bool, error) {
		if pods, err = t.Pods(ctx); err != nil {
			return false, err
		}
		ready := 0
		for _, pod := range pods {
			if slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
			}) {
				ready++
			}
		}
		return ready == t.Ranks, nil
	})
	return pods, err
}

// awaitSteps waits until a rank has made enough steps for the next kill, since it was last started after a time.
func (b *bench) awaitSteps(ctx context.Context, t *real.Training, pod corev1.Pod, since time.Time) error {
	_, err := awaitTimeline(ctx, t, pod, since, func(l *timeline) bool { return l.steps >= between })
	return err
}

// awaitTimeline reads the log of a rank until it shows something. There is no log while a container is started.
func awaitTimeline(ctx context.Context, t *real.Training, pod corev1.Pod, since time.Time, shows func(*timeline) bool) (l *timeline, err error) {
	err = wait.PollUntilContextTimeout(ctx, logGlance, real.AwaitTimeout, true, func(ctx context.Context) (bool, error) {
		log, failed := t.LogSince(ctx, pod, since)
		l = readTimeline(log, since)
		return failed == nil && shows(l), nil
	})
	return l, err
}

// restarts are those of a pod's containers.
func restarts(pod corev1.Pod) (n int) {
	for _, c := range pod.Status.ContainerStatuses {
		n += int(c.RestartCount)
	}
	return n
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
