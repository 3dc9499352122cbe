// Incidents: failures that belong together, from the first signal until everything runs again.

package policies

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

const (
	// wake is how long after an incident began a further failure still belongs to it:
	// when one rank falls, the collective aborts and the others follow within seconds.
	wake = 10 * time.Second
	// nodeWake is the same for failures of nodes: those of one rack are noticed one after
	// the other, up to a lease (40 s) and a look of the node controller (5 s) apart.
	nodeWake = time.Minute
	// maxIncidentPods is how many pods an incident names. One that hit more concerns the whole job.
	maxIncidentPods = 32
	// maxClosedIncidents is how many incidents are remembered after they are over.
	maxClosedIncidents = 10
)

// noteFailures brings every failure into an incident: one that already covers the
// rank, one in whose wake it came, or a new one.
func (w *world) noteFailures(s *v1alpha1.TrainingJobStatus) {
	found := w.failures(s)
	ended := w.endFallen(s, found)
	for _, f := range found {
		policy := w.policy(f.rank.task)
		rule, ok := ruleFor(policy.rules, f)
		if !ok {
			continue
		}
		if inc := w.coveringOf(s, f, rule); inc != nil {
			w.follow(inc, rule, policy)
			w.strengthen(inc, f, rule, policy)
			w.explain(s, inc, f)
			takenAway(s, inc, f)
			continue
		}
		inc := w.joinable(s, f, rule, policy)
		if inc == nil {
			inc = w.open(s, f.event, f.class)
			inc.Rule, inc.PolicyTask, inc.Cause = rule.Name, policy.of, causeOf(f)
		}
		join(inc, f)
		w.explain(s, inc, f)
		w.apply(s, inc, f)
	}
	w.inherit(s, ended)
}

// coveringOf is the open incident that a failure is part of already. A rank that finds
// no room is part of the incident that restarted it, unless a rule is for just that.
func (w *world) coveringOf(s *v1alpha1.TrainingJobStatus, f failure, rule v1alpha1.Rule) *v1alpha1.Incident {
	if f.event == v1alpha1.PodPending && slices.Contains(rule.Match.Events, v1alpha1.PodPending) {
		return w.waitingFor(s, f.rank)
	}
	inc := w.covering(s, f.rank)
	if inc != nil && !ofHealth(f.event) && w.held(s, inc) {
		return nil // what fails by itself is not held back
	}
	return inc
}

// follow gives an incident whose rule is not there any more, because the policy was
// changed meanwhile, the rule that its failure falls under now.
func (w *world) follow(inc *v1alpha1.Incident, rule v1alpha1.Rule, policy *restartPolicy) {
	if len(w.ruleOf(inc).Steps) == 0 {
		inc.Rule, inc.PolicyTask = rule.Name, policy.of
	}
}

// explain gives an incident that looked like the program's fault its true cause: when a
// node dies, the ranks elsewhere abort first, and the node is missed only later.
func (w *world) explain(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, f failure) {
	if !w.explains(inc, f) {
		return
	}
	inc.Trigger, inc.Class, inc.Cause = f.event, f.class, causeOf(f)
	w.refund(s, inc)
	if f.event == v1alpha1.HealthFailed && restarted(inc) && !w.dryRun {
		w.moveOn(s, inc, f)
	}
}

// moveOn takes a rank off what has failed, to which its incident had brought it back.
func (w *world) moveOn(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, f failure) {
	w.exclude(s, inc)
	w.record(inc, rung{v1alpha1.RestartPod, unruled, w.Now})
	restartRank(s, f.rank)
	s.Restarts.Pod++
	s.Restarts.Total++
}

// explains is true for what befell a node soon after an incident began, and for what failed
// under a rank of it: a program crashes at once where its GPU does, and a poll later that is known.
func (w *world) explains(inc *v1alpha1.Incident, f failure) bool {
	under := f.event == v1alpha1.HealthFailed && slices.ContainsFunc(inc.Pods, func(p v1alpha1.IncidentPod) bool {
		return p.Task == f.rank.task && p.Index == f.rank.index && p.Node == f.node
	})
	return (ofNode(f.event) || under) && inc.Class == v1alpha1.ClassUser && w.Now.Sub(inc.StartTime.Time) <= nodeWake
}

// apply does to a rank that just joined an incident what was already done to the
// others, and gives a rank whose pod is gone its next life at once: there is nothing
// left that could come back by itself.
func (w *world) apply(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, f failure) {
	if restarted(inc) && !w.dryRun {
		w.exclude(s, inc)
	} else if f.uid != "" {
		return
	}
	restartRank(s, f.rank)
}

// takenAway gives a rank its next life where its pod is gone before a step has
// asked for that: the pod that waits behind its gate is another one.
func takenAway(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, f failure) {
	if restarted(inc) || f.uid != "" {
		return
	}
	for i := range inc.Pods {
		if p := &inc.Pods[i]; p.Task == f.rank.task && p.Index == f.rank.index && p.UID != "" {
			p.UID = ""
			restartRank(s, f.rank)
		}
	}
}

func (w *world) open(s *v1alpha1.TrainingJobStatus, trigger v1alpha1.EventType, class v1alpha1.FailureClass) *v1alpha1.Incident {
	var last int32
	for _, inc := range s.Incidents {
		last = max(last, inc.ID)
	}
	s.Incidents = append(s.Incidents, v1alpha1.Incident{
		ID: last + 1, Trigger: trigger, Class: class, StartTime: metav1.NewMicroTime(w.Now),
	})
	return &s.Incidents[len(s.Incidents)-1]
}

