package real

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/images"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// ManagerImage is the manager's.
const ManagerImage = "lockstep-manager:dev"

// install creates what a folder of config is rendered to, each object as change returns it. An object
// that exists stays as it is, and one for which change returns nil is left out.
func (g *Ground) install(ctx context.Context, folder string, change func(*unstructured.Unstructured) (*unstructured.Unstructured, error)) (created []*unstructured.Unstructured, err error) {
	root, err := cluster.RepositoryRoot()
	if err != nil {
		return nil, err
	}
	objects, err := cluster.Kustomize(ctx, filepath.Join(root, "config", folder))
	if err != nil {
		return nil, err
	}
	for _, object := range objects {
		if object, err = change(object); err != nil {
			return created, err
		}
		if object == nil {
			continue
		}
		err := g.Client().Create(ctx, object)
		if client.IgnoreAlreadyExists(err) != nil {
			return created, fmt.Errorf("installing %s %s: %w", object.GetKind(), object.GetName(), err)
		}
		if err == nil {
			created = append(created, object)
		}
	}
	return created, nil
}

// uninstall deletes objects in the order in which they were created, and waits until they are gone.
func (g *Ground) uninstall(ctx context.Context, objects []*unstructured.Unstructured) error {
	for _, object := range objects {
		if err := client.IgnoreNotFound(g.Client().Delete(ctx, object, client.PropagationPolicy(metav1.DeletePropagationForeground))); err != nil {
			return fmt.Errorf("deleting %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return await(ctx, "what was installed is gone", func(ctx context.Context) (bool, error) {
		for _, object := range objects {
			if err := g.Client().Get(ctx, client.ObjectKeyFromObject(object), object); !apierrors.IsNotFound(err) {
				return false, err
			}
		}
		return true, nil
	})
}

// InstallManager installs the manager as it is shipped, from an image, and returns a function that
// takes it away again. The manager on the host has to be stopped meanwhile.
func (g *Ground) InstallManager(ctx context.Context) (remove func(context.Context) error, err error) {
	root, err := cluster.RepositoryRoot()
	if err != nil {
		return nil, err
	}
	// The binary goes beside the one that the host runs.
	built, err := images.Manager(root).Write(ctx, filepath.Join(g.dir, "images"), ManagerImage, runtime.GOARCH)
	if err != nil {
		return nil, err
	}
	if err := g.LoadImage(ctx, built.Archive); err != nil {
		return nil, err
	}
	created, err := g.install(ctx, "default", func(object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		if object.GetNamespace() == agentNamespace || object.GetName() == agentNamespace {
			return nil, nil
		}
		return object, nil
	})
	return func(ctx context.Context) error { return g.uninstall(ctx, created) }, err
}

const agentNamespace = "lockstep-health"
