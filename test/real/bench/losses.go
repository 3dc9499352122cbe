// Losses: a gang trains, and loses the power of a node, or of several, one after the other.

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/real"
)

// measure has the gangs of all sides take turns.
func (b *bench) measure(ctx context.Context, sides []*side) error {
	most := slices.MaxFunc(sides, func(a, b *side) int { return a.runs - b.runs }).runs
	for n := range most {
		for _, s := range sides {
			if n >= s.runs {
				continue
			}
			if err := b.gang(ctx, s, s.jobName(n)); err != nil {
				return fmt.Errorf("%s: %w", s.jobName(n), err)
			}
		}
	}
	return nil
}

// gang runs one gang of a side, which loses nodes until it does not recover.
func (b *bench) gang(ctx context.Context, s *side, name string) (err error) {
	t := b.trainer(name, s.ranks)
	s.describe(t)
	job := s.job(t, s.policy)
	defer func() { err = errors.Join(err, b.remove(context.WithoutCancel(ctx), job)) }()
	if err := b.place(ctx, t, job); err != nil {
		return err
	}
	for n := range s.losses {
		r, err := b.lose(ctx, t, s, n)
		if err != nil {
			return fmt.Errorf("loss %d: %w", n+1, err)
		}
		s.results = append(s.results, r)
		fmt.Fprintf(os.Stderr, "%s: loss %d: %+v\n", name, n+1, r)
		if !r.recovered {
			return nil
		}
	}
	if s.who != "Lockstep" {
		return nil
	}
	if err := t.CompareLosses(ctx); err != nil {
		s.differ = err.Error()
	}
	return nil
}

// place starts a gang on gangNodes of a rack: Volcano would spread it over all of them, and spares take nodes without ranks. The others can be used once it trains.
func (b *bench) place(ctx context.Context, t *real.Training, job client.Object) error {
	var others []string
	for rack := range b.ground.Nodes.Racks {
		others = append(others, b.ground.Nodes.RackNodes(rack)[gangNodes:]...)
	}
	if err := b.ground.Cordon(ctx, others...); err != nil {
		return err
	}
	err := b.ground.Client().Create(ctx, job)
	if err == nil {
		err = t.AwaitSteps(ctx, 1)
	}
	return errors.Join(err, b.ground.Uncordon(context.WithoutCancel(ctx), others...))
}

// describe has a training be as its side wants it. A gang that loses nodes again and again goes back to those that have their power again, and at once.
func (s *side) describe(t *real.Training) {
	if s.supervised {
		t.Supervise()
	}
	if s.takesOver {
		t.TakeOver(gpusPerNode)
	}
	if s.losses > 1 {
		t.Job.Spec.RestartPolicy.ExcludeNodeSeconds = new(int32(0))
		t.Job.Spec.RestartPolicy.Backoff = &v1alpha1.Backoff{InitialSeconds: new(int32(0))}
	}
}

// lose waits until a gang trains, and its spares wait, and has it lose a node, which has its power again afterwards.
func (b *bench) lose(ctx context.Context, t *real.Training, s *side, n int) (r result, err error) {
	before, err := b.settle(ctx, t, s.takesOver)
	if err != nil {
		return r, err
	}
	node, err := victim(before, n)
	if err != nil {
		return r, err
	}
	defer func() {
		lasting := context.WithoutCancel(ctx)
		err = errors.Join(err, b.ground.PowerOn(lasting, node), b.ground.AwaitGPUs(lasting, node))
	}()
	r, err = b.killNode(ctx, t, s, node, before)
	r.node, r.first = node, before[0].Spec.NodeName == node
	return r, err
}

// settle waits until a gang's spares wait, if it has any, and it has trained for a while, and returns its pods.
func (b *bench) settle(ctx context.Context, t *real.Training, takesOver bool) (map[int]corev1.Pod, error) {
	if takesOver {
		if _, err := t.AwaitSpares(ctx, real.TaskOf(0), real.TaskOf(1)); err != nil {
			return nil, err
		}
	}
	if err := t.AwaitSteps(ctx, t.LastStep()+warmUp); err != nil {
		return nil, err
	}
	return b.pods(ctx, t)
}

// victim is the node of a gang that is lost as the n-th: that with the most ranks which is not rank 0's, or rank 0's, the second and each fifth after it.
func victim(pods map[int]corev1.Pod, n int) (string, error) {
	first := pods[0].Spec.NodeName
	if n%5 == 1 {
		return first, nil
	}
	ranks := map[string]int{}
	for _, pod := range pods {
		if node := pod.Spec.NodeName; node != first {
			ranks[node]++
		}
	}
	if len(ranks) == 0 {
		return "", fmt.Errorf("all %d pods are on one node", len(pods))
	}
	most := slices.Max(slices.Collect(maps.Values(ranks)))
	maps.DeleteFunc(ranks, func(_ string, n int) bool { return n < most })
	nodes := slices.Sorted(maps.Keys(ranks))
	return nodes[n%len(nodes)], nil
}
