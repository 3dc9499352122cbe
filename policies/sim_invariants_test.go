// The invariants of the design, by their numbers there, as the simulation checks them.

package policies

import (
	"fmt"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// ledger is what the checks remember of a history.
type ledger struct {
	calm    bool
	last    int32 // the highest incident
	fired   map[string]time.Time
	charges []time.Time
	debts   map[string]debt // by node
}

// debt is a node that a deleted pod is to find free when its rank comes back.
type debt struct {
	rank  rank
	until time.Time
}

func (c *cluster) require(ok bool, format string, args ...any) {
	if !ok {
		panic(broken(fmt.Sprintf(format, args...)))
	}
}

// checkWorld is called after every move.
func (c *cluster) checkWorld() {
	lives := map[rank]string{}
	for _, p := range c.pods {
		if n := c.nodes[p.Node]; n == nil || !n.answers() || p.finished() {
			continue
		}
		other, twice := lives[p.rank()]
		c.require(!twice, "9: rank %v lives in %s and %s", p.rank(), other, p.Name)
		lives[p.rank()] = p.Name
	}
	for node, d := range c.ledger.debts {
		if c.forgiven(node, d) {
			delete(c.ledger.debts, node)
		}
	}
}

// checkFixpoint is called when nothing moves any more: deciding again changes nothing.
func (c *cluster) checkFixpoint() {
	o := c.observe()
	first, second := Decide(o), Decide(o)
	same := equality.Semantic.DeepEqual(first.Status, second.Status) && first.Next.Equal(second.Next)
	c.require(same, "10: two decisions on one world differ")
	if !equality.Semantic.DeepEqual(c.job.Status, first.Status) {
		panic(broken("10: the status of a settled world changes: " + cmp.Diff(c.job.Status, first.Status, cmpopts.EquateEmpty())))
	}
	plan := PlanFor(o, &first.Status)
	c.require(plan.Empty(), "10: there is a plan for a settled world: %+v", plan)
	held := map[string]string{}
	for _, h := range c.job.Status.Holds {
		c.require(h.Until == nil || h.Until.After(c.now), "11: node %s is held until %s, and it is %s", h.Node, h.Until, c.now)
		held[h.Node] = HoldValue(h)
	}
	for _, name := range c.names {
		n := c.nodes[name]
		c.require(n.gone || n.Hold == held[name], "11: node %s has the hold %q and not %q", name, n.Hold, held[name])
	}
	c.require(len(held) == 0 || (!Finished(&c.job.Status) && !c.job.Spec.Suspend), "11: a job that needs nothing holds %v", held)
}

// checkRecord is called with every status before it is written.
func (c *cluster) checkRecord(o *Observation, s *v1alpha1.TrainingJobStatus) {
	old := &c.job.Status
	if Finished(old) {
		same := isTrue(old, v1alpha1.ConditionFailed) == isTrue(s, v1alpha1.ConditionFailed) && s.Attempt == old.Attempt && len(s.Incidents) == len(old.Incidents)
		c.require(Finished(s) && same, "8: a finished job goes on")
	}
	r := s.Restarts
	c.require(r.Total == r.Pod+r.Task+r.Job+r.Relocations, "restarts do not add up: %+v", r)
	c.require(s.Attempt >= old.Attempt, "the attempt goes back")
	last := c.ledger.last
	for i := range s.Incidents {
		c.checkIncident(o, old, &s.Incidents[i], last)
	}
	for range s.Restarts.Charged - old.Restarts.Charged {
		c.ledger.charges = append(c.ledger.charges, c.now)
	}
	policy := policiesOf(c.job)[""]
	spent := 0
	for _, at := range c.ledger.charges {
		if at.Truncate(time.Second).After(c.now.Add(-policy.window)) {
			spent++
		}
	}
	c.require(spent <= policy.maxRestarts, "5: %d charges within %s, of %d", spent, policy.window, policy.maxRestarts)
}

func (c *cluster) checkIncident(o *Observation, old *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, last int32) {
	names := map[string]bool{}
	for _, p := range inc.Pods {
		c.require(p.Name != "" && !names[p.Name], "the API server refuses incident %d: its pods are %+v", inc.ID, inc.Pods)
		names[p.Name] = true
	}
	i := slices.IndexFunc(old.Incidents, func(o v1alpha1.Incident) bool { return o.ID == inc.ID })
	was := v1alpha1.Incident{}
	if i >= 0 {
		was = old.Incidents[i]
	} else {
		c.require(inc.ID > last, "incident %d is used twice", inc.ID)
		c.ledger.last = max(c.ledger.last, inc.ID)
	}
	c.require(was.Outcome == "" || equality.Semantic.DeepEqual(was, *inc), "closed incident %d changes", inc.ID)
	c.require(len(inc.Steps) >= len(was.Steps), "3: steps of incident %d are forgotten", inc.ID)
	for _, step := range inc.Steps[len(was.Steps):] {
		c.checkStep(o, old, inc, step)
	}
	if inc.Charged && !was.Charged {
		rule := view(o, old).ruleOf(inc)
		c.require(rule.Charge == v1alpha1.ChargeAlways || (rule.Charge != v1alpha1.ChargeNever && inc.Class == v1alpha1.ClassUser),
			"5: incident %d of class %s is charged by rule %s", inc.ID, inc.Class, rule.Name)
	}
}

func (c *cluster) checkStep(o *Observation, old *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, step v1alpha1.FiredStep) {
	if step.Index >= 0 {
		key := fmt.Sprintf("incident %d, step %d", inc.ID, step.Index)
		at, twice := c.ledger.fired[key]
		c.require(!twice, "3: %s fired at %s and %s", key, at, step.Time)
		if c.ledger.fired == nil {
			c.ledger.fired = map[string]time.Time{}
		}
		c.ledger.fired[key] = step.Time.Time
	}
	if step.Action == v1alpha1.Ignore || step.Action == v1alpha1.FailJob || len(inc.Pods) == 0 {
		return
	}
	broken := false
	for _, p := range inc.Pods {
		broken = broken || !c.works(o, old, rank{p.Task, p.Index})
	}
	whole := wholeJob(inc)
	eachRank(o.Job, func(r rank) { broken = broken || (whole && !c.works(o, old, r)) })
	c.require(broken, "4: %s of incident %d fires after it has recovered", step.Action, inc.ID)
}

// works is true for a rank that was seen to be well.
func (c *cluster) works(o *Observation, s *v1alpha1.TrainingJobStatus, r rank) bool {
	return slices.ContainsFunc(o.Pods, func(p Pod) bool {
		return p.rank() == r && p.Attempt == s.Attempt && !p.Deleting && !p.Gated && p.Incarnation >= Incarnation(s, r.task, r.index) &&
			(p.Phase == corev1.PodSucceeded || (p.Ready && p.Phase == corev1.PodRunning && o.Nodes[p.Node].Ready))
	})
}

// checkDeletion is called before the manager deletes a pod.
func (c *cluster) checkDeletion(p *simPod, force bool) {
	s := &c.job.Status
	c.require(p.Deleting || c.inScope(s, p), "1: pod %s is in the scope of no step", p.Name)
	if force {
		c.checkForce(p)
		return
	}
	n, inc := c.nodes[p.Node], view(c.observe(), s).covering(s, p.rank())
	if n == nil || p.finished() || p.Deleting || inc == nil || yielding(s) || rankNode(s.Placement, p.rank()) != p.Node {
		return
	}
	if seen := c.manager.cache.Nodes[p.Node]; !seen.Ready {
		return // the manager has yet to hear that it is well again
	}
	until, always := c.heldUntil(inc)
	if excluded(s, p.Node) || !n.schedulable() || (!always && !until.After(c.now)) {
		return
	}
	c.require(n.Hold != "", "11: pod %s is deleted and its node %s is not held", p.Name, p.Node)
	if c.ledger.debts == nil {
		c.ledger.debts = map[string]debt{}
	}
	c.ledger.debts[p.Node] = debt{p.rank(), until}
}

// checkForce is called before a pod is removed without its node's word.
func (c *cluster) checkForce(p *simPod) {
	policy := policiesOf(c.job)[""]
	seen, exists := c.manager.cache.Nodes[p.Node]
	proof := !exists || seen.OutOfService
	silent := !seen.Ready && !c.now.Before(seen.SilentSince.Add(policy.unreachableAfter))
	c.require(proof || (silent && !policy.requireProof), "9: pod %s is removed by force, and node %s may be alive", p.Name, p.Node)
}

// heldUntil is how long a recovery may hold a node, and whether the hold stands beyond that.
func (c *cluster) heldUntil(inc *v1alpha1.Incident) (until time.Time, always bool) {
	limit := seconds(defaultHoldSeconds)
	if h := c.job.Spec.Hold; h != nil {
		limit, always = seconds(h.Seconds), h.Policy == v1alpha1.HoldAlways
	}
	return lastRestart(inc).Add(limit).Truncate(time.Second), always
}

// inScope is true for a pod that some incident's steps are about.
func (c *cluster) inScope(s *v1alpha1.TrainingJobStatus, p *simPod) bool {
	return slices.ContainsFunc(s.Incidents, func(inc v1alpha1.Incident) bool {
		for _, step := range inc.Steps {
			switch step.Action {
			case v1alpha1.RestartJob, v1alpha1.RelocateJob:
				return true
			case v1alpha1.RestartTask:
				if len(inc.Pods) == 0 || slices.ContainsFunc(inc.Pods, func(q v1alpha1.IncidentPod) bool { return q.Task == p.Task }) {
					return true
				}
			}
		}
		return slices.ContainsFunc(inc.Pods, func(q v1alpha1.IncidentPod) bool { return q.Task == p.Task && q.Index == p.Index })
	})
}

// forgiven is true for a debt that is over: the rank has a place again, or needs none here.
func (c *cluster) forgiven(node string, d debt) bool {
	s := &c.job.Status
	n := c.nodes[node]
	bound := slices.ContainsFunc(c.pods, func(p *simPod) bool {
		return p.rank() == d.rank && p.Node != "" && !p.Deleting && p.Attempt == s.Attempt && !stale(s, &p.Pod)
	})
	return bound || !n.schedulable() || excluded(s, node) || Finished(s) || c.job.Spec.Suspend || s.Placement == nil || !d.until.After(c.now)
}

// checkGrab is called when another job takes a node.
func (c *cluster) checkGrab(n *simNode) {
	if d, owed := c.ledger.debts[n.Name]; owed {
		c.require(c.forgiven(n.Name, d), "11: node %s of rank %v is lost to another job", n.Name, d.rank)
	}
}

// checkVolcanoDeletion is called before the manager deletes a Volcano Job.
func (c *cluster) checkVolcanoDeletion(v *simVolcanoJob) {
	s := &c.job.Status
	suspended := c.job.Spec.Suspend || isTrue(s, v1alpha1.ConditionSuspended)
	c.require(v.attempt < s.Attempt || suspended, "1: Volcano Job %s of the current attempt is deleted", v.name)
}

// checkLift is called before a gate is lifted.
func (c *cluster) checkLift(p *simPod, l Lift) {
	s := &c.job.Status
	c.require(!Finished(s), "8: pod %s of a finished job starts", p.Name)
	for _, q := range c.pods {
		c.require(q == p || q.rank() != p.rank() || q.Gated || q.finished(), "9: pod %s starts while %s may run", p.Name, q.Name)
	}
	for _, e := range s.ExcludedNodes {
		// The hostname of a node that was not there when the gate was lifted is not known.
		n, seen := c.manager.cache.Nodes[e.Name]
		c.require(!seen || !l.Target.admits(n.Hostname), "2: pod %s may go to the excluded node %s", p.Name, e.Name)
	}
	if s.Placement == nil {
		return
	}
	home, known := c.topology.Find(s.Placement.HyperNode)
	if !known {
		return
	}
	for _, name := range c.names {
		if n := c.nodes[name]; !n.gone && l.Target.admits(n.Hostname) {
			c.require(slices.Contains(home.Nodes, name), "2: pod %s may go to %s, which is not in home %s", p.Name, name, home.Name)
		}
	}
}
