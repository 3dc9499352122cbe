package simulation

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// checkWorld is called after every move.
func (w *world) checkWorld() {
	for _, t := range w.tenants {
		t.checkOneLife()
		t.ledger.owed = slices.DeleteFunc(t.ledger.owed, t.isSettled)
	}
	w.checkFit()
	w.checkMutualHolds()
}

// checkFit checks that the requests of bound, unfinished pods fit each node.
func (w *world) checkFit() {
	for _, name := range w.names {
		if n := w.nodes[name]; w.used(n) > gpus {
			w.require(Fit, false, "the pods on node %s request %d of %d GPUs", name, w.used(n), gpus)
		}
	}
}

// checkOneLife checks that no rank has two pods that may run.
func (t *tenant) checkOneLife() {
	for i, p := range t.pods {
		if !t.lives(p) {
			continue
		}
		for _, q := range t.pods[i+1:] {
			if q.Index == p.Index && q.Task == p.Task && q.Spare == p.Spare && t.lives(q) {
				t.require(OneLife, false, "rank %v runs in %s and %s", p.rank(), p.Name, q.Name)
			}
		}
	}
}

// checkSettled is called when nothing moves any more: deciding again changes nothing.
func (t *tenant) checkSettled() {
	o := t.observe()
	d := policies.Decide(o)
	t.requireSame(&d.Status, "the status of a settled world changes")
	t.requireNoPlan(o, &d.Status, "there is a plan for a settled world")
	t.checkHolds()
	t.checkStopped()
}

// isSame reports whether two statuses say the same. Most are the same to the letter, which is found sooner.
func isSame(a, b *v1alpha1.TrainingJobStatus) bool {
	return reflect.DeepEqual(a, b) || equality.Semantic.DeepEqual(a, b)
}

func (t *tenant) requireSame(s *v1alpha1.TrainingJobStatus, what string) {
	if !isSame(&t.job.Status, s) {
		t.require(Quiet, false, "%s: %s", what, cmp.Diff(t.job.Status, *s, cmpopts.EquateEmpty()))
	}
}

func (t *tenant) requireNoPlan(o *gang.Observation, s *v1alpha1.TrainingJobStatus, what string) {
	plan := policies.PlanFor(o, s)
	if t.anyOtherWaits(plan.Bind) {
		plan.Bind = plan.Bind.Settled()
	}
	t.require(Quiet, plan.Empty(), "%s: %+v", what, plan)
}

// checkStopped checks that a settled world runs nothing of a job that is finished or suspended.
func (t *tenant) checkStopped() {
	if !t.job.Spec.Suspend && !isFinished(&t.job.Status) {
		return
	}
	for _, p := range t.pods {
		t.require(Terminal, !t.lives(p), "pod %s of a job that is %s still runs", p.Name, t.job.Status.State)
	}
}

// checkNext checks that in a settled world nothing is to be done sooner than the manager wants to look again.
func (t *tenant) checkNext(next, at time.Time) {
	if !next.IsZero() && !next.After(at) {
		return
	}
	now := t.now
	t.now = at
	o := t.observe()
	d := policies.Decide(o)
	what := fmt.Sprintf("the manager wants to look again at %q, and by %s there is something to do", next, at)
	t.requireSame(&d.Status, what)
	t.requireNoPlan(o, &d.Status, what)
	t.now = now
}

// checkSpares checks the spares of a job that is well: each holds a node, unless home has none left.
func (t *tenant) checkSpares() {
	s := &t.job.Status
	if isFinished(s) {
		return
	}
	want := len(ranksOf(t.job, s)) + sparesOf(t.job)
	t.require(Liveness, len(t.pods) == want, "a job that is well has %d pods, and should have %d: %s", len(t.pods), want, t)
	for _, p := range t.pods {
		if !p.Spare || p.Node != "" {
			continue
		}
		own := map[string]bool{} // a spare beside a rank would be lost with it
		for _, r := range ranksOf(t.job, s) {
			own[nodeOf(s, r)] = true
		}
		for _, name := range t.members[s.Placement.HyperNode] {
			n := t.nodes[name]
			other := !p.Gated && !admits(p.target, n.Hostname) // it was no node then
			taken := own[name] || !t.takes(n) || t.overShare(1) || isExcluded(s, name) || t.hasLeft(name)
			t.require(Liveness, other || taken, "spare %s has no node, and %s is free: %s", p.Name, name, t)
		}
	}
}
