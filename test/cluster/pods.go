// What can happen to a pod: its containers fail, restart in place, become ready again, succeed. Each
// verb writes the status that a kubelet writes, all at once.

package cluster

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Termination says how a container ends.
type Termination struct {
	ExitCode int32
	// Reason is Error by default, or Completed for exit code 0; OOMKilled is another.
	Reason  string
	Message string
	// Container is the first by default. The others of a pod that fails end with exit code 0.
	Container string
}

// FailPod ends a pod with an exit code, as when its program fails and restartPolicy is Never.
func (c *Cluster) FailPod(ctx context.Context, pod client.ObjectKey, exitCode int32) error {
	return c.EndPod(ctx, pod, Termination{ExitCode: exitCode})
}

// FailPods ends pods at once: one rank fails, the collective aborts, all exit within moments.
func (c *Cluster) FailPods(ctx context.Context, exitCode int32, pods ...client.ObjectKey) error {
	return each(ctx, pods, func(ctx context.Context, pod client.ObjectKey) error { return c.FailPod(ctx, pod, exitCode) })
}

// SucceedPods ends pods with success.
func (c *Cluster) SucceedPods(ctx context.Context, pods ...client.ObjectKey) error {
	return c.FailPods(ctx, 0, pods...)
}

// EndPod ends a pod for good. It fails unless the exit code is 0.
func (c *Cluster) EndPod(ctx context.Context, key client.ObjectKey, how Termination) error {
	return c.patchPod(ctx, key, func(pod *corev1.Pod) error { return endPod(pod, how, metav1.Now()) })
}

// RestartContainers crashes a pod's container and starts it again in place, as a kubelet does with
// restartPolicy OnFailure or Always: the pod stays Running and is not ready before ContainersReady.
func (c *Cluster) RestartContainers(ctx context.Context, key client.ObjectKey, how Termination) error {
	return c.patchPod(ctx, key, func(pod *corev1.Pod) error { return restartContainer(pod, how, metav1.Now()) })
}

// RestartContainersOf does that to several pods at once: a collective aborts, and the kubelets start its ranks again.
func (c *Cluster) RestartContainersOf(ctx context.Context, how Termination, pods ...client.ObjectKey) error {
	return each(ctx, pods, func(ctx context.Context, pod client.ObjectKey) error { return c.RestartContainers(ctx, pod, how) })
}

// CrashLoop leaves a pod's container waiting for its next try, as after several crashes.
func (c *Cluster) CrashLoop(ctx context.Context, key client.ObjectKey, how Termination) error {
	return c.patchPod(ctx, key, func(pod *corev1.Pod) error { return crashLoop(pod, how, metav1.Now()) })
}

// ContainersReady lets the containers of pods pass their readiness probes.
func (c *Cluster) ContainersReady(ctx context.Context, pods ...client.ObjectKey) error {
	return each(ctx, pods, func(ctx context.Context, key client.ObjectKey) error {
		return c.patchPod(ctx, key, func(pod *corev1.Pod) error { return containersReady(pod, metav1.Now()) })
	})
}

// podsOn are the pods bound to a node.
func (c *Cluster) podsOn(ctx context.Context, node string) ([]corev1.Pod, error) {
	pods := &corev1.PodList{}
	if err := c.client.List(ctx, pods, client.MatchingFields{"spec.nodeName": node}); err != nil {
		return nil, fmt.Errorf("listing the pods on %s: %w", node, err)
	}
	return pods.Items, nil
}

func (c *Cluster) patchPod(ctx context.Context, key client.ObjectKey, change func(*corev1.Pod) error) error {
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		pod := &corev1.Pod{}
		if err := c.client.Get(ctx, key, pod); err != nil {
			return err
		}
		before := client.MergeFromWithOptions(pod.DeepCopy(), client.MergeFromWithOptimisticLock{})
		if err := change(pod); err != nil {
			return err
		}
		return c.client.Status().Patch(ctx, pod, before)
	})
	if err != nil {
		return fmt.Errorf("changing the status of pod %s: %w", key, err)
	}
	return nil
}

var errNotStarted = errors.New("the pod has no started containers yet: wait until it is Running")

