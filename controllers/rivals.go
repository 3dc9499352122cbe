// Rivals: pods that a scheduler may be about to bind to a node that was free before it was held.

package controllers

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/fit"
	"github.com/lockstep-dev/lockstep/policies"
)

// maxRivals is how many pods without a node are looked at. Where there are more, one of them may fit.
const maxRivals = 500

// rivals are the pods that had no node, and no gate, before the nodes were read. A scheduler that decided before it saw a hold
// binds one of these, or has bound it, and then the node's pods have it.
type rivals struct {
	pods    []corev1.Pod
	tooMany bool
}

func readRivals(ctx context.Context, live client.Reader) (*rivals, error) {
	list := &corev1.PodList{}
	if err := live.List(ctx, list, client.MatchingFields{"spec.nodeName": ""}, client.Limit(maxRivals)); err != nil {
		return nil, fmt.Errorf("list the pods without a node: %w", err)
	}
	waiting := slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return len(p.Spec.SchedulingGates) > 0 })
	return &rivals{pods: waiting, tooMany: list.Continue != ""}, nil
}

// mayTake reports whether the rivals that a node would take leave no room for a pod.
func (r *rivals) mayTake(node *fit.Node, pod *corev1.Pod) bool {
	if r == nil {
		return false
	}
	taken := &fit.Node{Object: node.Object, Pods: slices.Clone(node.Pods)}
	for i := range r.pods {
		if rival := &r.pods[i]; rival.UID != pod.UID && node.Check(rival, isHold) == nil {
			taken.Pods = append(taken.Pods, *rival)
		}
	}
	return r.tooMany || taken.Check(pod, isHold) != nil
}

// uncontested returns the bindings whose nodes were not found to have rivals.
func (a *actor) uncontested(bindings []policies.Binding) []policies.Binding {
	job := client.ObjectKeyFromObject(a.job)
	return slices.DeleteFunc(slices.Clone(bindings), func(b policies.Binding) bool { return a.contested.knows(job, b.UID) })
}
