// The invariants of the design, by their numbers there, as the simulation checks them:
// of the world as it is, and of one in which nothing moves.

package policies

import (
	"fmt"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// ledger is what the checks remember of a history.
type ledger struct {
	calm      bool
	last      int32 // the highest incident
	fired     map[string]time.Time
	charges   []simCharge
	uncharged map[int32]bool  // incidents that restarted something and were not charged
	debts     map[string]debt // by node
	posts     []AnswerKey     // that any process has sent
	saved     map[AnswerKey]bool
	moves     []simMove
}

// simCharge is a charge to a budget.
type simCharge struct {
	budgetOf string
	incident int32
	at       time.Time
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
	for i, p := range c.pods {
		if !c.lives(p) {
			continue
		}
		for _, q := range c.pods[i+1:] {
			if q.Index == p.Index && q.Task == p.Task && q.Spare == p.Spare && c.lives(q) {
				c.require(false, "9: rank %v lives in %s and %s", p.rank(), p.Name, q.Name)
			}
		}
	}
	for node, d := range c.ledger.debts {
		if c.forgiven(node, d) {
			delete(c.ledger.debts, node)
		}
	}
}

// lives is true for a pod whose node would say if it did not.
func (c *cluster) lives(p *simPod) bool {
	n := c.nodes[p.Node]
	return n != nil && n.speaks() && !p.finished()
}

// checkFixpoint is called when nothing moves any more: deciding again changes nothing.
func (c *cluster) checkFixpoint() {
	o := c.observe()
	first, second := Decide(o), Decide(o)
	same := equality.Semantic.DeepEqual(first.Status, second.Status) && first.Next.Equal(second.Next)
	c.require(same, "10: two decisions on one world differ")
	c.requireSame(&first.Status, "10: the status of a settled world changes")
	plan := PlanFor(o, &first.Status)
	c.require(plan.Empty(), "10: there is a plan for a settled world: %+v", plan)
	c.checkHolds()
	c.checkStopped()
}

func (c *cluster) requireSame(s *v1alpha1.TrainingJobStatus, what string) {
	if !equality.Semantic.DeepEqual(c.job.Status, *s) {
		panic(broken(what + ": " + cmp.Diff(c.job.Status, *s, cmpopts.EquateEmpty())))
	}
}

func (c *cluster) checkHolds() {
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

// checkStopped is about what a settled world has left of a job that is finished or suspended.
func (c *cluster) checkStopped() {
	if !c.job.Spec.Suspend && !Finished(&c.job.Status) {
		return
	}
	for _, p := range c.pods {
		c.require(!c.lives(p), "8: pod %s of a job that is %s still runs", p.Name, c.job.Status.State)
	}
}

// checkNext is about the time until which a settled world is left alone: nothing is to be
// done sooner than the manager wants to look again.
func (c *cluster) checkNext(next, at time.Time) {
	if !next.IsZero() && !next.After(at) {
		return
	}
	now := c.now
	c.now = at
	o := c.observe()
	d := Decide(o)
	c.requireSame(&d.Status, fmt.Sprintf("10: the manager wants to look again at %q, and by %s there is something to do", next, at))
	plan := PlanFor(o, &d.Status)
	c.require(plan.Empty(), "10: the manager wants to look again at %q, and by %s there is a plan: %+v", next, at, plan)
	c.now = now
}

// forgiven is true for a debt that is over: the rank has a place again, or needs none here.
func (c *cluster) forgiven(node string, d debt) bool {
	s := &c.job.Status
	n := c.nodes[node]
	bound := slices.ContainsFunc(c.pods, func(p *simPod) bool {
		return p.rank() == d.rank && p.Node != "" && !p.Deleting && p.Attempt == s.Attempt && !stale(s, &p.Pod)
	})
	return bound || yielding(s) || !n.schedulable() || excluded(s, node) || Finished(s) || c.job.Spec.Suspend || rankNode(s.Placement, d.rank) != node || !d.until.After(c.now)
}

// checkGrab is called when another job takes a node.
func (c *cluster) checkGrab(n *simNode) {
	if d, owed := c.ledger.debts[n.Name]; owed {
		c.require(c.forgiven(n.Name, d), "11: node %s of rank %v is lost to another job", n.Name, d.rank)
	}
}