func endPod(pod *corev1.Pod, how Termination, now metav1.Time) error {
	if len(pod.Status.ContainerStatuses) == 0 {
		return errNotStarted
	}
	chosen, err := containerIndex(pod, how.Container)
	if err != nil {
		return err
	}
	for i := range pod.Status.ContainerStatuses {
		end := Termination{}
		if i == chosen {
			end = how
		}
		status := &pod.Status.ContainerStatuses[i]
		status.State = corev1.ContainerState{Terminated: terminated(status, end, now)}
		status.Ready = false
	}
	reason := "PodFailed"
	pod.Status.Phase = corev1.PodFailed
	if how.ExitCode == 0 {
		reason = "PodCompleted"
		pod.Status.Phase = corev1.PodSucceeded
	}
	setReadiness(pod, corev1.ConditionFalse, reason, now)
	return nil
}

func restartContainer(pod *corev1.Pod, how Termination, now metav1.Time) error {
	if pod.Status.Phase != corev1.PodRunning || len(pod.Status.ContainerStatuses) == 0 {
		return errNotStarted
	}
	if pod.Spec.RestartPolicy == corev1.RestartPolicyNever {
		return errors.New("its restartPolicy is Never: a kubelet would not restart its containers; use FailPod")
	}
	chosen, err := containerIndex(pod, how.Container)
	if err != nil {
		return err
	}
	status := &pod.Status.ContainerStatuses[chosen]
	status.LastTerminationState = corev1.ContainerState{Terminated: terminated(status, how, now)}
	status.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}
	status.RestartCount++
	status.Ready = false
	setReadiness(pod, corev1.ConditionFalse, "ContainersNotReady", now)
	return nil
}

func crashLoop(pod *corev1.Pod, how Termination, now metav1.Time) error {
	if err := restartContainer(pod, how, now); err != nil {
		return err
	}
	chosen, err := containerIndex(pod, how.Container)
	if err != nil {
		return err
	}
	pod.Status.ContainerStatuses[chosen].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
		Reason: crashLoopBackOff, Message: "back-off restarting failed container",
	}}
	return nil
}

func containersReady(pod *corev1.Pod, now metav1.Time) error {
	for i := range pod.Status.ContainerStatuses {
		status := &pod.Status.ContainerStatuses[i]
		if status.State.Running == nil {
			status.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}
		}
		status.Ready = true
	}
	return reportReadiness(pod)
}

// containerIndex finds a container's status; the first of the spec when no name is given.
func containerIndex(pod *corev1.Pod, name string) (int, error) {
	if name == "" {
		name = pod.Spec.Containers[0].Name
	}
	for i, status := range pod.Status.ContainerStatuses {
		if status.Name == name {
			return i, nil
		}
	}
	return 0, fmt.Errorf("it has no container %q", name)
}

func terminated(status *corev1.ContainerStatus, how Termination, now metav1.Time) *corev1.ContainerStateTerminated {
	end := &corev1.ContainerStateTerminated{ExitCode: how.ExitCode, Reason: how.Reason, Message: how.Message, FinishedAt: now, StartedAt: now}
	if status.State.Running != nil {
		end.StartedAt = status.State.Running.StartedAt
	}
	switch {
	case end.Reason != "":
	case end.ExitCode == 0:
		end.Reason = "Completed"
	default:
		end.Reason = "Error"
	}
	return end
}

// reportReadiness sets the pod's conditions by its containers.
func reportReadiness(pod *corev1.Pod) error {
	for _, status := range pod.Status.ContainerStatuses {
		if !status.Ready {
			setReadiness(pod, corev1.ConditionFalse, "ContainersNotReady", metav1.Now())
			return nil
		}
	}
	setReadiness(pod, corev1.ConditionTrue, "", metav1.Now())
	return nil
}

func setReadiness(pod *corev1.Pod, status corev1.ConditionStatus, reason string, now metav1.Time) {
	for _, kind := range []corev1.PodConditionType{corev1.ContainersReady, corev1.PodReady} {
		condition := corev1.PodCondition{Type: kind, Status: status, Reason: reason, LastTransitionTime: now}
		found := false
		for i := range pod.Status.Conditions {
			if existing := &pod.Status.Conditions[i]; existing.Type == kind {
				found = true
				if existing.Status == status {
					condition.LastTransitionTime = existing.LastTransitionTime
				}
				*existing = condition
			}
		}
		if !found {
			pod.Status.Conditions = append(pod.Status.Conditions, condition)
		}
	}
}
