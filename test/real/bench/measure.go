// One loss: a node is killed, and the time is taken until its gang trains again.

package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/test/real"
)

const (
	glance = 20 * time.Millisecond
	// warmUp is the step at which a node is killed.
	warmUp = 25
)

type bench struct {
	ground   *real.Ground
	observer *observer
	// torchStop is how long torchrun has between SIGTERM and SIGKILL, in seconds.
	torchStop int32
}

// side is one way to bring a gang back, and what was measured of it.
type side struct {
	name, who, policy string
	job               func(t *real.Training, policy string) client.Object
	supervised        bool
	takesOver         bool
	ranks, runs       int
	losses            int // nodes that each of its gangs loses, one after the other
	bound             time.Duration
	results           []result
	differ            string // what was found wrong with the losses of a training
}

// result is one lost node.
type result struct {
	node      string
	first     bool // it was rank 0's
	recovered bool
	silent    time.Duration // from the power failure to NotReady
	took      time.Duration // from NotReady to the first step
	lost      int           // pods on the killed node
	away      int           // ranks that are not at home then
	replaced  int           // other pods that are not those of before
	restarted int           // containers of other pods that were restarted
	made      int           // pods that were made before it trained again
	placed    int           // pods that were bound before it trained again
	left      string        // what was seen of a gang that did not recover
	replacement
}

// replacement is how a recovery's time was spent, from NotReady on.
type replacement struct {
	allowed time.Duration // until the lost pods may be replaced
	bound   time.Duration // until the last replacement had a node
	started time.Duration // until its program could start
	joined  time.Duration // until every program was started
}

// programs is the time from when the lost pods may be replaced until every program was started.
func (r result) programs() time.Duration { return r.joined - r.allowed }

// own is what a replacement takes by itself, from its node to its program.
func (r replacement) own() time.Duration { return r.started - r.bound }

// since is the time from when the lost pods may be replaced.
func (r result) since() time.Duration { return r.took - r.allowed }

// beyond is what is left of that without the replacement's own start.
func (r result) beyond() time.Duration { return r.since() - r.own() }

// killNode powers a node off, and watches the gang until it trains at home again or the bound is over.
func (b *bench) killNode(ctx context.Context, t *real.Training, s *side, node string, before map[int]corev1.Pod) (r result, err error) {
	generation, began := t.Generation(), time.Now()
	if err := b.ground.PowerOff(ctx, node); err != nil {
		return r, err
	}
	if err := b.awaitSilence(ctx, node); err != nil {
		return r, err
	}
	silent := time.Now()
	r.silent = silent.Sub(began)
	r.allowed = real.GangDownSeconds * time.Second // the manager counts from when it has seen it: the condition's own time has no fractions of a second
	bounded, cancel := context.WithTimeout(ctx, s.bound)
	defer cancel()
	err = t.AwaitNewGeneration(bounded, generation)
	r.took = time.Since(silent)
	if err != nil && bounded.Err() == nil {
		return r, err
	}
	r.recovered = err == nil
	after, err := b.pods(ctx, t)
	if err != nil {
		return r, err
	}
	r.made, r.placed = b.observer.newPods(t.Job.Name, began, silent.Add(r.took))
	b.look(&r, s.supervised, node, before, after)
	if !r.recovered {
		r.left = b.story(after, node)
		if s.supervised {
			tell(ctx, t, after)
		}
		return r, nil
	}
	return r, b.readLogs(ctx, t, &r, node, before, after, began, silent)
}

// look counts what has become of the pods. Where they have supervisors, it prints why a container was restarted.
func (b *bench) look(r *result, supervised bool, node string, before, after map[int]corev1.Pod) {
	home := b.rackOf(node)
	for rank, pod := range before {
		now := after[rank]
		if !slices.Contains(home, now.Spec.NodeName) {
			r.away++
		}
		switch {
		case pod.Spec.NodeName == node:
			r.lost++
		case now.UID != pod.UID:
			r.replaced++
		default:
			r.restarted += restarts(now) - restarts(pod)
			if c := now.Status.ContainerStatuses; supervised && len(c) > 0 && c[0].LastTerminationState.Terminated != nil {
				fmt.Fprintf(os.Stderr, "%s was restarted: %+v\n", now.Name, c[0].LastTerminationState.Terminated)
			}
		}
	}
}

