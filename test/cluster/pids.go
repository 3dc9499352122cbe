// The processes of a container, in the order in which it knows them.

package cluster

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
)

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
