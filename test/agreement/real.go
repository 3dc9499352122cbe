// Real kubelets and the real training program.

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/lab"
	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/real"
)

const (
	// endless is more steps than any trial comes to, and warmUp the step after which failures come.
	endless, warmUp = 1_000_000, 15
	nodesPerRack    = 4
)

type kubelets struct {
	*real.Ground
	training *real.Training
}

func startReal(ctx context.Context) (ground, error) {
	g, err := real.Start(ctx, nodesPerRack, 0, os.Stderr)
	return &kubelets{Ground: g}, err
}

func (g *kubelets) nodes() *cluster.Cluster { return g.Cluster }

func (g *kubelets) stop() error { return g.Stop() }

// begin runs the training in a rack.
func (g *kubelets) begin(ctx context.Context, t *trial) (*stage, error) {
	g.training = g.NewTraining(t.name, t.gang, endless)
	job := g.training.Job
	job.Spec.NetworkTopology.HighestTierAllowed = new(int32(1))
	job.Spec.RestartPolicy = nil
	for _, change := range t.change {
		change(job)
	}
	if t.supervised {
		g.training.Supervise()
	}
	s := &stage{job: job, pool: g.Nodes, readyWhenTraining: true}
	if err := g.training.Run(ctx); err != nil {
		return s, err
	}
	return s, errors.Join(g.training.AwaitSteps(ctx, warmUp), g.training.AwaitJob(ctx, "the job runs", func(j *v1alpha1.TrainingJob) bool {
		return j.Status.State == v1alpha1.StateRunning
	}))
}

func (g *kubelets) end(ctx context.Context, s *stage) error {
	var err error
	if len(s.broken) > 0 {
		err = g.PowerOn(ctx, s.broken...)
	}
	return errors.Join(err, g.training.Delete(ctx))
}

func (g *kubelets) strike(ctx context.Context, s *stage, t *trial) (away time.Duration, err error) {
	began := time.Now()
	pods, err := podsOf(ctx, g.Client(), s.job)
	if err != nil {
		return 0, err
	}
	var keys []client.ObjectKey
	for _, r := range t.hit(s.job) {
		pod := pods[r]
		keys = append(keys, client.ObjectKeyFromObject(&pod))
		switch t.effect {
		case lab.ProcessExit:
		case lab.PodLoss:
			err = errors.Join(err, g.Client().Delete(ctx, &pod))
		case lab.NodeLoss:
			s.broken = append(s.broken, pod.Spec.NodeName)
		default:
			return 0, fmt.Errorf("no %s on real kubelets", t.effect)
		}
	}
	if t.effect == lab.ProcessExit && t.supervised {
		return 0, g.KillPrograms(ctx, keys...)
	}
	if t.effect == lab.ProcessExit {
		return 0, g.KillContainers(ctx, keys...)
	}
	if err != nil || len(s.broken) == 0 {
		return 0, err
	}
	if err := g.PowerOff(ctx, s.broken...); err != nil {
		return 0, err
	}
	// What it is about begins only then.
	if err := g.AwaitNodes(ctx, corev1.ConditionUnknown, s.broken...); err != nil || t.away == 0 {
		return 0, err
	}
	err = errors.Join(sleep(ctx, time.Until(began.Add(t.away))), g.PowerOn(ctx, s.broken...), g.AwaitGPUs(ctx, s.broken...))
	s.broken = nil
	return time.Since(began), err
}
