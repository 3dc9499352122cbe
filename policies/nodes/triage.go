// Triage: all nodes on their way to a verdict.

package nodes

import (
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/healthpolicy"
	"github.com/lockstep-dev/lockstep/policies/topology"
)

// triage is a fleet on its way to a decision.
type triage struct {
	*Fleet
	policy   healthpolicy.Policy
	verdicts map[string]*v1alpha1.HealthVerdict
	// worsened are those that fell ill, or from Degraded to Failed, since the look before.
	worsened map[string]bool
	// former are the NodeHealths of machines that came into quarantine under another name.
	former Former
	next   time.Time
}

// breaker counts, by scope, the nodes that were admitted of late.
type breaker struct {
	*triage
	counts map[string]int
	// open are the scopes in which nothing more is admitted: a scope stays so for as long as
	// it holds some ill node back that nobody has acknowledged.
	open  map[string]bool
	known map[string][]scope
}

// scope is what a limit is for.
type scope struct {
	name  string
	size  int
	limit healthpolicy.Limit
}

// Fleet is one consistent look at the health of all nodes.
type Fleet struct {
	// Now is the time of the look.
	Now time.Time
	// Policy as it was read.
	Policy *v1alpha1.HealthPolicy
	// Healths of the nodes that exist. Decisions never change them.
	Healths []*v1alpha1.NodeHealth
	// Gone are the NodeHealths of nodes that are gone: what was let through of late still counts.
	Gone []*v1alpha1.NodeHealth
	// Machines are the IDs of the machines of the nodes that exist, by the names of these, as far as they are known.
	Machines map[string][]string
	// Nodes is how many nodes the cluster has.
	Nodes int
	// Topology of the cluster.
	Topology *topology.Topology
}
