package real

import (
	"context"
	"fmt"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/images"
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

// InstallManager installs the manager as it is shipped, from an image, and returns a function that
// takes it away again. The manager on the host has to be stopped meanwhile.
func (g *Ground) InstallManager(ctx context.Context) (remove func(context.Context) error, err error) {
	root, err := cluster.RepositoryRoot()
	if err != nil {
		return nil, err
	}
	// The binary goes beside the one that the host runs.
	archive, err := images.BuildProgram(ctx, root, filepath.Join(g.dir, "images"), "./cmd/manager", images.Image{Name: ManagerImage, User: "65532:65532"})
	if err != nil {
		return nil, err
	}
	if err := g.LoadImage(ctx, archive); err != nil {
		return nil, err
	}
	created, err := g.install(ctx, "default", func(object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		if object.GetNamespace() == agentNamespace || object.GetName() == agentNamespace {
			return nil, nil
		}
		return object, nil
	})
	return func(ctx context.Context) error {
		for _, object := range created {
			if err := client.IgnoreNotFound(g.Client().Delete(ctx, object, client.PropagationPolicy("Foreground"))); err != nil {
				return err
			}
		}
		return nil
	}, err
}

const agentNamespace = "lockstep-health"
