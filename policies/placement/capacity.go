// Capacity: whether nodes are large enough for a job. What others have on them is not looked at: that is for the scheduler.

package placement

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// Elsewhere reports whether a job that leaves a HyperNode has another place: HyperNodes that the topology allows it, that share no
// node with one that it leaves or has left, and that have room for all its replicas. A gang that is smaller than the job may fit
// where the job does not, and would have to relocate again for the others.
func (v View) Elsewhere(leaving string) bool {
	left := []string{leaving}
	for _, l := range v.s.LeftHyperNodes {
		left = append(left, l.Name)
	}
	highest := v.highestTier()
	var all []string
	for _, h := range v.Topology.Apart(left, highest) {
		if v.hasRoom(h.Nodes) {
			return true
		}
		all = append(all, h.Nodes...)
	}
	slices.Sort(all)
	return highest < 0 && v.hasRoom(slices.Compact(all)) // it may be spread over several
}

// hasRoom reports whether nodes can take the job at its full size. Ranks that have completed need no room.
func (v View) hasRoom(nodes []string) bool {
	free := map[string]corev1.ResourceList{}
	for _, node := range nodes {
		free[node] = v.Nodes[node].Allocatable.DeepCopy()
	}
	for i := range v.Job.Spec.Tasks {
		t := &v.Job.Spec.Tasks[i]
		n := v.incomplete(t)
		for _, node := range nodes {
			if !v.Usable(node, t.Name) {
				continue
			}
			for n > 0 && take(free[node], v.Requests[t.Name]) {
				n--
			}
		}
		if n > 0 {
			return false
		}
	}
	return true
}

// incomplete counts the ranks of a task that have not completed.
func (v View) incomplete(t *v1alpha1.Task) int {
	n := int(t.Replicas)
	if status := gang.TaskStatus(v.s, t.Name); status != nil {
		n -= gang.ParseIndexes(status.CompletedIndexes).Len()
	}
	return n
}

// take subtracts requests from what is free, and reports whether there was enough.
func take(free, requests corev1.ResourceList) bool {
	for name, want := range requests {
		if have := free[name]; have.Cmp(want) < 0 {
			return false
		}
	}
	for name, want := range requests {
		have := free[name]
		have.Sub(want)
		free[name] = have
	}
	return true
}
