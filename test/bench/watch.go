// Watch: objects as the API server tells of them.

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// watch hands on every object of these kinds, and every change of one, with the time of its arrival, until the context ends.
func watch(ctx context.Context, config *rest.Config, scheme *runtime.Scheme, note func(any, time.Time), kinds ...client.Object) error {
	informers, err := cache.New(config, cache.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("make a watch: %w", err)
	}
	for _, obj := range kinds {
		informer, err := informers.GetInformer(ctx, obj, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watch %T: %w", obj, err)
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { note(obj, time.Now()) },
			UpdateFunc: func(_, obj any) { note(obj, time.Now()) },
		}); err != nil {
			return fmt.Errorf("watch %T: %w", obj, err)
		}
	}
	go func() { _ = informers.Start(ctx) }() // it ends with the context, and a watch that fails is tried again
	if !informers.WaitForCacheSync(ctx) {
		return errors.New("the watch did not begin")
	}
	return nil
}
