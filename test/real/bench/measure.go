// One run: a gang trains, a node is killed, and the time is taken until the gang trains again.

package main

import (
	"context"
	"errors"
	"fmt"
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
	// victim is the rank whose node is killed.
	victim = "worker-1"
)

type bench struct {
	ground  *real.Ground
	options *options
}

// side is one way to bring a gang back, and what was measured of it.
type side struct {
	name, policy string
	job          func(t *real.Training, policy string) client.Object
	runs         int
	results      []result
}

// result is one run.
type result struct {
	recovered bool
	silent    time.Duration // from the power failure to NotReady
	took      time.Duration // from NotReady to the first step
	away      int           // ranks that are not at home then
	replaced  int           // pods of other ranks that are not those of before
	left      string        // what was seen of a gang that did not recover
}

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
	t := b.gang(name)
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
	pod, found := before[victim]
	if !found {
		return r, fmt.Errorf("no pod %s among %d", victim, len(before))
	}
	node := pod.Spec.NodeName
	defer func() { err = errors.Join(err, b.ground.PowerOn(context.WithoutCancel(ctx), node)) }()
	return b.kill(ctx, t, node, before)
}

// kill powers a node off, and watches the gang until it trains at home again or the bound is over.
func (b *bench) kill(ctx context.Context, t *real.Training, node string, before map[string]corev1.Pod) (r result, err error) {
	generation, began := t.Generation(), time.Now()
	if err := b.ground.PowerOff(ctx, node); err != nil {
		return r, err
	}
	if err := b.awaitSilence(ctx, node); err != nil {
		return r, err
	}
	silent := time.Now()
	r.silent = silent.Sub(began)
	bounded, cancel := context.WithTimeout(ctx, b.options.bound)
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
	home := b.rackOf(node)
	for name, pod := range before {
		if now := after[name]; !slices.Contains(home, now.Spec.NodeName) {
			r.away++
		}
		if name != victim && after[name].UID != pod.UID {
			r.replaced++
		}
	}
	if !r.recovered {
		r.left = b.story(after, node)
	}
	return r, nil
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
