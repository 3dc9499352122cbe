// Vacated: nodes whose pods were gone before the manager deleted them, or may have ended, which its cache did not show when their holds
// were recorded.

package controllers

import (
	"maps"
	"sync"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/placement"
)

// vacatedNodes are nodes of a job, and the ID of the hold that each had when its pod was not as seen.
type vacatedNodes struct {
	mu    sync.Mutex
	holds map[string]string
}

// note remembers that the pod of a node was not as seen when it was to be deleted, if the job holds the node.
func (v *vacatedNodes) note(node string, held []v1alpha1.NodeHold) {
	hold := placement.HoldOn(held, node)
	if hold == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.holds == nil {
		v.holds = map[string]string{}
	}
	v.holds[node] = hold.ID
}

// of returns the nodes that are held as they were then, and forgets the others.
func (v *vacatedNodes) of(held []v1alpha1.NodeHold) map[string]string {
	v.mu.Lock()
	defer v.mu.Unlock()
	maps.DeleteFunc(v.holds, func(node, id string) bool {
		hold := placement.HoldOn(held, node)
		return hold == nil || hold.ID != id
	})
	return maps.Clone(v.holds)
}
