// What KWOK does to pods that come and go under one name.

package cluster

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The end of a pod must not reach the next one of its name: controllers make pods again at once, and
// KWOK deletes by name.
func TestADeletedPodLeavesTheNextOfItsNameAlone(t *testing.T) {
	t.Parallel()
	const pods = 64 // enough to keep KWOK busy
	topology := pool(t, Topology{Name: "again", Racks: 1, NodesPerRack: 1, GPUsPerNode: 8})
	names := make([]string, pods)
	for i := range names {
		names[i] = fmt.Sprintf("again-%d", i)
	}
	makeOne := func(ctx context.Context, name string) error {
		spec := podSpec(0)
		spec.NodeName = topology.Node(0, 0)
		labels := map[string]string{PoolLabel: topology.Name}
		return shared.Client().Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name, Labels: labels}, Spec: spec})
	}
	if err := each(t.Context(), names, makeOne); err != nil {
		t.Fatal(err)
	}
	first := allRun(t, topology, pods)
	err := each(t.Context(), names, func(ctx context.Context, name string) error {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}}
		if err := shared.Client().Delete(ctx, pod); err != nil {
			return err
		}
		return wait.PollUntilContextTimeout(ctx, 5*time.Millisecond, nodesTimeout, true, func(ctx context.Context) (bool, error) {
			err := makeOne(ctx, name)
			return err == nil, ignoreExists(err)
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, uid := range allRun(t, topology, pods) {
		if uid == first[name] {
			t.Errorf("pod %s was not replaced", name)
		}
	}
}

func ignoreExists(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// allRun waits until so many pods of a pool run.
func allRun(t *testing.T, topology Topology, pods int) map[string]types.UID {
	t.Helper()
	uids := map[string]types.UID{}
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, nodesTimeout, true, func(ctx context.Context) (bool, error) {
		list := &corev1.PodList{}
		err := shared.Client().List(ctx, list, client.InNamespace(metav1.NamespaceDefault), client.MatchingLabels(topology.NodeSelector()))
		clear(uids)
		for _, pod := range list.Items {
			if pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
				uids[pod.Name] = pod.UID
			}
		}
		return len(uids) == pods, err
	})
	if err != nil {
		t.Fatalf("%d of %d pods run: %v", len(uids), pods, err)
	}
	return uids
}

// A pod whose deletion was begun and not ended goes, too: with a finalizer it is left as by an API
// server whose client went away.
func TestAPodThatIsLeftInItsEndGoes(t *testing.T) {
	t.Parallel()
	topology := pool(t, Topology{Name: "left", Racks: 1, NodesPerRack: 1, GPUsPerNode: 8})
	spec := podSpec(0)
	spec.NodeName = topology.Node(0, 0)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: metav1.NamespaceDefault, Name: "left-0", Labels: map[string]string{PoolLabel: topology.Name}, Finalizers: []string{"lockstep.dev/left"},
	}, Spec: spec}
	if err := shared.Client().Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	allRun(t, topology, 1)
	if err := shared.Client().Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, nodesTimeout, true, func(ctx context.Context) (bool, error) {
		err := shared.Client().Get(ctx, client.ObjectKeyFromObject(pod), &corev1.Pod{})
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
	if err != nil {
		t.Errorf("the pod is still there: %v", err)
	}
}
