// One run: a gang trains, a node is killed, and the time is taken until the gang trains again.

package main

import (
	"context"
	"errors"
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
	// master is rank 0.
	master = "master-0"
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
	ranks, runs       int
	bound             time.Duration
	results           []result
}

// result is one run.
type result struct {
	recovered bool
	silent    time.Duration // from the power failure to NotReady
	took      time.Duration // from NotReady to the first step
	lost      int           // pods on the killed node
	away      int           // ranks that are not at home then
	replaced  int           // other pods that are not those of before
	restarted int           // containers of other pods that were restarted
	waited    int           // other pods whose supervisors waited for the replacements
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

// own is what a replacement takes by itself, from its node to its program.
func (r replacement) own() time.Duration { return r.started - r.bound }

// since is the time from when the lost pods may be replaced.
func (r result) since() time.Duration { return r.took - r.allowed }

// beyond is what is left of that without the replacement's own start.
func (r result) beyond() time.Duration { return r.since() - r.own() }

// measure has all sides take turns.
func (b *bench) measure(ctx context.Context, sides []*side) error {
	most := slices.MaxFunc(sides, func(a, b *side) int { return a.runs - b.runs }).runs
	for n := range most {
		for _, s := range sides {
			if n >= s.runs {
				continue
			}
			r, err := b.once(ctx, s, s.jobName(n))
			if err != nil {
				return fmt.Errorf("%s: %w", s.jobName(n), err)
			}
			s.results = append(s.results, r)
			fmt.Fprintf(os.Stderr, "%s: %+v\n", s.jobName(n), r)
		}
	}
	return nil
}

func (b *bench) once(ctx context.Context, s *side, name string) (r result, err error) {
	t := b.trainer(name, s.ranks)
	if s.supervised {
		t.Supervise()
	}
	job := s.job(t, s.policy)
	if err := b.ground.Client().Create(ctx, job); err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, b.remove(context.WithoutCancel(ctx), job)) }()
	if err := t.AwaitSteps(ctx, warmUp); err != nil {
		return r, err
	}
	before, err := b.pods(ctx, name)
	if err != nil {
		return r, err
	}
	node, err := victim(before)
	if err != nil {
		return r, err
	}
	defer func() {
		err = errors.Join(err, b.ground.PowerOn(context.WithoutCancel(ctx), node))
	}()
	return b.killNode(ctx, t, s, node, before)
}

// victim is a node of a gang that is not rank 0's.
func victim(pods map[string]corev1.Pod) (string, error) {
	for _, name := range slices.Sorted(maps.Keys(pods)) {
		if node := pods[name].Spec.NodeName; node != pods[master].Spec.NodeName {
			return node, nil
		}
	}
	return "", fmt.Errorf("all %d pods are on one node", len(pods))
}

