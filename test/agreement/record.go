// Records: when what happened to the pods and nodes of a job, as watches tell.

package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// podTimes are when a pod was first seen, and seen without its gates, with its node, with a process, and for the last time. A
// process that was restarted in place is a new one.
type podTimes struct {
	name                               string
	made, lifted, bound, running, gone time.Time
	process                            string
}

// record is what was seen during a trial.
type record struct {
	mu   sync.Mutex
	pods map[types.UID]*podTimes
	// silent is when a node of the pool was first seen not to be ready.
	silent time.Time
}

// watchJob records until the context ends.
func watchJob(ctx context.Context, c client.WithWatch, job string, pool cluster.Topology) (*record, error) {
	r := &record{pods: map[types.UID]*podTimes{}}
	pods, err := c.Watch(ctx, &corev1.PodList{}, client.InNamespace(metav1.NamespaceDefault), client.MatchingLabels{v1alpha1.LabelJob: job})
	if err != nil {
		return nil, fmt.Errorf("watching the pods: %w", err)
	}
	nodes, err := c.Watch(ctx, &corev1.NodeList{}, client.MatchingLabels(pool.NodeSelector()))
	if err != nil {
		pods.Stop()
		return nil, fmt.Errorf("watching the nodes: %w", err)
	}
	go func() {
		defer pods.Stop()
		defer nodes.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case e := <-pods.ResultChan():
				if pod, ok := e.Object.(*corev1.Pod); ok {
					r.notePod(pod, e.Type == watch.Deleted, time.Now())
				}
			case e := <-nodes.ResultChan():
				if node, ok := e.Object.(*corev1.Node); ok && !ready(node) {
					r.noteSilence(time.Now())
				}
			}
		}
	}()
	return r, nil
}

func (r *record) noteSilence(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	note(&r.silent, now)
}

func (r *record) notePod(pod *corev1.Pod, gone bool, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.pods[pod.UID]
	if t == nil {
		t = &podTimes{name: pod.Name, made: now}
		r.pods[pod.UID] = t
	}
	if len(pod.Spec.SchedulingGates) == 0 {
		note(&t.lifted, now)
	}
	if pod.Spec.NodeName != "" {
		note(&t.bound, now)
	}
	if len(pod.Status.ContainerStatuses) > 0 {
		status := &pod.Status.ContainerStatuses[0]
		process := fmt.Sprint(status.ContainerID, status.RestartCount)
		if status.State.Running != nil && t.process != process {
			t.process, t.running = process, now
		}
	}
	if gone {
		note(&t.gone, now)
	}
}

func note(t *time.Time, now time.Time) {
	if t.IsZero() {
		*t = now
	}
}

func ready(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// runningAgain is when the first and the last process were seen to run that have begun since a time.
func (r *record) runningAgain(since time.Time) (first, last time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.pods {
		if !t.running.After(since) {
			continue
		}
		if first.IsZero() || t.running.Before(first) {
			first = t.running
		}
		if t.running.After(last) {
			last = t.running
		}
	}
	return first, last
}

// replaced returns the pod that went first, and the one of its name that came after it; zero where there was none.
func (r *record) replaced() (before, after podTimes) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.pods {
		if !t.gone.IsZero() && (before.gone.IsZero() || t.gone.Before(before.gone)) {
			before = *t
		}
	}
	for _, t := range r.pods {
		if t.name == before.name && t.made.After(before.made) && (after.made.IsZero() || t.made.Before(after.made)) {
			after = *t
		}
	}
	return before, after
}

// exactly returns when a pod was seen to be bound that was bound in a second, for Kubernetes notes no more than that: the last one.
func (r *record) exactly(second time.Time) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := second
	for _, t := range r.pods {
		if t.bound.After(last) && t.bound.Before(second.Add(1200*time.Millisecond)) { // it may be seen a little later
			last = t.bound
		}
	}
	return last
}
