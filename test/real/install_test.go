package real

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The manager runs as it is shipped, in pods on real kubelets, from an image that was built here.
func TestTheManagerRunsFromItsImage(t *testing.T) {
	ctx := context.WithoutCancel(t.Context())
	if err := ground.Manager.Stop(); err != nil {
		t.Fatal(err)
	}
	remove, err := ground.InstallManager(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := remove(ctx); err != nil {
			t.Error(err)
		}
		if err := ground.Manager.Start(ctx); err != nil {
			t.Error(err)
		}
	})
	s := train(t, "shipped", 4, 100)
	deployment := &appsv1.Deployment{}
	s.must(await(ctx, "both replicas of the manager are ready", func(ctx context.Context) (bool, error) {
		err := ground.Client().Get(ctx, client.ObjectKey{Namespace: "lockstep-system", Name: "lockstep-manager"}, deployment)
		return err == nil && deployment.Status.ReadyReplicas == 2, err
	}))
	s.must(s.AwaitSteps(ctx, 25))
	s.resumes("one process killed", func() error { return ground.KillContainers(ctx, s.key(1)) })
	s.must(s.Finish(ctx))
}
