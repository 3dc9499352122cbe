// What is told of the fleet's health: on the HealthPolicy, on each node, on each HyperNode.

package nodes

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/topology"
)

// maxNamed is how many of a kind a message names.
const maxNamed = 5

// status is how the fleet stands.
func (t *triage) status() v1alpha1.HealthPolicyStatus {
	s := v1alpha1.HealthPolicyStatus{Breakers: t.openBreakers()}
	for _, v := range t.verdicts {
		count(&s.HeldBack, v.HeldBackTime != nil)
		count(&s.Quarantined, v.QuarantinedTime != nil)
		count(&s.Lemons, v.Lemon && v.QuarantinedTime != nil)
		count(&s.Failed, v.State == v1alpha1.HealthStateFailed)
		count(&s.Degraded, v.State == v1alpha1.HealthStateDegraded)
		count(&s.Unknown, v.State == v1alpha1.HealthUnknown)
	}
	s.Conditions = slices.Clone(t.Policy.Status.Conditions)
	c := metav1.Condition{
		Type: v1alpha1.ConditionBreakerOpen, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonWithinLimits,
		Message: "no ill node is held back", ObservedGeneration: t.Policy.Generation, LastTransitionTime: metav1.NewTime(t.Now),
	}
	if len(s.Breakers) > 0 {
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, v1alpha1.ReasonLimitReached, tellBreakers(s.Breakers)
	}
	meta.SetStatusCondition(&s.Conditions, c)
	return s
}

func count(n *int32, yes bool) {
	if yes {
		*n++
	}
}

func tellBreakers(open []v1alpha1.OpenBreaker) string {
	told := make([]string, 0, len(open))
	for _, o := range open {
		told = append(told, DescribeBreaker(o))
	}
	return fmt.Sprintf("more nodes fell ill at once than may be acted upon: %s; where the reports are true, set spec.breaker.acknowledgedTime to go on",
		listed(told, len(told)))
}

// DescribeBreaker says which nodes a breaker holds back, and by what limit.
func DescribeBreaker(o v1alpha1.OpenBreaker) string {
	text := fmt.Sprintf("the breaker of %s holds back %d (%s)", DescribeScope(o.Scope), o.HeldBack, listed(o.Nodes, int(o.HeldBack)))
	if o.WindowSeconds > 0 {
		text += fmt.Sprintf(", since more than %d fell ill within %d s", o.Allowed, o.WindowSeconds)
	}
	return text
}

// DescribeScope names the scope of a breaker, such as "the cluster" or "HyperNode rack-3".
func DescribeScope(scope string) string {
	if name, isHyperNode := strings.CutPrefix(scope, scopeHyperNode); isHyperNode {
		return "HyperNode " + name
	}
	return "the " + scope
}

// listed are the first few of a number of names.
func listed(names []string, of int) string {
	if of <= maxNamed {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNamed], ", "), of-maxNamed)
}

// Condition is what a node is told of its health; its status is False while something is ill.
func Condition(h *v1alpha1.NodeHealth, v *v1alpha1.HealthVerdict) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionHealthy, Status: statusOf(v.State), Reason: string(v.State)}
	var parts []string
	for i := range h.Status.Reports {
		r := &h.Status.Reports[i]
		if r.State == v.State {
			parts = append(parts, r.Signal+" of "+r.Entity)
		}
	}
	c.Message = listed(parts, len(parts))
	switch v.State {
	case v1alpha1.HealthHealthy:
		c.Message = "nothing is reported"
	case v1alpha1.HealthUnknown:
		c.Message = "cannot be told: " + whyUnknown(h)
	}
	switch {
	case v.HeldBackTime != nil:
		c.Message += "; held back by the breaker of " + DescribeScope(v.HeldBackBy)
	case v.Lemon && v.QuarantinedTime != nil:
		c.Message += "; failed too often, and stays in quarantine until spec.acknowledgedTime of its NodeHealth is set"
	case v.QuarantineEndTime != nil:
		c.Message += "; in quarantine until " + v.QuarantineEndTime.UTC().Format(time.RFC3339) + ", if nothing fails until then"
	case v.QuarantinedTime != nil && v.State != v1alpha1.HealthStateFailed:
		c.Message += "; in quarantine until that has been so for long enough"
	}
	if v.FormerNode != "" && v.QuarantinedTime != nil {
		c.Message += "; its machine came into quarantine as node " + v.FormerNode
	}
	return c
}

func whyUnknown(h *v1alpha1.NodeHealth) string {
	var say []string
	var silent *v1alpha1.HealthSource // for longest: to name one that is not would change with each of its heartbeats
	for i := range h.Status.Sources {
		s := &h.Status.Sources[i]
		switch {
		case s.State != v1alpha1.HealthHealthy:
			say = append(say, s.Name+" says: "+s.Message)
		case s.HeartbeatTime != nil && (silent == nil || s.HeartbeatTime.Before(silent.HeartbeatTime)):
			silent = s
		}
	}
	switch {
	case len(say) > 0:
		return listed(say, len(say))
	case silent != nil:
		return fmt.Sprintf("%s was last heard of at %s", silent.Name, silent.HeartbeatTime.UTC().Format(time.RFC3339))
	}
	return "no source reports on the node"
}

func statusOf(s v1alpha1.HealthState) metav1.ConditionStatus {
	switch {
	case ill(s):
		return metav1.ConditionFalse
	case s == v1alpha1.HealthUnknown:
		return metav1.ConditionUnknown
	}
	return metav1.ConditionTrue
}

// HyperNodeConditions are what the HyperNodes are told of their nodes' health, by name:
// those of which some node has a verdict.
func HyperNodeConditions(hyperNodes *topology.Topology, verdicts map[string]*v1alpha1.HealthVerdict) map[string]metav1.Condition {
	out := map[string]metav1.Condition{}
	for _, h := range hyperNodes.All() {
		if c, ok := hyperNodeCondition(h, verdicts); ok {
			out[h.Name] = c
		}
	}
	return out
}

// hyperNodeCondition has the worst state of the nodes. What nobody can tell of some counts
// only where nothing is known to be ill.
func hyperNodeCondition(h topology.HyperNode, verdicts map[string]*v1alpha1.HealthVerdict) (metav1.Condition, bool) {
	state, by, known := v1alpha1.HealthHealthy, map[v1alpha1.HealthState][]string{}, false
	for _, node := range h.Nodes {
		v := verdicts[node]
		if v == nil {
			continue
		}
		known = true
		by[v.State] = append(by[v.State], node)
		if worse(v.State, state) {
			state = v.State
		}
	}
	c := metav1.Condition{Type: v1alpha1.ConditionHealthy, Status: statusOf(state), Reason: string(state)}
	var parts []string
	for _, s := range []v1alpha1.HealthState{v1alpha1.HealthStateFailed, v1alpha1.HealthStateDegraded, v1alpha1.HealthUnknown} {
		if nodes := by[s]; len(nodes) > 0 {
			parts = append(parts, fmt.Sprintf("%d of %d nodes %s: %s", len(nodes), len(h.Nodes), s, listed(nodes, len(nodes))))
		}
	}
	if c.Message = strings.Join(parts, "; "); c.Message == "" {
		c.Message = fmt.Sprintf("nothing is reported of %d nodes", len(h.Nodes))
	}
	return c, known
}
