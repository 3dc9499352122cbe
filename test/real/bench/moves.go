// Moves: each of those who may ask for it has ranks of a gang moved that train well, and no step is to be lost for that.

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/dcgmsim"
	"github.com/lockstep-dev/lockstep/test/real"
	"github.com/lockstep-dev/lockstep/test/workloads/trainer/losses"
)

// movesName is what the gangs are called that ranks are moved of.
const movesName = "gang-moves"

// caller has some ranks of a gang moved.
type caller struct {
	name string
	// ranks are those that leave a node, of a gang's pods.
	ranks func(pods map[int]corev1.Pod, nodes []string) []int
	// asks has them leave, and returns what undoes that once they have.
	asks func(ctx context.Context, t *real.Training, rank int, pod corev1.Pod) (undo func(context.Context) error, err error)
}

// move is what one call has done.
type move struct {
	by    string
	ranks []int
	// repeated is how many steps have to be made again, and stopped the time from the last step before to the first one after.
	repeated int
	stopped  time.Duration
	result
}

// fabricHealth is DCGM_FI_DEV_FABRIC_HEALTH_MASK, and degradedBandwidth and wellFabric are what it reads.
const (
	fabricHealth      = 174
	degradedBandwidth = 1
	wellFabric        = 2
)

// manyMayBeIll keeps the breaker closed: a link of each gang degrades, one after the other.
const manyMayBeIll = `{"spec": {"breaker": {"job": {"percent": 100}, "hyperNode": {"percent": 100}}}}`

// callers move one rank, one rank, all ranks of a node, one of them, and again all. Each takes another node: that of rank 0, or the one beside it with the most ranks.
func (b *bench) callers(states map[string]*dcgmsim.State) []caller {
	last := func(pods map[int]corev1.Pod, node string) []int { all := on(pods, node); return all[len(all)-1:] }
	return []caller{{
		name:  "kubectl lockstep migrate",
		ranks: func(pods map[int]corev1.Pod, nodes []string) []int { return last(pods, nodes[1]) },
		asks: func(ctx context.Context, t *real.Training, _ int, pod corev1.Pod) (func(context.Context) error, error) {
			_, err := b.ground.Plugin(ctx, "migrate", t.Job.Name, pod.Name, "-n", metav1.NamespaceDefault)
			return nil, err
		},
	}, {
		name:  "a degraded link",
		ranks: func(pods map[int]corev1.Pod, nodes []string) []int { return last(pods, nodes[0]) },
		asks: func(ctx context.Context, _ *real.Training, _ int, pod corev1.Pod) (func(context.Context) error, error) {
			gpu, err := b.ground.GPUOf(ctx, pod)
			state := states[pod.Spec.NodeName]
			state.SetField(dcgmsim.GPU, gpu, fabricHealth, degradedBandwidth)
			return func(context.Context) error {
				state.SetField(dcgmsim.GPU, gpu, fabricHealth, wellFabric)
				return nil
			}, err
		},
	}, {
		name:  "kubectl drain",
		ranks: func(pods map[int]corev1.Pod, nodes []string) []int { return on(pods, nodes[1]) },
		asks: func(ctx context.Context, _ *real.Training, _ int, pod corev1.Pod) (func(context.Context) error, error) {
			node := pod.Spec.NodeName
			_, err := b.ground.Kubectl(ctx, "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=300s")
			return func(ctx context.Context) error { return b.ground.Uncordon(ctx, node) }, err
		},
	}, {
		name:  "a partial DrainRequest",
		ranks: func(pods map[int]corev1.Pod, nodes []string) []int { return last(pods, nodes[1]) },
		asks: func(ctx context.Context, _ *real.Training, _ int, pod corev1.Pod) (func(context.Context) error, error) {
			node := pod.Spec.NodeName
			err := b.ground.DrainByRequest(ctx, node, metav1.NamespaceDefault, pod.Name)
			return func(ctx context.Context) error { return b.ground.ReleaseFromQuarantine(ctx, node) }, err
		},
	}, {
		name:  "a DrainRequest of NVSentinel",
		ranks: func(pods map[int]corev1.Pod, nodes []string) []int { return on(pods, nodes[1]) },
		asks: func(ctx context.Context, _ *real.Training, _ int, pod corev1.Pod) (func(context.Context) error, error) {
			node := pod.Spec.NodeName
			err := b.ground.DrainByRequest(ctx, node, metav1.NamespaceDefault)
			return func(ctx context.Context) error { return b.ground.ReleaseFromQuarantine(ctx, node) }, err
		},
	}}
}

// on are the ranks on a node, in order.
func on(pods map[int]corev1.Pod, node string) (ranks []int) {
	for rank, pod := range pods {
		if pod.Spec.NodeName == node {
			ranks = append(ranks, rank)
		}
	}
	slices.Sort(ranks)
	return ranks
}

// movable lets ranks be moved by each caller, and has them save what they have when they are.
func movable(t *real.Training) {
	t.TakeOver(gpusPerNode)
	t.SaveWhenAsked()
	t.Job.Spec.RestartPolicy.Rules = []v1alpha1.Rule{
		{
			Name:  "link",
			Match: v1alpha1.Match{Events: []v1alpha1.EventType{v1alpha1.HealthDegraded}},
			Steps: []v1alpha1.Step{{Action: v1alpha1.MigratePod}},
		}, {
			Name:  "maintenance",
			Match: v1alpha1.Match{Events: []v1alpha1.EventType{v1alpha1.NodeCordoned}},
			Steps: []v1alpha1.Step{{Action: v1alpha1.MigratePod}},
		},
	}
}

