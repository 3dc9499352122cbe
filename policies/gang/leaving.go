// Leaving: which pods are to leave a cordoned node.

package gang

import (
	"time"

	"github.com/lockstep-dev/lockstep/policies/instant"
)

// Leaves reports whether a pod is to leave its node, which is cordoned, and since when; that is zero where it is not known. Of one that stays it returns since
// when its node is cordoned.
func (o *Observation) Leaves(p *Pod) (since time.Time, leaves bool) {
	n := o.Nodes[p.Node]
	if since, named := n.Leaving[p.UID]; named {
		return instant.Latest(since, n.CordonedSince), n.Unschedulable
	}
	return n.CordonedSince, n.Unschedulable && n.Leaving == nil
}
