// Orders: what the supervisors of a gang are told.

package policies

import (
	"slices"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// Order is what the supervisors of a gang are told. It says all, and what they were told before is void.
type Order struct {
	// Epoch of the gang. Programs of an earlier one are stopped.
	Epoch int64
	// Start reports whether nothing of an earlier epoch is left of any rank, so that programs start.
	Start bool
	// ResumeStep is the newest step that every rank can resume from; 0 where that is not known.
	ResumeStep int64
	// Reason is the trigger of the incident that raised the epoch; empty in the first one.
	Reason string
	// HyperNode is home.
	HyperNode string
	// Release reports whether no step starts a program again that has ended: its container ends with its code, and the kubelet does
	// what the pod's restartPolicy says.
	Release bool
	// Keep reports whether programs that run go on in the epoch.
	Keep bool
	// Stalled reports whether the gang makes no steps any more, and a rule acts on that, so that supervisors look closer.
	Stalled bool
	// Hosts are the addresses of ranks that spares have taken over, as lines of hosts(5), for programs that start.
	Hosts string
}

// order is what the supervisors of the job are told; nil where it has none.
func (j job) order(s *v1alpha1.TrainingJobStatus) *Order {
	if s.Epoch == 0 {
		return nil
	}
	o := &Order{Epoch: s.Epoch, Start: j.AtBarrier(s) && !j.anyReplacedRuns(s), Release: j.DryRun || j.abandoned(s), Keep: j.KeepsSurvivors(), Stalled: j.actsOnStall(s) && !j.DryRun}
	if o.Start && s.Epoch > 1 {
		o.ResumeStep = j.ResumeStep(s)
	}
	hosts, known := j.hosts(s)
	o.Start = o.Start && known
	if o.Start || o.Release { // in a container that the kubelet has restarted the program starts by either
		o.Hosts = hosts
	}
	if s.Placement != nil {
		o.HyperNode = s.Placement.HyperNode
	}
	for i := range s.Incidents {
		if inc := &s.Incidents[i]; inc.Epoch == s.Epoch {
			o.Reason = string(inc.Trigger)
			break
		}
	}
	return o
}

// anyReplacedRuns reports whether the program of a pod may run whose rank a spare has taken over. Of other ranks no pod comes before the last is gone.
func (j job) anyReplacedRuns(s *v1alpha1.TrainingJobStatus) bool {
	if j.KeepsSurvivors() {
		return false
	}
	return slices.ContainsFunc(j.Pods, func(p gang.Pod) bool {
		switch {
		case !j.TakesOver(p.Task) || (p.Attempt == s.Attempt && !gang.IsStale(s, &p)):
			return false
		case p.Process == nil: // one that is not heard any more may still be ending
			return p.Attempt == s.Attempt && p.Node != "" && !p.Finished() && !j.Dead(s, &p)
		}
		// One that waits may start by an order that is on its way, and of one that has failed processes may be left.
		leaves := (p.Process.State == gang.ProcessWaiting || p.Process.State == gang.ProcessFailed) && p.Process.Epoch < s.Epoch
		return leaves || p.Process.State == gang.ProcessRunning || p.Process.State == gang.ProcessStopping || p.Process.State == gang.ProcessTerminating
	})
}

// abandoned reports whether a program has ended with an error that no step repairs: no rule is for it, or one that does nothing, and no other
// incident is open. One that has ended while other ranks have yet to start is an incident once they have.
func (j job) abandoned(s *v1alpha1.TrainingJobStatus) bool {
	for i := range s.Incidents {
		if inc := &s.Incidents[i]; inc.Outcome == "" && !rules.Ignores(j.RuleOf(inc)) {
			return false
		}
	}
	found := false
	gang.EachRank(j.Effective, func(r gang.Rank) {
		p := j.Pod(r)
		if p == nil || gang.IsStale(s, p) || !j.ProcessFailed(p) {
			return
		}
		rule, ok := rules.Match(j.Policy(r.Task).Rules, j.FailureBy(s, p, v1alpha1.ProcessFailed, v1alpha1.ClassUser))
		found = found || !ok || rules.Ignores(rule)
	})
	return found
}
