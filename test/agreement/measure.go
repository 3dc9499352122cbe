// Measurements: a trial as it happens.

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

const (
	glance = 50 * time.Millisecond
	// waitLimit bounds every wait; nothing is measured by it.
	waitLimit = 4 * time.Minute
	// settle is how long a job is left alone once all of its incidents are over, in which another one could begin.
	settle = 2 * time.Second
	// youth is how long the processes of a job are young: the exits of those that began together say less then about whether the
	// gang runs. In the lab a job has run for an hour before it fails.
	youth = gang.Wake
)

// ground is where trials are made.
type ground interface {
	nodes() *cluster.Cluster
	// begin runs the job of a trial until it trains.
	begin(ctx context.Context, t *trial) (*stage, error)
	// strike makes the failure of a trial, and returns once there is no more for it to do. It returns for how long a node was away
	// that came back.
	strike(ctx context.Context, s *stage, t *trial) (away time.Duration, err error)
	// end takes the job away and mends what was broken.
	end(ctx context.Context, s *stage) error
	stop() error
}

// stage is the job of a trial, where it runs.
type stage struct {
	job  *v1alpha1.TrainingJob
	pool cluster.Topology
	// readyWhenTraining is whether a pod is ready only while it trains.
	readyWhenTraining bool
	// deletesAtOnce is whether a pod ends at once that is deleted while its container restarts in place.
	deletesAtOnce bool
	// broken are the nodes that were lost.
	broken []string
}

// measurement is what a trial came to.
type measurement struct {
	*stage
	trial     *trial
	failed    []time.Time // when each of its failures was made
	away      time.Duration
	up        time.Time // when all ranks were ready again after the last failure
	incidents []v1alpha1.Incident
	seen      *record
}

func (m *measurement) outcome() outcome {
	return outcomeOf(m.incidents, m.failed[len(m.failed)-1], m.up)
}

// measure makes the failures of a trial, one after the other.
func measure(ctx context.Context, g ground, t *trial) (m *measurement, err error) {
	s, err := g.begin(ctx, t)
	if s != nil {
		defer func() { err = errors.Join(err, g.end(context.WithoutCancel(ctx), s)) }()
	}
	if err != nil {
		return nil, err
	}
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	m = &measurement{trial: t, stage: s}
	c := g.nodes().Client()
	if m.seen, err = watchJob(watching, c, s.job.Name, s.pool); err != nil {
		return nil, err
	}
	for range t.before + 1 {
		if err := sleep(ctx, youth+settle); err != nil {
			return nil, err
		}
		failed := time.Now()
		if m.away, err = g.strike(ctx, s, t); err != nil {
			return nil, err
		}
		m.failed = append(m.failed, failed)
		if m.incidents, err = awaitRecovery(ctx, c, s.job, failed); err != nil {
			return nil, err
		}
	}
	for i := range m.incidents {
		inc := &m.incidents[i]
		if inc.EndTime.After(m.up) {
			m.up = inc.EndTime.Time
		}
		if inc.BoundTime != nil {
			inc.BoundTime = new(metav1.NewMicroTime(m.seen.exactly(inc.BoundTime.Time)))
		}
	}
	return m, nil
}

// awaitRecovery waits until a failure has had incidents, and all of them are over.
func awaitRecovery(ctx context.Context, c client.Client, job *v1alpha1.TrainingJob, failed time.Time) ([]v1alpha1.Incident, error) {
	for {
		var over []v1alpha1.Incident
		err := wait.PollUntilContextTimeout(ctx, glance, waitLimit, true, func(ctx context.Context) (bool, error) {
			over = nil
			incidents, err := calm(ctx, c, job)
			over = since(incidents, failed)
			return len(over) > 0, err
		})
		if err != nil {
			return nil, fmt.Errorf("waiting until the job has recovered: %w", err)
		}
		if err := sleep(ctx, settle); err != nil {
			return nil, err
		}
		again, err := calm(ctx, c, job)
		if err != nil {
			return nil, err
		}
		if again = since(again, failed); len(again) == len(over) {
			return again, nil
		}
	}
}

// calm returns the incidents of a job that runs; none as long as one is open.
func calm(ctx context.Context, c client.Client, job *v1alpha1.TrainingJob) ([]v1alpha1.Incident, error) {
	now := &v1alpha1.TrainingJob{}
	if err := c.Get(ctx, client.ObjectKeyFromObject(job), now); err != nil {
		return nil, err
	}
	open := slices.ContainsFunc(now.Status.Incidents, func(i v1alpha1.Incident) bool { return i.Outcome == "" })
	if now.Status.State == v1alpha1.StateFailed {
		return nil, fmt.Errorf("the job has failed: %s", now.Status.Message)
	}
	if open || now.Status.State != v1alpha1.StateRunning {
		return nil, nil
	}
	return now.Status.Incidents, nil
}

// podsOf are the pods of a job by rank.
func podsOf(ctx context.Context, c client.Client, job *v1alpha1.TrainingJob) (map[gang.Rank]corev1.Pod, error) {
	now, list := &v1alpha1.TrainingJob{}, &corev1.PodList{}
	if err := c.Get(ctx, client.ObjectKeyFromObject(job), now); err != nil {
		return nil, err
	}
	if err := c.List(ctx, list, client.InNamespace(metav1.NamespaceDefault), client.MatchingLabels{v1alpha1.LabelJob: job.Name}); err != nil {
		return nil, err
	}
	byName := map[string]corev1.Pod{}
	for _, p := range list.Items {
		byName[p.Name] = p
	}
	pods := map[gang.Rank]corev1.Pod{}
	for _, r := range ranksOf(now) {
		if p, there := byName[gang.PodName(now, now.Status.Attempt, r)]; there {
			pods[r] = p
		}
	}
	if len(pods) < len(ranksOf(now)) {
		return nil, fmt.Errorf("%d of %d ranks have pods", len(pods), len(ranksOf(now)))
	}
	return pods, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
