package simulation

import (
	"slices"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// checkLift is called before a gate is lifted. What a former leader does is judged by what it knew.
func (t *tenant) checkLift(p *pod, l policies.Lift) {
	s := t.acting.status
	t.require(Terminal, !isFinished(s), "pod %s of a finished job starts", p.Name)
	if t.leads() {
		t.require(Terminal, !isFinished(&t.job.Status), "pod %s of a finished job starts", p.Name)
		for _, q := range t.pods {
			t.require(OneLife, q == p || q.rank() != p.rank() || q.Gated || q.finished(), "pod %s starts while %s may run", p.Name, q.Name)
		}
	}
	for _, e := range s.ExcludedNodes {
		// The hostname of a node that was not there when the gate was lifted is not known.
		n, seen := t.acting.cache.Nodes[e.Name]
		t.require(Home, !seen || !admits(l.Target, n.Hostname), "pod %s may go to the excluded node %s", p.Name, e.Name)
	}
	for _, left := range s.LeftHyperNodes {
		t.requireNone(p, l, left.Name, true, "pod %s may go to %s, which is in %s, a home that was left")
	}
	if home := homeOf(t.job, s, p.rank()); home != "" {
		t.requireNone(p, l, home, false, "pod %s may go to %s, which is not in home %s")
	}
}

// requireNone checks that a target admits no node of a HyperNode, or none outside of it.
func (t *tenant) requireNone(p *pod, l policies.Lift, hyperNode string, inside bool, format string) {
	h, known := t.acting.cache.Topology.Find(hyperNode)
	if !known {
		return
	}
	for _, name := range t.names {
		n, seen := t.acting.cache.Nodes[name]
		if seen && slices.Contains(h.Nodes, name) == inside {
			t.require(Home, !admits(l.Target, n.Hostname), format, p.Name, name, hyperNode)
		}
	}
}

// checkExclusions checks that the job keeps away from nodes and homes for a reason, and for as long as was
// said, unless ranks find no place: one for each at most.
func (r *record) checkExclusions() {
	stuck := 0
	for i := range r.o.Pods {
		if p := &r.o.Pods[i]; p.Node == "" && !p.Deleting && (p.Gated || p.Unschedulable) {
			stuck++
		}
	}
	waits := stuck > 0 || slices.ContainsFunc(openOnes(r.old), func(inc *v1alpha1.Incident) bool { return inc.Trigger == v1alpha1.PodPending })
	lifted := 0
	for _, e := range r.old.ExcludedNodes {
		switch {
		case isExcluded(r.s, e.Name) || !e.Until.After(r.o.Now):
		case r.isBack(e):
			r.happened("excluded node is back after " + string(e.Cause))
		case ofSilence(e) && r.o.Nodes[e.Name].Ready && waits:
			r.happened("silence of a node is forgiven")
		default:
			if r.helps(e.Name) {
				lifted++
			}
			r.happened("exclusion is lifted early")
		}
	}
	lifted += r.leftAllowedEarly()
	r.require(Home, lifted <= stuck, "%d exclusions are lifted before their time for %d pods", lifted, stuck)
	r.checkNewExclusions()
}

// helps reports whether any rank may go to a node that is not excluded any more. Those that are in the way of the partition of a
// rank are lifted before the one that helps it.
func (r *record) helps(node string) bool {
	n := r.nodes[node]
	partitioned := slices.ContainsFunc(r.o.Job.Spec.Tasks, func(t v1alpha1.Task) bool { return t.Partition != nil })
	return !partitioned && n != nil && n.good() && r.free(n) >= r.request && !n.heldByOthers(r.name)
}

// leftAllowedEarly counts the homes that the job may go back to before the time that was said.
func (r *record) leftAllowedEarly() int {
	n := 0
	for _, l := range r.old.LeftHyperNodes {
		if !slices.ContainsFunc(r.s.LeftHyperNodes, func(n v1alpha1.LeftHyperNode) bool { return n.Name == l.Name }) && l.Until.After(r.o.Now) {
			n++
			r.happened("left home is allowed early")
		}
	}
	return n
}

// checkNewExclusions checks that nodes are excluded for a reason, and not beyond it.
func (r *record) checkNewExclusions() {
	if len(r.s.LeftHyperNodes) > len(r.old.LeftHyperNodes) {
		r.happened("home is left")
	}
	for _, e := range r.s.ExcludedNodes {
		live := isTrue(r.s, v1alpha1.ConditionRunning) || isTrue(r.s, v1alpha1.ConditionRecovering)
		r.require(Home, !live || !r.isBack(e), "node %s was silent and has joined again, or was cordoned and takes pods again, and stays excluded", e.Name)
		if !isExcluded(r.old, e.Name) {
			r.happened("node is excluded")
			r.require(Evidence, r.atFault(e), "node %s is excluded and nothing shows that it is ill", e.Name)
		}
	}
}

// ofSilence reports whether no more is known of an excluded node than that it was not heard of.
func ofSilence(e v1alpha1.ExcludedNode) bool {
	return e.Cause == v1alpha1.NodeGone || e.Cause == v1alpha1.NodeNotReady
}

// isBack reports whether what a node was excluded for is over, and it is well: the Node object of one that was silent is another one by now, one that was cordoned takes pods again.
func (r *record) isBack(e v1alpha1.ExcludedNode) bool {
	n, exists := r.o.Nodes[e.Name]
	joined := ofSilence(e) && n.UID != e.NodeUID
	uncordoned := e.Cause == v1alpha1.NodeCordoned && !n.Unschedulable
	return exists && (joined || uncordoned) && n.Ready && !n.Ill
}

// atFault reports whether something was seen to be wrong with a node, or an incident moves a pod away from it.
func (r *record) atFault(e v1alpha1.ExcludedNode) bool {
	n, exists := r.o.Nodes[e.Name]
	inc := incidentOf(r.s, e.Incident)
	moves := slices.ContainsFunc(ruleOf(r.o.Job, &inc).Steps, func(step v1alpha1.Step) bool { return step.Action == v1alpha1.MigratePod })
	return !exists || !n.Ready || (inc.Class == v1alpha1.ClassInfrastructure && inc.Cause.Node == e.Name) || moves || inc.RequestedAction == v1alpha1.MigratePod ||
		slices.ContainsFunc(r.o.Pods, func(p gang.Pod) bool {
			return p.Node == e.Name && (len(p.Signals) > 0 || p.Disrupted != "" || slices.Contains(refusalReasons, p.Failure.Reason) || r.failsToStart(&p) || r.isLate(&p))
		})
}
