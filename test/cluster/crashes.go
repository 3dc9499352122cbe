// Programs that fail some time after each start, for as long as a test asks for that, and kubelets that start them again.

package cluster

import (
	"context"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const crashLoopBackOff = "CrashLoopBackOff"

// A kubelet starts a container again at once after its first crash, 10 s after the second one, and then twice as long after each further one,
// up to five minutes.
const minCrashLoop, maxCrashLoop = 10 * time.Second, 5 * time.Minute

// CrashPrograms ends the program of each pod that has run it for some time, and returns how many it has ended. A pod whose restartPolicy is
// Never fails. In another one the container waits for RestartCrashed.
func (c *Cluster) CrashPrograms(ctx context.Context, after time.Duration, how Termination, pods ...corev1.Pod) (int, error) {
	now := metav1.Now()
	return c.changeListed(ctx, pods,
		func(pod *corev1.Pod) bool { return hasRunFor(pod, after, now) },
		func(pod *corev1.Pod) error {
			if pod.Spec.RestartPolicy == corev1.RestartPolicyNever {
				return endPod(pod, how, now)
			}
			return crashLoop(pod, how, now)
		})
}

// RestartCrashed starts the containers of pods again whose kubelets have waited for as long as they do, and returns how many pods it has
// changed. It has to be called from time to time.
func (c *Cluster) RestartCrashed(ctx context.Context, pods ...corev1.Pod) (int, error) {
	now := metav1.Now()
	return c.changeListed(ctx, pods,
		func(pod *corev1.Pod) bool { return hasBackedOff(pod, now) },
		func(pod *corev1.Pod) error { return containersReady(pod, now) })
}

// changeListed changes the status of those pods that a change concerns, and returns how many it has changed. One that is another by now, or
// gone, is left as it is: its kubelet decides by the next list.
func (c *Cluster) changeListed(ctx context.Context, pods []corev1.Pod, concerns func(*corev1.Pod) bool, change func(*corev1.Pod) error) (int, error) {
	var changed atomic.Int32
	err := each(ctx, pods, func(ctx context.Context, pod corev1.Pod) error {
		if !concerns(&pod) {
			return nil
		}
		before := client.MergeFromWithOptions(pod.DeepCopy(), client.MergeFromWithOptimisticLock{})
		if err := change(&pod); err != nil {
			return err
		}
		err := c.client.Status().Patch(ctx, &pod, before)
		if err == nil {
			changed.Add(1)
		}
		return goneOrReplaced(err)
	})
	return int(changed.Load()), err
}

// hasRunFor reports whether the first container of a pod has run for some time.
func hasRunFor(pod *corev1.Pod, duration time.Duration, now metav1.Time) bool {
	if pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning || len(pod.Status.ContainerStatuses) == 0 {
		return false
	}
	running := pod.Status.ContainerStatuses[0].State.Running
	return running != nil && now.Sub(running.StartedAt.Time) >= duration
}

// hasBackedOff reports whether the kubelet starts the first container of a pod again.
func hasBackedOff(pod *corev1.Pod, now metav1.Time) bool {
	if pod.DeletionTimestamp != nil || len(pod.Status.ContainerStatuses) == 0 {
		return false
	}
	status := pod.Status.ContainerStatuses[0]
	waiting, last := status.State.Waiting, status.LastTerminationState.Terminated
	return waiting != nil && waiting.Reason == crashLoopBackOff && last != nil && now.Sub(last.FinishedAt.Time) >= crashLoopDelay(status.RestartCount)
}

// crashLoopDelay is how long a kubelet waits after a number of crashes.
func crashLoopDelay(crashes int32) time.Duration {
	if crashes <= 1 {
		return 0
	}
	delay := minCrashLoop
	for range crashes - 2 {
		if delay >= maxCrashLoop {
			break
		}
		delay *= 2
	}
	return min(delay, maxCrashLoop)
}
