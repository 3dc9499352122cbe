// An oracle that any test can switch on: no node gets more than it has.

package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	resourcehelper "k8s.io/component-helpers/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// FitOracle checks, each time that a pod is bound, that the requests of the node's bound and
// unfinished pods fit its allocatable. KWOK's nodes refuse no pod, so that nothing else tells there.
type FitOracle struct {
	mu       sync.Mutex
	nodes    map[string]corev1.ResourceList
	pods     map[types.UID]corev1.Pod
	bindings int
	broken   []error

	stop context.CancelFunc
	done sync.WaitGroup
}

// WatchFit switches the oracle on for all nodes of the cluster.
func (c *Cluster) WatchFit(ctx context.Context) (*FitOracle, error) {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	o := &FitOracle{nodes: map[string]corev1.ResourceList{}, pods: map[types.UID]corev1.Pod{}, stop: stop}
	// The nodes come first: a pod is judged by what is known of its node.
	if err := c.follow(ctx, &o.done, &corev1.NodeList{}, o.nodeChanged, nil); err != nil {
		stop()
		return nil, fmt.Errorf("watching nodes: %w", err)
	}
	if err := c.follow(ctx, &o.done, &corev1.PodList{}, o.podChanged, o.forgetPods); err != nil {
		stop()
		return nil, fmt.Errorf("watching pods: %w", err)
	}
	return o, nil
}

// Stop switches the oracle off. Its error has every binding that did not fit.
func (o *FitOracle) Stop() error {
	o.stop()
	o.done.Wait()
	if bindings, broken := o.Seen(); broken != nil {
		return fmt.Errorf("of %d bindings some do not fit their nodes: %w", bindings, broken)
	}
	return nil
}

// Seen returns how many bindings have been checked so far, and an error for each that did not fit.
func (o *FitOracle) Seen() (bindings int, broken error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bindings, errors.Join(o.broken...)
}

// follow passes every change of the objects of a list to changed. A watch that ends is begun again with
// all that exists; begin is called before.
func (c *Cluster) follow(ctx context.Context, done *sync.WaitGroup, list client.ObjectList, changed func(watch.Event), begin func()) error {
	watcher, err := c.client.Watch(ctx, list)
	if err != nil {
		return err
	}
	done.Go(func() {
		for ctx.Err() == nil {
			for event := range watcher.ResultChan() {
				changed(event)
			}
			watcher.Stop()
			for ctx.Err() == nil {
				if watcher, err = c.client.Watch(ctx, list); err == nil {
					break
				}
			}
			if begin != nil {
				begin()
			}
		}
	})
	return nil
}

func (o *FitOracle) nodeChanged(event watch.Event) {
	node, isNode := event.Object.(*corev1.Node)
	if !isNode {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if event.Type == watch.Deleted {
		delete(o.nodes, node.Name)
	} else {
		o.nodes[node.Name] = node.Status.Allocatable
	}
}

func (o *FitOracle) forgetPods() {
	o.mu.Lock()
	defer o.mu.Unlock()
	clear(o.pods)
}

func (o *FitOracle) podChanged(event watch.Event) {
	pod, isPod := event.Object.(*corev1.Pod)
	if !isPod {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if event.Type == watch.Deleted || pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		delete(o.pods, pod.UID)
		return
	}
	_, known := o.pods[pod.UID]
	o.pods[pod.UID] = *pod
	if !known {
		o.bindings++
		if err := o.check(pod.Spec.NodeName); err != nil {
			o.broken = append(o.broken, err)
		}
	}
}

// check compares what a node has with what its pods request. A node that is gone has nothing to exceed.
func (o *FitOracle) check(name string) error {
	allocatable, known := o.nodes[name]
	if !known {
		return nil
	}
	used, names := corev1.ResourceList{}, []string{}
	for _, pod := range o.pods {
		if pod.Spec.NodeName != name {
			continue
		}
		names = append(names, pod.Namespace+"/"+pod.Name)
		for resource, quantity := range resourcehelper.PodRequests(&pod, resourcehelper.PodResourcesOptions{}) {
			sum := used[resource]
			sum.Add(quantity)
			used[resource] = sum
		}
	}
	slices.Sort(names)
	for _, resource := range slices.Sorted(maps.Keys(used)) {
		sum, has := used[resource], allocatable[resource]
		if sum.Cmp(has) > 0 {
			return fmt.Errorf("node %s has %s of %s, and its pods %v request %s", name, has.String(), resource, names, sum.String())
		}
	}
	return nil
}
