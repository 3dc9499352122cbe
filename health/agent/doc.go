// Package agent watches the devices of a node, and takes what that means to the cluster: which
// pods it concerns, and the node's NodeHealth.
package agent
