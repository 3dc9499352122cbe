// What Volcano's controller does not hear of, and how the cluster waits until it hears again.

package cluster

import (
	"context"
	"errors"
	"testing"

	batchv1alpha1 "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "volcano.sh/apis/pkg/apis/scheduling/v1beta1"
)

// The controller cannot hear that the probe's PodGroup was let in, until the gate opens.
func TestAStartWaitsUntilTheClusterTakesWork(t *testing.T) {
	g := behindGate(t)
	g.Shut("podgroups")
	started := make(chan error, 1)
	go func() { started <- shared.Component(VolcanoScheduler).Restart(t.Context()) }()

	// The controller deletes a Command before it looks at the Job, which then gets no pod.
	until(t, "the controller was asked to look at the probe's Job twice", func() bool { return len(started) > 0 || g.deletions("commands") >= 2 })
	if len(started) > 0 {
		t.Fatalf("the start did not wait: %v", <-started)
	}
	g.Open()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
}

// This test pins a defect of Volcano 1.14.1 that docs/operators.md tells users of. When it fails for a
// newer version, that passage and syncJob can go.
func TestVolcanoForgetsAJobWhosePodGroupItFirstSeesInqueue(t *testing.T) {
	topology := pool(t, Topology{Name: "forgotten", Racks: 1, NodesPerRack: 2, GPUsPerNode: 8})
	g := behindGate(t)
	g.Shut("podgroups")
	job := VolcanoJob("forgotten", topology.Name, 1, 1)
	create(t, job)
	untilInqueue(t, job)
	// With its one worker, the controller has looked at the first Job for the last time when it
	// makes the PodGroup of a second.
	second := VolcanoJob("forgotten-second", topology.Name, 1, 1)
	create(t, second)
	untilInqueue(t, second)
	g.Open()

	if err := shared.AwaitUsable(t.Context()); err != nil {
		t.Fatal(err)
	}
	if pods, _, err := shared.partsOf(t.Context(), job); err != nil || len(pods) > 0 {
		t.Errorf("the Job has %d pods: %v", len(pods), err)
	}
	if err := shared.syncJob(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	eventuallyPods(t, job.Name, running(1))
}

// behindGate puts a gate between Volcano's controller and the API server until the test is over.
func behindGate(t *testing.T) *Gate {
	t.Helper()
	g, remove, err := shared.GateController(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := remove(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return g
}

func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	err := eventually(t.Context(), what, func(context.Context) error {
		if !holds() {
			return errors.New("not yet")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func untilInqueue(t *testing.T, job *batchv1alpha1.Job) {
	t.Helper()
	until(t, "the PodGroup of "+job.Name+" is Inqueue", func() bool {
		_, podGroup, err := shared.partsOf(t.Context(), job)
		return err == nil && podGroup != nil && podGroup.Status.Phase == schedulingv1beta1.PodGroupInqueue
	})
}
