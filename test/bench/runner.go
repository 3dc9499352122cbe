// Runner: gangs are started and their pods failed, the two sides in turns in one pool of nodes.

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// measure takes all figures of one size.
func (b *bench) measure(ctx context.Context, pods, rounds int) (err error) {
	pool := roomFor(pods)
	say("%d pods: a pool of %d nodes", pods, len(pool.NodeNames()))
	if err := b.cluster.AddTopology(ctx, pool); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.cluster.RemoveTopology(context.WithoutCancel(ctx), pool.Name)) }()
	for round := range rounds {
		sides := []*contender{&lockstep, &volcano}
		if round%2 == 1 {
			slices.Reverse(sides)
		}
		for _, side := range sides {
			g := &gang{name: fmt.Sprintf("%s-%s%d", pool.Name, strings.ToLower(side.name), round), pods: pods, pool: pool}
			t := turn{bench: b, side: side, gang: g, round: round, rounds: rounds}
			if err := errors.Join(t.play(ctx), b.cluster.Err()); err != nil {
				return fmt.Errorf("round %d of %s: %w", round, side.name, err)
			}
		}
	}
	return nil
}

// turn is one gang of one side, from its start to its end.
type turn struct {
	*bench
	side          *contender
	gang          *gang
	round, rounds int
}

func (t *turn) play(ctx context.Context) (err error) {
	job := t.side.gang(t.gang)
	came, err := t.start(ctx, job)
	if err != nil {
		return err
	}
	for i := 0; came && err == nil && i < t.options.recoveries; i++ {
		came, err = t.strike(ctx, strikePod, i, t.options.recoveries)
	}
	for _, s := range t.side.whole {
		if once := s == strikeTask && t.gang.pods >= large; once && t.round > 0 {
			continue // it takes minutes, and no goal is held against it
		}
		if came && err == nil {
			came, err = t.strike(ctx, s, t.round, t.rounds)
		}
	}
	if err != nil {
		return err
	}
	return t.remove(ctx, job)
}

// start makes the gang and says whether it came to run.
func (t *turn) start(ctx context.Context, job client.Object) (bool, error) {
	if err := t.align(ctx, t.round, t.rounds); err != nil {
		return false, err
	}
	s := t.sample(start)
	began := time.Now()
	if err := t.cluster.Client().Create(ctx, job); err != nil {
		return false, fmt.Errorf("create %s: %w", t.gang.name, err)
	}
	now, err := t.recorder.await(ctx, t.gang.name, timeoutOf(t.gang.pods), func(l lives) bool { return l.run(t.gang.pods) })
	return t.took(ctx, s, began, now, err)
}

// strike fails one pod, the i-th of n, and says whether the gang came to run again.
func (t *turn) strike(ctx context.Context, how strike, i, n int) (bool, error) {
	if err := t.align(ctx, i, n); err != nil {
		return false, err
	}
	s := t.sample(how.figure)
	before, mark := t.recorder.present(t.gang.name), t.audit.mark()
	victim := before[(t.gang.pods/2+i)%t.gang.pods]
	if err := t.cluster.FailPod(ctx, client.ObjectKey{Namespace: namespace, Name: victim.name}, how.exitCode); err != nil {
		return false, err
	}
	now, err := t.recorder.await(ctx, t.gang.name, timeoutOf(t.gang.pods), func(l lives) bool {
		changed := before.replaced(l)
		_, replaced := changed[victim.rank]
		return replaced && l.run(t.gang.pods) && (how == strikePod || len(changed) == t.gang.pods)
	})
	failed := t.recorder.life(t.gang.name, victim.uid).failed
	changed := before.replaced(now)
	s.compare(before, now, victim.rank)
	came, err := t.took(ctx, s, failed, changed, err)
	if err != nil {
		return came, err
	}
	s.calls, err = t.audit.since(mark, t.gang.pool.Name)
	if t.side == &lockstep {
		say("%s: the manager's writes: %s", s, s.calls.timeline(failed))
	}
	return came, err
}

// took completes a sample, unless the pods that it is of did not come to run.
func (t *turn) took(ctx context.Context, s *sample, from time.Time, pods lives, err error) (bool, error) {
	if errors.Is(err, errLate) {
		say("%s: not all pods ran within %s: %s", s, timeoutOf(t.gang.pods), t.standing(ctx))
		return false, nil
	}
	if err != nil {
		return false, err
	}
	s.came, s.took = true, pods.last(running).Sub(from)
	after := func(point func(life) time.Time) string { return seconds(pods.last(point).Sub(from)) }
	say("%s: all made after %s s, ungated %s, bound %s, running %s", s, after(made), after(ungated), after(bound), after(running))
	if err := t.calm(ctx, t.side, t.gang.name); errors.Is(err, errLate) {
		say("%s: %v", s, err)
		return false, nil
	} else if err != nil {
		return false, err
	}
	return true, nil
}

// standing tells what a gang that did not come back is waiting for.
func (t *turn) standing(ctx context.Context) string {
	gated, unbound, phases := 0, 0, map[string]int{}
	now := t.recorder.present(t.gang.name)
	for _, p := range now {
		phases[string(p.phase)]++
		if p.open.IsZero() {
			gated++
		} else if p.node == "" {
			unbound++
		}
	}
	return fmt.Sprintf("%d pods are there, %d gated, %d without a node, phases %v; %s",
		len(now), gated, unbound, phases, t.side.story(ctx, t.cluster.Client(), t.gang.name))
}

// align waits for the i-th of n moments that are spread over the scheduler's period, one round after
// it was felt: what the feeling set in motion is over by then.
func (t *turn) align(ctx context.Context, i, n int) error {
	felt, err := t.pulse(ctx)
	if err != nil {
		return err
	}
	offset := period * time.Duration(2*i+1) / time.Duration(2*n)
	return sleep(ctx, time.Until(felt.Add(period+offset)))
}

// sample begins one among the results.
func (t *turn) sample(f figure) *sample {
	s := &sample{pods: t.gang.pods, side: t.side.name, figure: f}
	t.results.samples = append(t.results.samples, s)
	return s
}
