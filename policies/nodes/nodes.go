// Package nodes decides about the cluster's nodes: from what is reported of the health of all of them to what is believed and
// done about each. It is pure, as package policies is.
package nodes

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/healthpolicy"
	"github.com/lockstep-dev/lockstep/policies/instant"
)

// maxFailureTimes is how many failures of a node are remembered: the API's limit.
const maxFailureTimes = 16

// Decision is what Decide found.
type Decision struct {
	// Verdicts that the nodes should have, by name.
	Verdicts map[string]*v1alpha1.HealthVerdict
	// Status that the HealthPolicy should have.
	Status v1alpha1.HealthPolicyStatus
	// Next is when to look again even if nothing changes; zero for never.
	Next time.Time
}

// Decide computes what is made of the reports on every node.
func Decide(f *Fleet) Decision {
	t := &triage{
		Fleet: f, policy: healthpolicy.Of(&f.Policy.Spec, f.Now), worsened: map[string]bool{}, former: QuarantinedMachines(f),
		verdicts: make(map[string]*v1alpha1.HealthVerdict, len(f.Healths)),
	}
	t.next = t.policy.Acknowledges
	for _, h := range f.Healths {
		t.verdicts[h.Name] = t.assess(h)
	}
	fresh := t.admit()
	for _, h := range f.Healths {
		t.quarantine(h, t.verdicts[h.Name], fresh[h.Name])
	}
	return Decision{Verdicts: t.verdicts, Status: t.status(), Next: t.next}
}

// assess says in what state a node is. One that falls ill, or from Degraded to Failed, has to
// pass the breaker again.
func (t *triage) assess(h *v1alpha1.NodeHealth) *v1alpha1.HealthVerdict {
	v := h.Status.Verdict.DeepCopy()
	if v == nil {
		v = &v1alpha1.HealthVerdict{}
	}
	t.identify(h, v)
	if state := t.stateOf(h, v); state != v.State {
		if ill(state) && worse(state, v.State) {
			t.worsened[h.Name] = true
		}
		v.State, v.Since = state, metav1.NewTime(t.Now)
	}
	if !ill(v.State) {
		v.HeldBackTime, v.HeldBackBy = nil, ""
	}
	return v
}

// stateOf is the worst that is reported of a node. Silence clears nothing.
func (t *triage) stateOf(h *v1alpha1.NodeHealth, v *v1alpha1.HealthVerdict) v1alpha1.HealthState {
	state := v1alpha1.HealthHealthy
	if !t.canTell(h) {
		state = v1alpha1.HealthUnknown
	}
	for i := range h.Status.Reports {
		if s := h.Status.Reports[i].State; worse(s, state) {
			state = s
		}
	}
	for _, r := range t.inherited(h, v) {
		if worse(r.State, state) {
			state = r.State
		}
	}
	return state
}

// canTell reports whether some source reports on a node, and none is Unknown or silent.
func (t *triage) canTell(h *v1alpha1.NodeHealth) bool {
	all := len(h.Status.Sources) > 0
	for i := range h.Status.Sources {
		s := &h.Status.Sources[i]
		silent := time.Time{}
		if s.HeartbeatTime != nil {
			silent = s.HeartbeatTime.Add(t.policy.SilentAfter)
		}
		switch {
		case s.State != v1alpha1.HealthHealthy, !silent.IsZero() && !silent.After(t.Now):
			all = false
		default:
			t.next = instant.Earliest(t.next, silent)
		}
	}
	return all
}

// quarantine says whether a node that may be acted upon is kept from all jobs. Fresh is true
// for one that was admitted just now.
func (t *triage) quarantine(h *v1alpha1.NodeHealth, v *v1alpha1.HealthVerdict, fresh bool) {
	t.noteFailure(h, v, fresh)
	v.QuarantineEndTime = nil
	failed := v.State == v1alpha1.HealthStateFailed
	switch {
	case !t.policy.Quarantines:
		v.QuarantinedTime, v.WellTime = nil, nil
	case Believed(v) && failed && v.QuarantinedTime == nil:
		v.QuarantinedTime, v.WellTime = new(metav1.NewTime(t.Now)), nil
	case v.QuarantinedTime == nil:
	case failed, !t.canTell(h):
		v.WellTime = nil
	default:
		t.release(h, v)
	}
}

// release ends the quarantine of a node that has been well for long enough.
func (t *triage) release(h *v1alpha1.NodeHealth, v *v1alpha1.HealthVerdict) {
	if v.WellTime == nil {
		v.WellTime = new(metav1.NewTime(t.Now))
	}
	if v.Lemon {
		return
	}
	at := v.WellTime.Add(t.policy.Well)
	if at.After(t.Now) {
		v.QuarantineEndTime = new(metav1.NewTime(at))
		t.next = instant.Earliest(t.next, at)
		return
	}
	v.QuarantinedTime, v.WellTime = nil, nil
	t.identify(h, v) // it may have been the quarantine of another machine
}

// noteFailure remembers when a node failed, for as long as the policy counts that, and whether it
// does so too often. Only an acknowledgement makes a lemon an ordinary node again, or an end of all quarantines.
func (t *triage) noteFailure(h *v1alpha1.NodeHealth, v *v1alpha1.HealthVerdict, fresh bool) {
	if !t.policy.Quarantines {
		v.FailureTimes, v.Lemon = nil, false
		return
	}
	seen := func(at metav1.Time) bool {
		return h.Spec.AcknowledgedTime != nil && !at.After(h.Spec.AcknowledgedTime.Time)
	}
	if slices.ContainsFunc(v.FailureTimes, seen) {
		v.FailureTimes = slices.DeleteFunc(v.FailureTimes, seen)
		v.Lemon = v.Lemon && len(v.FailureTimes) > 0
	}
	v.Lemon = v.Lemon && t.policy.LemonFailures > 0
	old := func(at metav1.Time) bool { return t.Now.Sub(at.Time) >= t.policy.LemonWindow }
	if !v.Lemon && slices.ContainsFunc(v.FailureTimes, old) {
		v.FailureTimes = slices.DeleteFunc(v.FailureTimes, old)
	}
	if fresh && v.State == v1alpha1.HealthStateFailed && !noted(v) {
		v.FailureTimes = append(v.FailureTimes, metav1.NewTime(t.Now))
		v.FailureTimes = v.FailureTimes[max(0, len(v.FailureTimes)-maxFailureTimes):]
		v.Lemon = v.Lemon || (t.policy.LemonFailures > 0 && len(v.FailureTimes) >= t.policy.LemonFailures)
	}
	if !v.Lemon && len(v.FailureTimes) > 0 {
		t.next = instant.Earliest(t.next, v.FailureTimes[0].Add(t.policy.LemonWindow))
	}
}

// noted reports whether the present failure of a node is remembered: it may have had to pass the
// breaker again because the quarantine was turned on.
func noted(v *v1alpha1.HealthVerdict) bool {
	return slices.ContainsFunc(v.FailureTimes, func(at metav1.Time) bool { return !at.Before(&v.Since) })
}