// readLogs finds when the pods in place of the lost ones had their node, and when their programs could start.
func (b *bench) readLogs(ctx context.Context, t *real.Training, r *result, node string, before, after map[int]corev1.Pod, began, silent time.Time) error {
	for rank, pod := range before {
		now := after[rank]
		l, err := awaitTimeline(ctx, t, now, began, func(l *timeline) bool { return !l.trained.IsZero() })
		if err != nil {
			return fmt.Errorf("the log of %s: %w", now.Name, err)
		}
		r.joined = max(r.joined, l.started().Sub(silent))
		if pod.Spec.NodeName != node {
			continue
		}
		started := l.waiting // of a supervisor whose program waits for the others
		if started.IsZero() {
			started = l.started()
		}
		r.bound = max(r.bound, b.observer.boundAt(now.UID).Sub(silent))
		r.started = max(r.started, started.Sub(silent))
	}
	return nil
}

// awaitSilence waits until the API server shows that a node does not answer.
func (b *bench) awaitSilence(ctx context.Context, name string) error {
	return wait.PollUntilContextTimeout(ctx, glance, real.AwaitTimeout, true, func(ctx context.Context) (bool, error) {
		node := &corev1.Node{}
		err := b.ground.Client().Get(ctx, client.ObjectKey{Name: name}, node)
		return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionUnknown
		}), err
	})
}

// pods are a gang's, by their ranks.
func (b *bench) pods(ctx context.Context, t *real.Training) (map[int]corev1.Pod, error) {
	all, err := b.podsOf(ctx, t.Job.Name)
	if err != nil {
		return nil, err
	}
	return t.ByRank(ctx, all)
}

// podsOf are all pods of a job. Volcano begins their names with its own.
func (b *bench) podsOf(ctx context.Context, job string) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	err := b.ground.Client().List(ctx, list, client.InNamespace(metav1.NamespaceDefault))
	return slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool { return !strings.HasPrefix(pod.Name, job+"-") }), err
}

// rackOf are the nodes of a node's rack, which is the gang's home.
func (b *bench) rackOf(node string) []string {
	for rack := range b.ground.Nodes.Racks {
		if nodes := b.ground.Nodes.RackNodes(rack); slices.Contains(nodes, node) {
			return nodes
		}
	}
	return nil
}

// story tells what has become of a gang that does not train.
func (b *bench) story(pods map[int]corev1.Pod, node string) string {
	var stuck, others int
	for _, pod := range pods {
		if pod.Spec.NodeName == node && !pod.DeletionTimestamp.IsZero() {
			stuck++
		} else if pod.Status.Phase == corev1.PodRunning {
			others++
		}
	}
	return fmt.Sprintf("%d Terminating, %d running", stuck, others)
}

// tell prints the last lines of the logs of a gang that does not train.
func tell(ctx context.Context, t *real.Training, pods map[int]corev1.Pod) {
	for _, rank := range slices.Sorted(maps.Keys(pods)) {
		pod := pods[rank]
		bounded, cancel := context.WithTimeout(ctx, time.Second) // its node may be off
		log, err := t.Log(bounded, pod, 3)
		cancel()
		fmt.Fprintf(os.Stderr, "%s on %s: %v\n%s\n", pod.Name, pod.Spec.NodeName, err, log)
	}
}

// remove takes a job away, and waits until its pods are gone. The node runs again by then.
func (b *bench) remove(ctx context.Context, job client.Object) error {
	err := b.ground.Client().Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, 10*glance, real.AwaitTimeout, true, func(ctx context.Context) (bool, error) {
		pods, err := b.podsOf(ctx, job.GetName())
		return len(pods) == 0, err
	})
}
