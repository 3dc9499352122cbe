// Machines: what a node is, whatever Node object it has.

package nodes

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
)

// MachineOf returns the identity of a node's machine, which it keeps when it joins again; empty where nothing but its name is
// known. A cloud's controller sets the provider's ID before it lets pods onto the node.
func MachineOf(node *corev1.Node) string {
	return cmp.Or(node.Spec.ProviderID, node.Status.NodeInfo.SystemUUID)
}
