// Package ranklogs finds the containers that have the logs of ranks, and merges their streams line by line.
package ranklogs

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/why"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// Source is a container with a log of a rank.
type Source struct {
	Rank string
	Pod  string
	// Node whose kubelet has the log; empty while the pod has none.
	Node      string
	Container string
	// Previous asks for the run of the container before the one that it has now.
	Previous bool
}

// Options say which log of a rank is asked for.
type Options struct {
	// Container is its name; empty for the default one.
	Container string
	// Previous asks for the run before: of the container, or else of the pod before.
	Previous bool
}

// defaultContainer is the annotation by which kubectl, too, chooses a container.
const defaultContainer = "kubectl.kubernetes.io/default-container"

// Find finds the log of a rank among the pods of its job, up to an attempt. The pod of a later attempt has replaced that of an
// earlier one.
func Find(job *v1alpha1.TrainingJob, sub *why.Subject, pods []corev1.Pod, o Options) (Source, error) {
	out := Source{Rank: Name(sub.Rank)}
	mine := podsOf(job, sub, pods)
	if len(mine) == 0 && job.Spec.Suspend {
		return out, fmt.Errorf("rank %s has no pod: the job is suspended, and the logs went with the pods: `kubectl lockstep resume %s` starts it", out.Rank, job.Name)
	}
	if len(mine) == 0 {
		return out, fmt.Errorf("rank %s has no pod: `kubectl lockstep why %s %s` says why", out.Rank, job.Name, out.Rank)
	}
	pod := mine[0]
	container, err := containerOf(pod, o.Container)
	if err != nil {
		return out, fmt.Errorf("-c: rank %s: %w", out.Rank, err)
	}
	out.Pod, out.Node, out.Container = pod.Name, pod.Spec.NodeName, container
	switch {
	case !o.Previous:
	case restarted(pod, container):
		out.Previous = true
	case len(mine) > 1:
		out.Pod, out.Node = mine[1].Name, mine[1].Spec.NodeName
	default:
		return out, fmt.Errorf("rank %s has no previous log: container %s of pod %s has not restarted, and no earlier pod of the rank is left: logs go with their pods", out.Rank, container, pod.Name)
	}
	return out, nil
}

// podsOf are the pods of a rank, the latest first.
func podsOf(job *v1alpha1.TrainingJob, sub *why.Subject, pods []corev1.Pod) []*corev1.Pod {
	var out []*corev1.Pod
	for i := range pods {
		if attempt := attemptOf(&pods[i]); attempt <= sub.Attempt && pods[i].Name == gang.PodName(job, attempt, sub.Rank) {
			out = append(out, &pods[i])
		}
	}
	slices.SortFunc(out, func(a, b *corev1.Pod) int { return int(attemptOf(b) - attemptOf(a)) })
	return out
}

// attemptOf is the attempt that made a pod; 0 where no label says it.
func attemptOf(pod *corev1.Pod) int32 {
	attempt, _ := strconv.ParseInt(pod.Labels[v1alpha1.LabelAttempt], 10, 32)
	return int32(attempt)
}

func containerOf(pod *corev1.Pod, name string) (string, error) {
	var names []string
	for i := range pod.Spec.Containers {
		names = append(names, pod.Spec.Containers[i].Name)
	}
	if name == "" && slices.Contains(names, pod.Annotations[defaultContainer]) {
		return pod.Annotations[defaultContainer], nil
	}
	if name == "" {
		return names[0], nil
	}
	for i := range pod.Spec.InitContainers {
		names = append(names, pod.Spec.InitContainers[i].Name)
	}
	if !slices.Contains(names, name) {
		return "", fmt.Errorf("pod %s has no container %q, but %s", pod.Name, name, strings.Join(names, ", "))
	}
	return name, nil
}

// restarted reports whether a container has run before in its pod.
func restarted(pod *corev1.Pod, container string) bool {
	return slices.ContainsFunc(slices.Concat(pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses), func(s corev1.ContainerStatus) bool {
		return s.Name == container && s.LastTerminationState.Terminated != nil
	})
}

// Name is the name of a rank, such as worker-3.
func Name(r gang.Rank) string { return fmt.Sprintf("%s-%d", r.Task, r.Index) }
