// Package nodelist lists nodes with their health, by HyperNode. It reads nothing: the same nodes give the same list.
package nodelist

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/fleetmap"
)

// Nodes is a list of nodes.
type Nodes struct {
	Nodes []Node `json:"nodes"`
	// Unread are the sources that could not be read, in words.
	Unread []string `json:"unread,omitempty"`
}

// Node is a node of the map, with its health.
type Node struct {
	fleetmap.Node `json:",inline"`
	// State is the verdict of the manager; empty where there is none.
	State v1alpha1.HealthState `json:"state,omitempty"`
	Since *metav1.Time         `json:"since,omitempty"`
	// QuarantinedTime is since when no job is placed on the node.
	QuarantinedTime *metav1.Time `json:"quarantinedTime,omitempty"`
	// QuarantineEndTime is when the quarantine ends, if nothing fails until then.
	QuarantineEndTime *metav1.Time `json:"quarantineEndTime,omitempty"`
	// Lemon reports whether the node stays in quarantine until it is acknowledged.
	Lemon bool `json:"lemon,omitempty"`
	// HeldBackBy is the scope of the breaker that keeps everybody from acting on the node's illness.
	HeldBackBy string `json:"heldBackBy,omitempty"`
	// Reports are the faults that are known, the worst first.
	Reports []v1alpha1.HealthReport `json:"reports,omitempty"`
	// Silent are the sources that cannot tell how the node is.
	Silent []v1alpha1.HealthSource `json:"silent,omitempty"`
}

// Unhealthy reports whether the node is not ready, cordoned, in quarantine, or anything but Healthy.
func (n *Node) Unhealthy() bool {
	return n.NotReady || n.Cordoned || n.Quarantined || n.Degraded || (n.State != "" && n.State != v1alpha1.HealthHealthy)
}

// Options say which nodes are listed.
type Options struct {
	// HyperNode that the nodes are in, at any tier; empty for all nodes.
	HyperNode string
	Unhealthy bool
}

// Of lists the nodes of a fleet, those of a HyperNode together. The nodes that are in none come last.
func Of(f *fleetmap.Fleet, healths []v1alpha1.NodeHealth, o Options) (Nodes, error) {
	out := Nodes{Nodes: []Node{}, Unread: f.Unread} // [] in JSON where there is none
	inside, known := f.Topology.Find(o.HyperNode)
	if around := f.Topology.Containing(o.HyperNode); !known && len(around) > 0 {
		return out, fmt.Errorf("%q is a node, and not a HyperNode: `kubectl lockstep nodes %s` lists it with those around it", o.HyperNode, around[0].Name)
	}
	if o.HyperNode != "" && !known {
		return out, fmt.Errorf("there is no HyperNode %q: %s", o.HyperNode, strings.Join(append(f.Unread, "`kubectl lockstep map --all` shows all."), " "))
	}
	byName := make(map[string]*v1alpha1.NodeHealth, len(healths))
	for i := range healths {
		byName[healths[i].Name] = &healths[i]
	}
	for _, n := range fleetmap.ReportOf(f, nil).Nodes {
		node := nodeOf(n, byName[n.Name])
		if (!o.Unhealthy || node.Unhealthy()) && (!known || inside.Holds([]string{n.Name})) {
			out.Nodes = append(out.Nodes, node)
		}
	}
	slices.SortStableFunc(out.Nodes, func(a, b Node) int {
		return cmp.Or(afterAll(a.HyperNode)-afterAll(b.HyperNode), fleetmap.Naturally(a.HyperNode, b.HyperNode), fleetmap.Naturally(a.Name, b.Name))
	})
	return out, nil
}

// afterAll is 1 for no HyperNode, which comes after all others.
func afterAll(hyperNode string) int {
	if hyperNode == "" {
		return 1
	}
	return 0
}

func nodeOf(n fleetmap.Node, h *v1alpha1.NodeHealth) Node {
	out := Node{Node: n}
	if h == nil {
		return out
	}
	if v := h.Status.Verdict; v != nil {
		out.State, out.Since, out.QuarantinedTime, out.Lemon, out.HeldBackBy = v.State, &v.Since, v.QuarantinedTime, v.Lemon, v.HeldBackBy
		out.QuarantineEndTime = v.QuarantineEndTime
	}
	out.Reports = slices.SortedStableFunc(slices.Values(h.Status.Reports), func(a, b v1alpha1.HealthReport) int {
		return cmp.Or(cmp.Compare(severity(a.State), severity(b.State)), a.Since.Compare(b.Since.Time))
	})
	for _, s := range h.Status.Sources {
		if s.State == v1alpha1.HealthUnknown {
			out.Silent = append(out.Silent, s)
		}
	}
	return out
}

// severity orders states, the worst first.
func severity(s v1alpha1.HealthState) int {
	return slices.Index([]v1alpha1.HealthState{v1alpha1.HealthStateFailed, v1alpha1.HealthStateDegraded}, s)
}