func join(inc *v1alpha1.Incident, f failure) {
	inc.PodCount++
	if len(inc.Pods) < maxIncidentPods {
		inc.Pods = append(inc.Pods, v1alpha1.IncidentPod{
			Name: f.pod, UID: f.uid, Task: f.rank.task, Index: f.rank.index, Node: f.node,
		})
	}
}

// strengthen lets a failure that says more than the first signal did decide the
// rule, as long as nothing has been restarted yet; and any that is not ignored, where
// the first signal is.
func (w *world) strengthen(inc *v1alpha1.Incident, f failure, rule v1alpha1.Rule, policy *restartPolicy) {
	another := f.uid != "" && f.event != inc.Trigger && !ofJob(inc.Trigger) && ignores(w.ruleOf(inc)) && !ignores(rule)
	if restarted(inc) || (strength(f.event) <= strength(inc.Trigger) && !another) {
		return
	}
	inc.Trigger, inc.Class, inc.Rule, inc.PolicyTask, inc.Cause = f.event, f.class, rule.Name, policy.of, causeOf(f)
}

// joinable returns the open incident that a new failure belongs to: under the same rule,
// and begun recently enough for it to be its wake; or one that it explains.
func (w *world) joinable(s *v1alpha1.TrainingJobStatus, f failure, rule v1alpha1.Rule, policy *restartPolicy) *v1alpha1.Incident {
	for i := range s.Incidents {
		inc := &s.Incidents[i]
		if inc.Outcome != "" || (inc.Trigger == v1alpha1.PodPending) != (f.event == v1alpha1.PodPending) || w.apart(s, inc, f) {
			continue
		}
		limit := wake
		if ofNode(f.event) && ofNode(inc.Trigger) {
			limit = nodeWake
		}
		same := inc.Rule == rule.Name && w.policyFor(inc).rulesOf == policy.rulesOf
		if (same && w.Now.Sub(inc.StartTime.Time) <= limit) || w.explains(inc, f) {
			return inc
		}
	}
	return nil
}

// closeRecovered ends the open incidents all of whose ranks are in place again, and those that are held
// back until there is nothing left to move, and says whether there was one.
func (w *world) closeRecovered(s *v1alpha1.TrainingJobStatus) bool {
	ended := false
	for i := range s.Incidents {
		inc := &s.Incidents[i]
		switch {
		case inc.Outcome != "":
			continue
		case w.recovered(s, inc):
			inc.PlacedTime = w.lastPlaced(inc)
			w.end(inc, v1alpha1.OutcomeRecovered)
		case w.held(s, inc) && w.departed(inc):
			w.end(inc, v1alpha1.OutcomeCancelled)
		default:
			continue
		}
		ended = true
	}
	forget(s)
	return ended
}

// recovered is true where all that an incident concerns is in place again. Where it
// concerns more than the pods it names, that is every rank that had a place: replicas
// beyond minAvailable may still be waiting for their first.
func (w *world) recovered(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) bool {
	if inc.Trigger == v1alpha1.PodPending && !wide(inc) {
		return w.everyRankOf(inc, func(r rank) bool { return !w.waits(s, r) })
	}
	if ofJob(inc.Trigger) && !restarted(inc) && (byUser(inc) || w.volcano == nil || w.volcano.Ended) {
		return false // what it is about is still so
	}
	if !wide(inc) {
		return w.everyRankOf(inc, func(r rank) bool { return w.backFor(s, inc, r) })
	}
	return s.Placement != nil && w.everyRankOf(inc, func(r rank) bool {
		return w.backFor(s, inc, r) || (rankNode(s.Placement, r) == "" && w.partitionOf(r) < 0 && !names(inc, r))
	})
}

// waits is true for a rank whose pod has no node.
func (w *world) waits(s *v1alpha1.TrainingJobStatus, r rank) bool {
	p := w.pod(r)
	return p == nil || p.Gated || p.Node == "" || stale(s, p)
}

// lastPlaced is when the last replacement of an incident was placed; nil where none was needed.
func (w *world) lastPlaced(inc *v1alpha1.Incident) *metav1.MicroTime {
	var last time.Time
	w.everyRankOf(inc, func(r rank) bool {
		if p := w.pod(r); p != nil && p.PlacedTime.After(last) {
			last = p.PlacedTime
		}
		return true
	})
	if last.Before(inc.StartTime.Time) {
		return nil
	}
	return new(metav1.NewMicroTime(last))
}

// endAll ends every open incident, because the job itself has come to an end or a pause.
func (w *world) endAll(s *v1alpha1.TrainingJobStatus, outcome v1alpha1.Outcome) {
	for i := range s.Incidents {
		if s.Incidents[i].Outcome == "" {
			w.end(&s.Incidents[i], outcome)
		}
	}
	forget(s)
}

func (w *world) end(inc *v1alpha1.Incident, outcome v1alpha1.Outcome) {
	if asking(inc) {
		w.conclude(inc, v1alpha1.CheckpointCancelled, "")
	}
	inc.EndTime, inc.Outcome, inc.Message = new(metav1.NewMicroTime(w.Now)), outcome, story(inc)
}

// forget drops the oldest closed incidents.
func forget(s *v1alpha1.TrainingJobStatus) {
	closed := 0
	for _, inc := range s.Incidents {
		if inc.Outcome != "" {
			closed++
		}
	}
	s.Incidents = slices.DeleteFunc(s.Incidents, func(inc v1alpha1.Incident) bool {
		if inc.Outcome == "" || closed <= maxClosedIncidents {
			return false
		}
		closed--
		return true
	})
}
