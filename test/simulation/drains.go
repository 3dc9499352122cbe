// Drains: jobs that move their ranks from cordoned nodes.

package simulation

import (
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// drawMaintenance gives one of four jobs with rules of their own a rule for cordoned nodes.
func (t *tenant) drawMaintenance(rng *rand.Rand) {
	p := t.job.Spec.RestartPolicy
	if rng.IntN(4) > 0 || p == nil || len(p.Rules) == 0 {
		return
	}
	rule := v1alpha1.Rule{
		Name: "maintenance", Match: v1alpha1.Match{Events: []v1alpha1.EventType{v1alpha1.NodeCordoned}}, Charge: v1alpha1.ChargeAuto,
		Steps: []v1alpha1.Step{{Action: v1alpha1.MigratePod, AfterSeconds: int32(rng.IntN(3) * 20)}},
	}
	if rng.IntN(2) == 0 {
		rule.Steps = append(rule.Steps, v1alpha1.Step{Action: v1alpha1.RestartJob, AfterSeconds: 300})
	}
	p.Rules = append([]v1alpha1.Rule{rule}, p.Rules...)
}

// ails reports whether a pod works and is to move all the same: something that it uses is ill, or a rule moves it from its node, which is cordoned.
func (r *record) ails(p *gang.Pod) bool {
	if len(p.Signals) > 0 {
		return true
	}
	policy := policyOf(r.o.Job, p.Task)
	n := r.o.Nodes[p.Node]
	_, named := n.Leaving[p.UID]
	return n.Unschedulable && (n.Leaving == nil || named) && !p.Spare && slices.ContainsFunc(policy.rules, func(rule v1alpha1.Rule) bool {
		return slices.Contains(rule.Match.Events, v1alpha1.NodeCordoned)
	})
}

// quarantine has every other cordon be by a tool that says later, and pod by pod, which pods leave the node.
func (w *world) quarantine(n *node) {
	if w.drains.IntN(2) == 0 {
		n.Leaving = map[string]time.Time{}
	}
}

// drainInPart has some more pods leave nodes of which that is said.
func (w *world) drainInPart() {
	for _, p := range w.allPods() {
		n := w.nodes[p.Node]
		if n == nil || n.gone || n.Leaving == nil || w.drains.IntN(2) == 0 {
			continue
		}
		n.Leaving = maps.Clone(n.Leaving)
		n.Leaving[p.UID] = w.now.Truncate(time.Second)
		w.happened("pod is to leave its node, others stay")
		w.changed("pod %s is to leave node %s", p.Name, n.Name)
	}
}

// drainsOf is what is drawn about cordoned nodes.
func drainsOf(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 10)) }
