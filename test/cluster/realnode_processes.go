// The processes of pods' containers on real nodes, and what can be done to them.

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// SignalContainer sends a signal to all processes of a container on a real node. The first container
// of the pod is meant where no name is given.
func (c *Cluster) SignalContainer(ctx context.Context, key client.ObjectKey, container string, signal syscall.Signal) error {
	pids, err := c.ContainerProcesses(ctx, key, container)
	for _, pid := range pids {
		if failed := syscall.Kill(pid, signal); !errors.Is(failed, syscall.ESRCH) { // it has ended meanwhile
			err = errors.Join(err, failed)
		}
	}
	return err
}

// ContainerProcesses are the processes of a container, by their ids on the host, the first one first. A
// kubelet reports a container after it has started it, and a program may do its work by then: so the
// result is awaited until the pod's status names a container that runs.
func (c *Cluster) ContainerProcesses(ctx context.Context, key client.ObjectKey, container string) ([]int, error) {
	var pids []int
	var missing error
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, reportTimeout, true, func(ctx context.Context) (bool, error) {
		pod := &corev1.Pod{}
		if err := c.client.Get(ctx, key, pod); err != nil {
			return false, err
		}
		n, err := c.realNode(pod.Spec.NodeName)
		if err != nil {
			return false, err
		}
		pids, missing = n.containerProcesses(pod, container)
		return missing == nil, nil
	})
	if err != nil {
		return nil, fmt.Errorf("finding the processes of pod %s: %w", key, errors.Join(err, missing))
	}
	return pids, nil
}

// reportTimeout is enough for a kubelet that has failed to write a status and tries again 10 s later.
const reportTimeout = 30 * time.Second

// containerProcesses are those of the container that the pod's status names. It fails where none runs.
func (n *realNode) containerProcesses(pod *corev1.Pod, container string) ([]int, error) {
	if len(pod.Status.ContainerStatuses) == 0 {
		return nil, errNotStarted
	}
	index, err := containerIndex(pod, container)
	if err != nil {
		return nil, err
	}
	_, id, found := strings.Cut(pod.Status.ContainerStatuses[index].ContainerID, "://")
	if !found {
		return nil, errNotStarted
	}
	cgroup, err := n.cgroup.Find(id)
	if err != nil {
		return nil, fmt.Errorf("its container does not run: %w", err)
	}
	pids, err := cgroup.Processes()
	if err == nil && len(pids) == 0 {
		err = errors.New("its container has no process")
	}
	sortByOwnID(pids)
	return pids, err
}

// ContainerEnvironment is the environment of a container on a real node, as its first process has it:
// what the kubelet and its device plugins gave it.
func (c *Cluster) ContainerEnvironment(ctx context.Context, key client.ObjectKey, container string) (map[string]string, error) {
	pids, err := c.ContainerProcesses(ctx, key, container)
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pids[0]))
	if err != nil {
		return nil, err
	}
	environment := map[string]string{}
	for variable := range strings.SplitSeq(string(content), "\x00") {
		if name, value, found := strings.Cut(variable, "="); found {
			environment[name] = value
		}
	}
	return environment, nil
}