// killNode powers a node off, and watches the gang until it trains at home again or the bound is over.
func (b *bench) killNode(ctx context.Context, t *real.Training, s *side, node string, before map[string]corev1.Pod) (r result, err error) {
	generation, began := t.Generation(), time.Now()
	if err := b.ground.PowerOff(ctx, node); err != nil {
		return r, err
	}
	since, err := b.awaitSilence(ctx, node)
	if err != nil {
		return r, err
	}
	silent := time.Now()
	r.silent = silent.Sub(began)
	r.allowed = max(0, since.Add(real.GangDownSeconds*time.Second).Sub(silent))
	bounded, cancel := context.WithTimeout(ctx, s.bound)
	defer cancel()
	err = t.AwaitNewGeneration(bounded, generation)
	r.took = time.Since(silent)
	if err != nil && bounded.Err() == nil {
		return r, err
	}
	r.recovered = err == nil
	after, err := b.pods(ctx, t.Job.Name)
	if err != nil {
		return r, err
	}
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
func (b *bench) look(r *result, supervised bool, node string, before, after map[string]corev1.Pod) {
	home := b.rackOf(node)
	for name, pod := range before {
		now := after[name]
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

// readLogs finds when the pods in place of the lost ones had their node, when their programs could start, and which others waited for them.
func (b *bench) readLogs(ctx context.Context, t *real.Training, r *result, node string, before, after map[string]corev1.Pod, began, silent time.Time) error {
	var waiting []time.Time
	for name, pod := range before {
		now := after[name]
		l, err := awaitTimeline(ctx, t, now, began, func(l *timeline) bool { return !l.trained.IsZero() })
		if err != nil {
			return fmt.Errorf("the log of %s: %w", now.Name, err)
		}
		r.joined = max(r.joined, l.started().Sub(silent))
		if pod.Spec.NodeName != node {
			waiting = append(waiting, l.waiting)
			continue
		}
		started := l.waiting // of a supervisor whose program waits for the others
		if started.IsZero() {
			started = l.started()
		}
		r.bound = max(r.bound, b.observer.boundAt(now.UID).Sub(silent))
		r.started = max(r.started, started.Sub(silent))
	}
	for _, at := range waiting {
		if !at.IsZero() && at.Before(silent.Add(r.started)) {
			r.waited++
		}
	}
	return nil
}

// awaitSilence waits until the API server shows that a node does not answer, and returns since when that is so by the node's condition.
func (b *bench) awaitSilence(ctx context.Context, name string) (since time.Time, err error) {
	err = wait.PollUntilContextTimeout(ctx, glance, real.AwaitTimeout, true, func(ctx context.Context) (bool, error) {
		node := &corev1.Node{}
		err := b.ground.Client().Get(ctx, client.ObjectKey{Name: name}, node)
		i := slices.IndexFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionUnknown
		})
		if i >= 0 {
			since = node.Status.Conditions[i].LastTransitionTime.Time
		}
		return i >= 0, err
	})
	return since, err
}

// pods are a gang's, by task and index. Volcano names them after its job, the task and the index.
func (b *bench) pods(ctx context.Context, job string) (map[string]corev1.Pod, error) {
	list := &corev1.PodList{}
	if err := b.ground.Client().List(ctx, list, client.InNamespace(metav1.NamespaceDefault)); err != nil {
		return nil, err
	}
	pods := map[string]corev1.Pod{}
	for _, pod := range list.Items {
		if strings.HasPrefix(pod.Name, job+"-") {
			words := strings.Split(pod.Name, "-")
			pods[strings.Join(words[len(words)-2:], "-")] = pod
		}
	}
	return pods, nil
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
func (b *bench) story(pods map[string]corev1.Pod, node string) string {
	var stuck, others int
	for _, pod := range pods {
		if pod.Spec.NodeName == node && !pod.DeletionTimestamp.IsZero() {
			stuck++
		} else if pod.Status.Phase == corev1.PodRunning {
			others++
		}
	}
	return fmt.Sprintf("%d of %d pods Terminating on the killed node, %d running", stuck, len(pods), others)
}

// tell prints the last lines of the logs of a gang that does not train.
func tell(ctx context.Context, t *real.Training, pods map[string]corev1.Pod) {
	for _, name := range slices.Sorted(maps.Keys(pods)) {
		bounded, cancel := context.WithTimeout(ctx, time.Second) // its node may be off
		log, err := t.Log(bounded, pods[name], 3)
		cancel()
		fmt.Fprintf(os.Stderr, "%s on %s: %v\n%s\n", name, pods[name].Spec.NodeName, err, log)
	}
}

// remove takes a job away, and waits until its pods are gone. The node runs again by then.
func (b *bench) remove(ctx context.Context, job client.Object) error {
	err := b.ground.Client().Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, 10*glance, real.AwaitTimeout, true, func(ctx context.Context) (bool, error) {
		pods, err := b.pods(ctx, job.GetName())
		return len(pods) == 0, err
	})
}
