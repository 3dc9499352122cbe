// The processes of containers: which they are, in the order in which the container knows them, and how they are killed.

package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// KillContainers kills the processes of pods' first containers, as an out-of-memory killer or a fatal
// signal does. It kills those of several pods at once: none of them learns of another's end before.
func (c *Cluster) KillContainers(ctx context.Context, pods ...client.ObjectKey) error {
	pids, err := c.Processes(ctx, pods...)
	if err != nil {
		return err
	}
	return Kill(pids)
}

// KillPrograms kills the processes of pods' first containers but the first process of each, which is a supervisor.
func (c *Cluster) KillPrograms(ctx context.Context, pods ...client.ObjectKey) error {
	pids, err := c.Programs(ctx, pods...)
	if err != nil {
		return err
	}
	return Kill(pids)
}

// Processes are those that KillContainers kills.
func (c *Cluster) Processes(ctx context.Context, pods ...client.ObjectKey) ([]int, error) {
	return c.processesFrom(ctx, 0, pods)
}

// Programs are the processes that KillPrograms kills.
func (c *Cluster) Programs(ctx context.Context, pods ...client.ObjectKey) ([]int, error) {
	return c.processesFrom(ctx, 1, pods)
}

// processesFrom are the processes of pods' first containers from one on.
func (c *Cluster) processesFrom(ctx context.Context, first int, pods []client.ObjectKey) ([]int, error) {
	var all []int
	for _, pod := range pods {
		pids, err := c.ContainerProcesses(ctx, pod, "")
		if err != nil {
			return nil, err
		}
		all = append(all, pids[min(first, len(pids)):]...)
	}
	return all, nil
}

// Kill kills processes of the host. One that has ended is as dead as was asked for.
func Kill(pids []int) error {
	var errs []error
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); !errors.Is(err, syscall.ESRCH) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// sortByOwnID sorts processes, which are named by their ids on the host, by their ids in their own namespace, where the first one is 1. The
// host's ids begin again from the start once they have come to their greatest.
func sortByOwnID(pids []int) {
	own := map[int]int{}
	for _, pid := range pids {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		own[pid] = math.MaxInt // it has ended
		if err == nil {
			own[pid] = ownID(string(status))
		}
	}
	slices.SortFunc(pids, func(a, b int) int { return cmp.Compare(own[a], own[b]) })
}

// ownID is the last id of the line NSpid in /proc/PID/status: see proc_pid_status(5).
func ownID(status string) int {
	for line := range strings.SplitSeq(status, "\n") {
		if ids, found := strings.CutPrefix(line, "NSpid:"); found {
			if id, err := strconv.Atoi(ids[strings.LastIndexByte(ids, '\t')+1:]); err == nil {
				return id
			}
		}
	}
	return math.MaxInt
}