// moves has gangs moved, by each caller once in each.
func (b *bench) moves(ctx context.Context, o *options) (all []move, differ string, err error) {
	states, remove, err := b.ground.InstallAgent(ctx)
	if err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, remove(context.WithoutCancel(ctx))) }()
	if _, err := b.ground.Kubectl(ctx, "patch", "healthpolicy", "cluster", "--type=merge", "--patch", manyMayBeIll); err != nil {
		return nil, "", err
	}
	for _, state := range states {
		for gpu := range gpusPerNode {
			state.SetField(dcgmsim.GPU, gpu, fabricHealth, wellFabric)
		}
	}
	if err := b.ground.RunDrainer(ctx); err != nil {
		return nil, "", err
	}
	for n := range o.moves {
		moved, wrong, err := b.movesOf(ctx, movesName+"-"+strconv.Itoa(n), o.gang, states)
		if err != nil {
			return nil, "", fmt.Errorf("gang %d: %w", n+1, err)
		}
		all = append(all, moved...)
		if wrong != "" {
			differ = wrong
		}
	}
	return all, differ, nil
}

// movesOf runs one gang, and compares its losses with those of a run that nothing disturbed.
func (b *bench) movesOf(ctx context.Context, name string, ranks int, states map[string]*dcgmsim.State) (all []move, differ string, err error) {
	t := b.trainer(name, ranks)
	movable(t)
	defer func() { err = errors.Join(err, b.remove(context.WithoutCancel(ctx), t.Job)) }()
	if err := b.place(ctx, t, t.Job); err != nil {
		return nil, "", err
	}
	for _, c := range b.callers(states) {
		m, err := b.move(ctx, t, c)
		if err != nil {
			return nil, "", fmt.Errorf("%s: %w", c.name, err)
		}
		fmt.Fprintf(os.Stderr, "%s: %+v\n", name, m)
		all = append(all, m)
	}
	if err := t.CompareLosses(ctx); err != nil {
		differ = err.Error()
	}
	return all, differ, nil
}

// move waits until a gang trains, and its spares wait, and has a caller move ranks of it. The node of rank 0 is the first of the gang's.
func (b *bench) move(ctx context.Context, t *real.Training, c caller) (m move, err error) {
	before, err := b.settle(ctx, t, true)
	if err != nil {
		return m, err
	}
	m.by, m.ranks = c.name, c.ranks(before, nodesOf(before))
	pod := before[m.ranks[0]]
	generation, began := t.Generation(), time.Now()
	undo, err := c.asks(ctx, t, m.ranks[0], pod)
	if undo != nil {
		defer func() { err = errors.Join(err, undo(context.WithoutCancel(ctx))) }()
	}
	if err != nil {
		return m, err
	}
	if err := t.AwaitNewGeneration(ctx, generation); err != nil {
		return m, err
	}
	m.repeated = lostSteps(t.Losses(), t.Generation())
	after, err := b.pods(ctx, t)
	if err != nil {
		return m, err
	}
	return m, b.lookAtMove(ctx, t, &m, before, after, began)
}

// lostSteps is how many steps of earlier generations of a gang the last one makes again.
func lostSteps(log losses.Log, generation uint64) (n int) {
	last := slices.IndexFunc(log, func(l losses.Line) bool { return l.Generation == generation })
	for _, line := range log {
		if line.Generation != generation && line.Step >= log[last].Step {
			n++
		}
	}
	return n
}

// nodesOf are the nodes of a gang that have the most ranks: that of rank 0, and then the others by their names.
func nodesOf(pods map[int]corev1.Pod) []string {
	ranks := map[string]int{}
	for _, pod := range pods {
		ranks[pod.Spec.NodeName]++
	}
	first := pods[0].Spec.NodeName
	delete(ranks, first)
	others := slices.SortedFunc(maps.Keys(ranks), func(a, b string) int {
		return cmp.Or(ranks[b]-ranks[a], strings.Compare(a, b))
	})
	return append([]string{first}, others...)
}

// lookAtMove counts what has become of the pods, and takes the time of the stop from the log of a rank that has stayed.
func (b *bench) lookAtMove(ctx context.Context, t *real.Training, m *move, before, after map[int]corev1.Pod, began time.Time) error {
	home := b.rackOf(before[0].Spec.NodeName)
	stayed := -1
	for rank, pod := range before {
		now := after[rank]
		if !slices.Contains(home, now.Spec.NodeName) {
			m.away++
		}
		switch {
		case slices.Contains(m.ranks, rank):
			if now.UID == pod.UID {
				return fmt.Errorf("rank %d has not left %s", rank, pod.Spec.NodeName)
			}
		case now.UID != pod.UID:
			m.replaced++
		default:
			stayed, m.restarted = rank, m.restarted+restarts(now)-restarts(pod)
		}
	}
	l, err := awaitTimeline(ctx, t, after[stayed], began.Add(-time.Second), func(l *timeline) bool { return !l.trained.IsZero() && !l.stepped.IsZero() })
	if err != nil {
		return fmt.Errorf("the log of %s: %w", after[stayed].Name, err)
	}
	m.stopped = l.trained.Sub(l.stepped)
	m.made, m.placed = b.observer.newPods(t.Job.Name, began, l.trained)
	return nil
}
