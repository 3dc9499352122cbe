// Package agent takes what the health of a node's devices means to the cluster: which
// pods it concerns, and the node's NodeHealth.
package agent
