package real

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// The manager runs as it is shipped, in pods on real kubelets, from an image that was built here. Its leader is frozen in
// the middle of a recovery: the other replica goes on, and the frozen one does nothing more when it thaws.
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
	s := train(t, "shipped", 4, 300)
	deployment := &appsv1.Deployment{}
	s.must(await(ctx, "both replicas of the manager are ready", func(ctx context.Context) (bool, error) {
		err := ground.Client().Get(ctx, client.ObjectKey{Namespace: managerNamespace, Name: "lockstep-manager"}, deployment)
		return err == nil && deployment.Status.ReadyReplicas == 2, err
	}))
	s.must(s.AwaitSteps(ctx, 25))
	s.resumes("one process killed", func() error { return ground.KillContainers(ctx, s.key(1)) })

	before := s.pods()
	leader, err := ground.leader(ctx)
	s.must(err)
	s.resumes("one pod deleted, and the leader frozen", func() error {
		s.must(s.deletePods(2))
		s.must(s.AwaitJob(ctx, "the incident is open", func(job *v1alpha1.TrainingJob) bool { return job.Status.State == v1alpha1.StateRecovering }))
		s.must(ground.SignalContainer(ctx, leader, "", syscall.SIGSTOP))
		return await(ctx, "the other replica leads", func(ctx context.Context) (bool, error) {
			now, err := ground.leader(ctx)
			return err == nil && now != leader, err
		})
	})
	s.must(ground.SignalContainer(ctx, leader, "", syscall.SIGCONT))
	s.must(await(ctx, "the frozen replica has ended and is started again", func(ctx context.Context) (bool, error) {
		pod := &corev1.Pod{}
		err := ground.Client().Get(ctx, leader, pod)
		return err == nil && pod.Status.ContainerStatuses[0].RestartCount > 0 && pod.Status.ContainerStatuses[0].Ready, err
	}))
	s.must(s.Finish(ctx))
	delete(before, 2)
	s.survivorsStay(before)
}

const managerNamespace = "lockstep-system"

// leader is the pod of the manager that holds the lease.
func (g *Ground) leader(ctx context.Context) (client.ObjectKey, error) {
	lease := &coordinationv1.Lease{}
	err := g.Client().Get(ctx, client.ObjectKey{Namespace: managerNamespace, Name: "manager.lockstep.dev"}, lease)
	if err != nil {
		return client.ObjectKey{}, err
	}
	if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
		return client.ObjectKey{}, errors.New("nobody holds the manager's lease")
	}
	pod, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_") // HOSTNAME_UUID, by controller-runtime
	return client.ObjectKey{Namespace: managerNamespace, Name: pod}, nil
}
