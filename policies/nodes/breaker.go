// The breaker: of how many ill nodes at once the reports are believed. One sensor that errs,
// or one bad release of a driver, must not empty a cluster.

package nodes

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/topology"
)

const (
	scopeCluster   = "cluster"
	scopeHyperNode = "hypernode/"
	// maxHeldBackNames is how many of the nodes that it holds back a breaker names.
	maxHeldBackNames = 32
)

// admit lets the nodes that have fallen ill pass, up to the limits, those first that
// fell ill first, and returns which. The others are held back.
func (t *triage) admit() map[string]bool {
	b := &breaker{t, map[string]int{}, map[string]bool{}, map[string][]scope{}}
	var waiting []string
	for name, v := range t.verdicts {
		b.count(name, v, 1)
		if !t.waits(name) {
			continue
		}
		waiting = append(waiting, name)
		if b.heldBack(v) {
			b.open[v.HeldBackBy] = true
		}
	}
	for _, h := range t.Gone {
		if v := h.Status.Verdict; v != nil && !t.countsElsewhere(h.Name, v) {
			b.known[h.Name] = b.scopesIn(t.Topology.Around(h.Name))
			b.count(h.Name, v, 1)
		}
	}
	slices.SortFunc(waiting, func(x, y string) int {
		return cmp.Or(t.verdicts[x].Since.Compare(t.verdicts[y].Since.Time), cmp.Compare(x, y))
	})
	fresh := map[string]bool{}
	for _, name := range waiting {
		fresh[name] = b.pass(name, t.verdicts[name])
	}
	return fresh
}

// countsElsewhere reports whether what a node that is gone was admitted for counts for the name that its machine has now.
func (t *triage) countsElsewhere(gone string, was *v1alpha1.HealthVerdict) bool {
	for _, v := range t.verdicts {
		if v.FormerNode == gone && v.AdmittedTime.Equal(was.AdmittedTime) {
			return true
		}
	}
	return false
}

// waits reports whether a node is ill and has to pass the breaker. One that failed while
// there was no quarantine has to pass it again before it is taken.
func (t *triage) waits(name string) bool {
	v := t.verdicts[name]
	taken := t.policy.Quarantines && v.State == v1alpha1.HealthStateFailed && v.QuarantinedTime == nil
	return ill(v.State) && (v.AdmittedTime == nil || v.HeldBackTime != nil || t.worsened[name] || taken)
}

// pass lets a node through, or holds it back.
func (b *breaker) pass(name string, v *v1alpha1.HealthVerdict) bool {
	b.count(name, v, -1)
	by := b.blocks(name)
	if by == "" {
		v.AdmittedTime, v.HeldBackTime, v.HeldBackBy = new(b.policy.Stamp(b.Now)), nil, ""
	} else {
		b.open[by] = true
		b.hold(v, by)
	}
	b.count(name, v, 1)
	return by == ""
}

// heldBack reports whether a node is held back, and nobody has acknowledged that since.
func (b *breaker) heldBack(v *v1alpha1.HealthVerdict) bool {
	return v.HeldBackTime != nil && v.HeldBackTime.After(b.policy.Acknowledged)
}

func (b *breaker) hold(v *v1alpha1.HealthVerdict, by string) {
	if !b.heldBack(v) {
		v.HeldBackTime, v.HeldBackBy = new(b.policy.Stamp(b.Now)), by
	}
}

// count adds a node to all the scopes in which it was admitted of late, whatever has become
// of it since, or takes it away.
func (b *breaker) count(node string, v *v1alpha1.HealthVerdict, n int) {
	if v.AdmittedTime == nil || !v.AdmittedTime.After(b.policy.Acknowledged) {
		return
	}
	ago := b.Now.Sub(v.AdmittedTime.Time)
	if ago >= max(b.policy.Cluster.Window, b.policy.HyperNode.Window) {
		return
	}
	for _, s := range b.scopes(node) {
		if ago < s.limit.Window {
			b.counts[s.name] += n
		}
	}
}

// blocks is the first scope that does not let one more node pass; empty where all do.
func (b *breaker) blocks(node string) string {
	for _, s := range b.scopes(node) {
		if b.open[s.name] || !s.limit.Allows(b.counts[s.name]+1, s.size) {
			return s.name
		}
	}
	return ""
}

// scopes are those that a node is in: the cluster, and the HyperNodes that hold it.
func (b *breaker) scopes(node string) []scope {
	if known, ok := b.known[node]; ok {
		return known
	}
	b.known[node] = b.scopesIn(b.Topology.Containing(node))
	return b.known[node]
}

func (b *breaker) scopesIn(around []topology.HyperNode) []scope {
	out := []scope{{scopeCluster, b.Nodes, b.policy.Cluster}}
	for _, h := range around {
		out = append(out, scope{scopeHyperNode + h.Name, len(h.Nodes), b.policy.HyperNode})
	}
	return out
}

// openBreakers tells of the breakers that hold nodes back.
func (t *triage) openBreakers() []v1alpha1.OpenBreaker {
	found := map[string]*v1alpha1.OpenBreaker{}
	for _, name := range slices.Sorted(maps.Keys(t.verdicts)) {
		v := t.verdicts[name]
		if v.HeldBackTime == nil {
			continue
		}
		o := found[v.HeldBackBy]
		if o == nil {
			o = &v1alpha1.OpenBreaker{Scope: v.HeldBackBy, OpenTime: *v.HeldBackTime}
			t.tellLimit(o)
			found[v.HeldBackBy] = o
		}
		if v.HeldBackTime.Before(&o.OpenTime) {
			o.OpenTime = *v.HeldBackTime
		}
		o.HeldBack++
		if len(o.Nodes) < maxHeldBackNames {
			o.Nodes = append(o.Nodes, name)
		}
	}
	out := make([]v1alpha1.OpenBreaker, 0, len(found))
	for _, scope := range slices.Sorted(maps.Keys(found)) {
		out = append(out, *found[scope])
	}
	return out
}

// tellLimit sets the limit of a breaker. That of a HyperNode which is gone is not known.
func (t *triage) tellLimit(o *v1alpha1.OpenBreaker) {
	limit, size := t.policy.Cluster, t.Nodes
	if name, isHyperNode := strings.CutPrefix(o.Scope, scopeHyperNode); isHyperNode {
		h, known := t.Topology.Find(name)
		if !known {
			return
		}
		limit, size = t.policy.HyperNode, len(h.Nodes)
	}
	o.Allowed, o.WindowSeconds = int32(limit.Most(size)), int32(limit.Window/time.Second)
}
