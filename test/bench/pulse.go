// The scheduler's pulse: what a recovery waits for is mostly the next round of Volcano's scheduler,
// so gangs start and pods fail at moments that are spread evenly between two, the same for both sides.

package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

// period is how long Volcano's scheduler waits between two rounds.
const period = time.Second

// pulsePool is the node of the pods that tell the pulse.
var pulsePool = cluster.Topology{Name: "pulse", Racks: 1, NodesPerRack: 1, GPUsPerNode: 1}

// pulse returns when the scheduler was last seen to place something: a pod of our own, just now.
func (b *bench) pulse(ctx context.Context) (time.Time, error) {
	b.pulses++
	name := fmt.Sprintf("%s-%d", pulsePool.Name, b.pulses)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PodSpec{
			SchedulerName: "volcano",
			NodeSelector:  pulsePool.NodeSelector(),
			Containers:    []corev1.Container{{Name: "main", Image: "none"}},
		},
	}
	if err := b.cluster.Client().Create(ctx, pod); err != nil {
		return time.Time{}, fmt.Errorf("create a pod to feel the scheduler's pulse: %w", err)
	}
	now, err := b.recorder.await(ctx, name, timeoutOf(0), func(l lives) bool { return !l.last(bound).IsZero() })
	if err != nil {
		return time.Time{}, fmt.Errorf("feel the scheduler's pulse: %w", err)
	}
	b.recorder.forget(name)
	return now.last(bound), b.cluster.Client().Delete(ctx, pod, client.GracePeriodSeconds(0))
}
