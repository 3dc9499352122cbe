// The processes of pods' containers on real nodes, and what can be done to them.

package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
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
		err = errors.Join(err, syscall.Kill(pid, signal))
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
	slices.SortFunc(pids, func(a, b int) int { return cmp.Compare(innerPID(a), innerPID(b)) })
	return pids, err
}

// innerPID is the id of a process in its own container, where the first one has 1. On the host a later process may have a lower id.
func innerPID(pid int) int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return pid // it has ended
	}
	for line := range strings.Lines(string(status)) {
		if ids, found := strings.CutPrefix(line, "NSpid:"); found {
			fields := strings.Fields(ids)
			if inner, err := strconv.Atoi(fields[len(fields)-1]); err == nil {
				return inner
			}
		}
	}
	return pid
}

// KillContainers kills the processes of pods' first containers, as an out-of-memory killer or a fatal
// signal does. It kills those of several pods at once: none of them learns of another's end before.
func (c *Cluster) KillContainers(ctx context.Context, pods ...client.ObjectKey) error {
	return c.killProcesses(ctx, 0, pods)
}

// killProcesses kills the processes of pods' first containers from one on.
func (c *Cluster) killProcesses(ctx context.Context, from int, pods []client.ObjectKey) error {
	var all []int
	for _, pod := range pods {
		pids, err := c.ContainerProcesses(ctx, pod, "")
		if err != nil {
			return err
		}
		all = append(all, pids[min(from, len(pids)):]...)
	}
	var errs []error
	for _, pid := range all {
		// One that has ended since is as dead as was asked for.
		if err := syscall.Kill(pid, syscall.SIGKILL); !errors.Is(err, syscall.ESRCH) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// KillPrograms kills the processes of pods' first containers but the first process of each, which is a supervisor.
func (c *Cluster) KillPrograms(ctx context.Context, pods ...client.ObjectKey) error {
	return c.killProcesses(ctx, 1, pods)
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
