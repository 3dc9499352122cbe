// Machines that the job is excluded from, under whatever names they have joined.

package controllers

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/policies/gang"
)

// observeMachines looks at the nodes that machines are which the job is excluded from: they may have joined under another name. It
// returns those machines whose IDs several nodes carry.
func (r *TrainingJobReconciler) observeMachines(ctx context.Context, o *gang.Observation, holdKey string) (shared map[string]bool, err error) {
	shared = map[string]bool{}
	for _, e := range o.Job.Status.ExcludedNodes {
		if e.Machine == "" {
			continue
		}
		found := &corev1.NodeList{}
		if err := r.List(ctx, found, client.MatchingFields{indexMachine: e.Machine}, client.Limit(2)); err != nil {
			return nil, fmt.Errorf("list the nodes of a machine: %w", err)
		}
		if shared[e.Machine] = len(found.Items) > 1; shared[e.Machine] {
			continue
		}
		for i := range found.Items {
			o.Nodes[found.Items[i].Name] = nodeOf(&found.Items[i], holdKey)
		}
	}
	return shared, nil
}

// dropShared has nodes told apart by their names where several carry the ID of a machine, as the UUID of a cloned virtual machine.
func dropShared(observed map[string]gang.Node, shared map[string]bool) {
	seen := make(map[string]bool, len(observed))
	for _, n := range observed {
		if seen[n.Machine] {
			shared[n.Machine] = true
		}
		seen[n.Machine] = true
	}
	for name, n := range observed {
		if shared[n.Machine] {
			n.Machine = ""
			observed[name] = n
		}
	}
}
