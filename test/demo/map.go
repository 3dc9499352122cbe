// The map: racks and nodes, with the ranks of the gang in them.

package main

import (
	"cmp"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

func (d *demo) printMap() error {
	racks, err := d.Map(d.ctx)
	if err != nil {
		return err
	}
	for _, rack := range racks {
		var b strings.Builder
		for _, node := range rack.Nodes {
			fmt.Fprintf(&b, " [%s %-3s]", node.Name[strings.LastIndex(node.Name, "-")+1:], d.cell(node))
		}
		say("  %-9s%s", rack.Name, b.String())
	}
	return nil
}

// cell is what a node holds: a rank of the gang, nothing, or that it is dead.
func (d *demo) cell(node cluster.NodeView) string {
	if node.Ready != corev1.ConditionTrue {
		return "✗"
	}
	for _, pod := range node.Pods {
		if pod.Labels[v1alpha1.LabelAttempt] == fmt.Sprint(d.job.Status.Attempt) {
			return "w" + pod.Key.Name[strings.LastIndex(pod.Key.Name, "-")+1:]
		}
	}
	return "·"
}

// rackOf is the rack, and HyperNode, of a pod's node: nodes are named after theirs.
func rackOf(pod corev1.Pod) string {
	return pod.Spec.NodeName[:strings.LastIndex(pod.Spec.NodeName, "-")]
}

// compareNames orders pods by rank: shorter names, of lower ranks, come first.
func compareNames(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }
