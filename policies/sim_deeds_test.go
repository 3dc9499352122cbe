// The invariants of what the manager does: deletions and gates.

package policies

import (
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// checkDeletion is called before the manager deletes a pod.
func (c *cluster) checkDeletion(p *simPod, force bool) {
	s := c.acting.status
	if p.Spare {
		c.require(p.Deleting || stale(s, &p.Pod) || c.holdsNothing(p), "1: spare %s is deleted and holds node %s", p.Name, p.Node)
	} else {
		c.require(p.Deleting || stale(s, &p.Pod), "1: pod %s is in the scope of no step", p.Name)
	}
	if force {
		c.checkForce(p)
		return
	}
	c.checkHeldFor(p)
}

// checkHeldFor is about the node of a pod that is deleted to come back there.
func (c *cluster) checkHeldFor(p *simPod) {
	s := &c.job.Status
	if !c.leads() || p.Spare || p.finished() || p.Deleting || yielding(s) || !c.takesBack(p) {
		return
	}
	inc := view(c.observe(), s).covering(s, p.rank())
	if inc == nil {
		return
	}
	limit, always := seconds(defaultHoldSeconds), false
	if h := c.job.Spec.Hold; h != nil {
		limit, always = seconds(h.Seconds), h.Policy == v1alpha1.HoldAlways
	}
	until := lastRestart(inc).Add(limit).Truncate(time.Second)
	if !always && !until.After(c.now) {
		return
	}
	c.require(c.nodes[p.Node].Hold != "", "11: pod %s is deleted and its node %s is not held", p.Name, p.Node)
	if c.ledger.debts == nil {
		c.ledger.debts = map[string]debt{}
	}
	c.ledger.debts[p.Node] = debt{p.rank(), until}
}

// takesBack is true for a pod whose own node is good, and known to be so.
func (c *cluster) takesBack(p *simPod) bool {
	s := &c.job.Status
	if p.Node == "" || rankNode(s.Placement, p.rank()) != p.Node || excluded(s, p.Node) || !c.nodes[p.Node].schedulable() {
		return false
	}
	seen := c.acting.cache.Nodes[p.Node]
	return seen.Ready && !seen.Unschedulable && !seen.OutOfService && len(seen.Taints) == 0
}

// holdsNothing is true for a spare that has no good node, as far as the manager sees.
func (c *cluster) holdsNothing(p *simPod) bool {
	o := c.acting.cache
	i := slices.IndexFunc(o.Pods, func(q Pod) bool { return q.UID == p.UID })
	if i < 0 {
		return false
	}
	q := o.Pods[i]
	n, exists := o.Nodes[q.Node]
	return q.finished() || !exists || !n.Ready || n.Unschedulable || n.OutOfService || len(n.Taints) > 0 ||
		excluded(c.acting.status, q.Node) || len(q.Signals) > 0
}

// checkForce is called before a pod is removed without its node's word.
func (c *cluster) checkForce(p *simPod) {
	policies := policiesOf(c.acting.job)
	policy := policies[p.Task]
	if policy == nil {
		policy = policies[""]
	}
	seen, exists := c.acting.cache.Nodes[p.Node]
	proof := !exists || seen.OutOfService
	silent := !seen.Ready && !seen.SilentSince.IsZero() && !later(c.now, c.acting.cache.Now).Before(seen.SilentSince.Add(policy.unreachableAfter))
	c.require(proof || (silent && !policy.requireProof), "9: pod %s is removed by force, and node %s may be alive", p.Name, p.Node)
}

// checkVolcanoDeletion is called before the manager deletes a Volcano Job.
func (c *cluster) checkVolcanoDeletion(v *simVolcanoJob) {
	s := &c.job.Status
	suspended := c.job.Spec.Suspend || isTrue(s, v1alpha1.ConditionSuspended)
	c.require(v.attempt < s.Attempt || suspended || !c.leads(), "1: Volcano Job %s of the current attempt is deleted", v.name)
}

// checkLift is called before a gate is lifted. What a former leader does is judged by what it knew.
func (c *cluster) checkLift(p *simPod, l Lift) {
	s := c.acting.status
	c.require(!Finished(s), "8: pod %s of a finished job starts", p.Name)
	if c.leads() {
		c.require(!Finished(&c.job.Status), "8: pod %s of a finished job starts", p.Name)
		for _, q := range c.pods {
			c.require(q == p || q.rank() != p.rank() || q.Gated || q.finished(), "9: pod %s starts while %s may run", p.Name, q.Name)
		}
	}
	for _, e := range s.ExcludedNodes {
		// The hostname of a node that was not there when the gate was lifted is not known.
		n, seen := c.acting.cache.Nodes[e.Name]
		c.require(!seen || !l.Target.admits(n.Hostname), "2: pod %s may go to the excluded node %s", p.Name, e.Name)
	}
	for _, left := range s.LeftHyperNodes {
		c.requireNone(p, l, left.Name, true, "2: pod %s may go to %s, which is in %s, a home that was left")
	}
	if home := c.homeFor(s, p); home != "" {
		c.requireNone(p, l, home, false, "2: pod %s may go to %s, which is not in home %s")
	}
}

// homeFor is the home that a pod belongs in: its partition's, else the job's.
func (c *cluster) homeFor(s *v1alpha1.TrainingJobStatus, p *simPod) string {
	if s.Placement == nil {
		return ""
	}
	for i := range c.job.Spec.Tasks {
		t := &c.job.Spec.Tasks[i]
		if p.Spare || t.Name != p.Task || t.Partition == nil {
			continue
		}
		if homes := s.Placement.Tasks[i].Partitions; len(homes) > 0 && homes[p.Index/t.Partition.Size].HyperNode != "" {
			return homes[p.Index/t.Partition.Size].HyperNode
		}
	}
	return s.Placement.HyperNode
}

// requireNone is about the nodes of a HyperNode, or those outside of it, that a target must not admit.
func (c *cluster) requireNone(p *simPod, l Lift, hyperNode string, inside bool, format string) {
	h, known := c.acting.cache.Topology.Find(hyperNode)
	if !known {
		return
	}
	for _, name := range c.names {
		n, seen := c.acting.cache.Nodes[name]
		if seen && slices.Contains(h.Nodes, name) == inside {
			c.require(!l.Target.admits(n.Hostname), format, p.Name, name, hyperNode)
		}
	}
}
