// Watches: what changes the tree of HyperNodes, and what else of nodes and HyperNodes a controller wants to see.

package hypernodes

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"

	"github.com/lockstep-dev/lockstep/controllers/predicates"
)

// NothingElse passes no update of a HyperNode.
func NothingElse(_, _ *topologyv1alpha1.HyperNode) bool { return false }

// Following forgets the topology where a node comes, goes or changes its labels, and lets
// through that and what else matters.
func (c *Cache) Following(matters func(before, after *corev1.Node) bool) predicate.Funcs {
	moved := func() bool { c.Invalidate(); return true }
	funcs := predicates.OnUpdate(func(before, after *corev1.Node) bool {
		if !maps.Equal(before.Labels, after.Labels) {
			return moved()
		}
		return matters(before, after)
	})
	funcs.CreateFunc = func(event.CreateEvent) bool { return moved() }
	funcs.DeleteFunc = func(event.DeleteEvent) bool { return moved() }
	return funcs
}

// FollowingHyperNodes forgets the topology where a HyperNode changes, and lets through that and
// what else matters.
func (c *Cache) FollowingHyperNodes(matters func(before, after *topologyv1alpha1.HyperNode) bool) predicate.Funcs {
	moved := func() bool { c.Invalidate(); return true }
	funcs := predicates.OnUpdate(func(before, after *topologyv1alpha1.HyperNode) bool {
		if before.UID != after.UID || before.Generation != after.Generation {
			return moved()
		}
		return matters(before, after)
	})
	funcs.CreateFunc = func(event.CreateEvent) bool { return moved() }
	funcs.DeleteFunc = func(event.DeleteEvent) bool { return moved() }
	return funcs
}
