// Observer: what the API server tells of pods and of Volcano's jobs, and when.

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// running is the phase of a pod that runs, and of a Volcano Job whose gang does.
const running = "Running"

// observer keeps when each pod was made and bound, and every change of a phase.
type observer struct {
	mu      sync.Mutex
	pods    map[types.UID]*sighting
	last    map[types.UID]string
	changes []phaseChange
}

// sighting is when a pod was first seen, and when with its node.
type sighting struct {
	name        string
	made, bound time.Time
}

// phaseChange is a phase that a pod or the Volcano Job of a TrainingJob has come to.
type phaseChange struct {
	at         time.Time
	job, phase string
}

func newObserver() *observer {
	return &observer{pods: map[types.UID]*sighting{}, last: map[types.UID]string{}}
}

// watch notes what happens until the context ends.
func (o *observer) watch(ctx context.Context, config *rest.Config, scheme *runtime.Scheme) error {
	informers, err := cache.New(config, cache.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("making a watch: %w", err)
	}
	for _, kind := range []client.Object{&corev1.Pod{}, &batch.Job{}} {
		informer, err := informers.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watching %T: %w", kind, err)
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { o.note(obj, time.Now()) },
			UpdateFunc: func(_, obj any) { o.note(obj, time.Now()) },
		}); err != nil {
			return fmt.Errorf("watching %T: %w", kind, err)
		}
	}
	go func() { _ = informers.Start(ctx) }() // it ends with the context, and a watch that fails is tried again
	if !informers.WaitForCacheSync(ctx) {
		return errors.New("the watch did not begin")
	}
	return nil
}

func (o *observer) note(obj any, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch obj := obj.(type) {
	case *corev1.Pod:
		if o.pods[obj.UID] == nil {
			o.pods[obj.UID] = &sighting{name: obj.Name, made: now}
		}
		if s := o.pods[obj.UID]; s.bound.IsZero() && obj.Spec.NodeName != "" {
			s.bound = now
		}
		o.notePhase(obj, string(obj.Status.Phase), now)
	case *batch.Job:
		o.notePhase(obj, string(obj.Status.State.Phase), now)
	}
}

func (o *observer) notePhase(obj client.Object, phase string, now time.Time) {
	if job := obj.GetLabels()[v1alpha1.LabelJob]; job != "" && o.last[obj.GetUID()] != phase {
		o.last[obj.GetUID()] = phase
		o.changes = append(o.changes, phaseChange{now, job, phase})
	}
}

// boundAt is when a pod was seen with its node; zero where it has none.
func (o *observer) boundAt(pod types.UID) (at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s := o.pods[pod]; s != nil {
		at = s.bound
	}
	return at
}

// newPods is how many pods of a job were made, and how many bound, between two times.
func (o *observer) newPods(job string, from, until time.Time) (made, bound int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	within := func(at time.Time) int {
		if at.Before(from) || at.After(until) {
			return 0
		}
		return 1
	}
	for _, s := range o.pods {
		if strings.HasPrefix(s.name, job+"-") {
			made, bound = made+within(s.made), bound+within(s.bound)
		}
	}
	return made, bound
}

// phases are those that a job's pods and its Volcano Job have left Running for since a time, each once. That one runs may be seen only after that
// time, since the kubelet reports it late.
func (o *observer) phases(job string, since time.Time) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var seen []string
	for _, c := range o.changes {
		if c.job == job && c.at.After(since) && c.phase != running && !slices.Contains(seen, c.phase) {
			seen = append(seen, c.phase)
		}
	}
	return seen
}
