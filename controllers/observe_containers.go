// The containers of a pod as decisions see them: which have failed, when, and which cannot start.

package controllers

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/policies/gang"
)

// failedContainers are those that ended badly, the first to end first. A container that the kubelet has restarted
// since tells by its last state, until it is ready.
func failedContainers(pod *corev1.Pod) []gang.ContainerFailure {
	ready := conditionOf(pod, corev1.PodReady)
	return exits(pod, func(status *corev1.ContainerStatus) bool { return !status.Ready && !wasReadyAgain(status, ready) })
}

// wasReadyAgain reports whether a container that is not ready was so since it last started. A pod that is found not
// ready later than that was ready before, with all its containers: its readiness probe fails before the end of its
// process is seen.
func wasReadyAgain(status *corev1.ContainerStatus, ready *corev1.PodCondition) bool {
	running := status.State.Running
	return running != nil && ready != nil && ready.Status == corev1.ConditionFalse && ready.LastTransitionTime.After(running.StartedAt.Time)
}

// lastExit is the container that ended badly last, be it that it is ready again; nil for none.
func lastExit(pod *corev1.Pod) *gang.ContainerFailure {
	found := exits(pod, func(*corev1.ContainerStatus) bool { return true })
	if len(found) == 0 {
		return nil
	}
	return &found[len(found)-1]
}

// exits are the containers that ended badly, by time. Of those that run again only those count whose last state does.
func exits(pod *corev1.Pod, lastCounts func(*corev1.ContainerStatus) bool) []gang.ContainerFailure {
	var found []gang.ContainerFailure
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			t := statuses[i].State.Terminated
			if t == nil && lastCounts(&statuses[i]) {
				t = statuses[i].LastTerminationState.Terminated
			}
			if t == nil || t.ExitCode == 0 {
				continue
			}
			found = append(found, gang.ContainerFailure{
				Name: statuses[i].Name, ExitCode: t.ExitCode, Reason: t.Reason, Message: t.Message,
				StartedTime: t.StartedAt.Time, Time: t.FinishedAt.Time,
			})
		}
	}
	slices.SortStableFunc(found, func(a, b gang.ContainerFailure) int { return a.Time.Compare(b.Time) })
	return found
}

// startedTime is when the last of the containers that run now started; zero where one does not run.
func startedTime(pod *corev1.Pod) time.Time {
	var started time.Time
	for i := range pod.Status.ContainerStatuses {
		running := pod.Status.ContainerStatuses[i].State.Running
		if running == nil {
			return time.Time{}
		}
		if running.StartedAt.After(started) {
			started = running.StartedAt.Time
		}
	}
	return started
}

// completing reports whether all containers of a running pod have ended with 0, and none is restarted. Sidecars are
// ended by their kubelet.
func completing(pod *corev1.Pod) bool {
	statuses := pod.Status.ContainerStatuses
	if pod.Status.Phase != corev1.PodRunning || pod.Spec.RestartPolicy == corev1.RestartPolicyAlways || len(statuses) < len(pod.Spec.Containers) {
		return false
	}
	return len(statuses) > 0 && !slices.ContainsFunc(statuses, func(s corev1.ContainerStatus) bool {
		return s.State.Terminated == nil || s.State.Terminated.ExitCode != 0
	})
}

// neverRan reports whether no container of a pod was ever made, init containers among them.
func neverRan(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodPending && !slices.ContainsFunc(slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses),
		func(s corev1.ContainerStatus) bool {
			return s.ContainerID != "" || s.RestartCount > 0 || s.State.Running != nil || s.State.Terminated != nil || s.LastTerminationState.Terminated != nil
		})
}

// graceEnds is when the grace of a pod that is being deleted is over; zero for another one.
func graceEnds(pod *corev1.Pod) time.Time {
	if pod.DeletionTimestamp == nil {
		return time.Time{}
	}
	return pod.DeletionTimestamp.Time // it has the grace in it
}

// startProblem is what the status says of a container that the kubelet cannot start. Of a sandbox or a volume that it
// cannot make only its events tell.
func startProblem(pod *corev1.Pod) gang.StartProblem {
	if pod.Spec.NodeName == "" || pod.Status.Phase != corev1.PodPending {
		return gang.StartProblem{}
	}
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			if problem, ok := problemOf(&statuses[i]); ok {
				return problem
			}
		}
	}
	return gang.StartProblem{}
}

// problemOf is why a container waits, unless that is the ordinary course of things.
func problemOf(status *corev1.ContainerStatus) (gang.StartProblem, bool) {
	problem := gang.StartProblem{Container: status.Name}
	if t := status.State.Terminated; t != nil && t.ExitCode != 0 {
		problem.Reason, problem.Message = t.Reason, t.Message
		return problem, true
	}
	waiting := status.State.Waiting
	if waiting == nil || waiting.Reason == "" || waiting.Reason == "ContainerCreating" || waiting.Reason == "PodInitializing" {
		return problem, false
	}
	problem.Reason, problem.Message = waiting.Reason, waiting.Message
	return problem, true
}

// refused reports whether the kubelet refused to run a pod: it has failed, and no container of it was ever made.
func refused(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed && pod.Status.Reason != "" && len(pod.Status.ContainerStatuses) == 0
}

func boundTime(pod *corev1.Pod) time.Time {
	if c := conditionOf(pod, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionTrue {
		return c.LastTransitionTime.Time
	}
	return time.Time{}
}
