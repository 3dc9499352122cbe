// Package health says how well a node's GPUs, links and ports are.
//
// A sample is what was read of them in one poll. Evaluate turns the state before, a sample and
// the table of signals into the state after, and does nothing else: reading DCGM, publishing
// and asking the kubelet are in the rooms below. README.md explains the table.
package health
