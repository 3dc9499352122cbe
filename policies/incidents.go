// Incidents: failures that belong together, from the first signal until everything runs again.

package policies

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

const (
	// wake is how long after an incident began a further failure still belongs to it:
	// when one rank falls, the collective aborts and the others follow within seconds.
	wake = 10 * time.Second
	// maxIncidentPods is how many pods an incident names. One that hit more concerns the whole job.
	maxIncidentPods = 32
	// maxClosedIncidents is how many incidents are remembered after they are over.
	maxClosedIncidents = 10
	// maxCauseMessage is how much is kept of the end of a failure's message, in bytes.
	maxCauseMessage = 512
)

// noteFailures brings every failure into an incident: one that already covers the
// rank, one in whose wake it came, or a new one.
func (w *world) noteFailures(s *v1alpha1.TrainingJobStatus, policy restartPolicy) {
	for _, f := range w.failures(s) {
		rule, ok := ruleFor(policy.rules, f)
		if !ok {
			continue
		}
		inc := covering(s, f.rank)
		for inc != nil && fellAgain(inc, f, policy) {
			end(inc, w.Now, v1alpha1.OutcomeFailed)
			inc = covering(s, f.rank)
		}
		if inc != nil {
			follow(inc, rule, policy)
			strengthen(inc, f, rule)
			takenAway(s, inc, f)
			continue
		}
		if inc = joinable(s, w.Now, rule.Name); inc == nil {
			inc = open(s, w.Now, f.event, f.class)
			inc.Rule, inc.Cause = rule.Name, causeOf(f)
		}
		join(inc, f)
		w.apply(s, inc, f, policy)
	}
}

// follow gives an incident whose rule is not there any more, because the policy was
// changed meanwhile, the rule that its failure falls under now.
func follow(inc *v1alpha1.Incident, rule v1alpha1.Rule, policy restartPolicy) {
	if len(ruleNamed(policy.rules, inc.Rule).Steps) == 0 {
		inc.Rule = rule.Name
	}
}

// apply does to a rank that just joined an incident what was already done to the
// others, and gives a rank whose pod is gone its next life at once: there is nothing
// left that could come back by itself.
func (w *world) apply(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, f failure, policy restartPolicy) {
	if restarted(inc) {
		w.exclude(s, inc, policy)
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

func open(s *v1alpha1.TrainingJobStatus, now time.Time, trigger v1alpha1.EventType, class v1alpha1.FailureClass) *v1alpha1.Incident {
	var last int32
	for _, inc := range s.Incidents {
		last = max(last, inc.ID)
	}
	s.Incidents = append(s.Incidents, v1alpha1.Incident{
		ID: last + 1, Trigger: trigger, Class: class, StartTime: metav1.NewMicroTime(now),
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
// rule, as long as nothing has been restarted yet.
func strengthen(inc *v1alpha1.Incident, f failure, rule v1alpha1.Rule) {
	if restarted(inc) || strength(f.event) <= strength(inc.Trigger) {
		return
	}
	inc.Trigger, inc.Class, inc.Rule, inc.Cause = f.event, f.class, rule.Name, causeOf(f)
}

// closeRecovered ends the open incidents all of whose ranks are in place again.
func (w *world) closeRecovered(s *v1alpha1.TrainingJobStatus) {
	for i := range s.Incidents {
		inc := &s.Incidents[i]
		if inc.Outcome == "" && w.recovered(s, inc) {
			inc.PlacedTime = w.lastPlaced(inc)
			end(inc, w.Now, v1alpha1.OutcomeRecovered)
		}
	}
	forget(s)
}

// recovered is true where all that an incident concerns is in place again. Of the
// whole job that is every rank that had a place; replicas beyond minAvailable may
// still be waiting for their first.
func (w *world) recovered(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) bool {
	if !wholeJob(inc) && !wholeTasks(inc) {
		return w.everyRankOf(inc, func(r rank) bool { return w.inPlace(s, r) })
	}
	return s.Placement != nil && w.everyRankOf(inc, func(r rank) bool {
		return w.inPlace(s, r) || rankNode(s.Placement, r) == ""
	})
}

// lastPlaced is when the last replacement of an incident was placed; nil where none was needed.
func (w *world) lastPlaced(inc *v1alpha1.Incident) *metav1.MicroTime {
	var last time.Time
	w.everyRankOf(inc, func(r rank) bool {
		if p := w.current[r]; p != nil && p.PlacedTime.After(last) {
			last = p.PlacedTime
		}
		return true
	})
	if last.Before(inc.StartTime.Time) {
		return nil
	}
	t := metav1.NewMicroTime(last)
	return &t
}

// everyRankOf is true where f is for each rank that an incident concerns.
func (w *world) everyRankOf(inc *v1alpha1.Incident, f func(rank) bool) bool {
	all := true
	if wholeJob(inc) || wholeTasks(inc) {
		eachRank(w.Job, func(r rank) { all = all && (!concerns(inc, r) || f(r)) })
		return all
	}
	for _, p := range inc.Pods {
		all = all && f(rank{p.Task, p.Index})
	}
	return all
}

// wholeJob is true for an incident that concerns every rank.
func wholeJob(inc *v1alpha1.Incident) bool {
	return unnamed(inc) || slices.ContainsFunc(inc.Steps, func(f v1alpha1.FiredStep) bool {
		return f.Action == v1alpha1.RestartJob || f.Action == v1alpha1.RelocateJob
	})
}

// wholeTasks is true for an incident that concerns every rank of its pods' tasks.
func wholeTasks(inc *v1alpha1.Incident) bool {
	return slices.ContainsFunc(inc.Steps, func(f v1alpha1.FiredStep) bool { return f.Action == v1alpha1.RestartTask })
}

// concerns is true for a rank that an incident is about: one that fell, or that a step has restarted since.
func concerns(inc *v1alpha1.Incident, r rank) bool {
	return wholeJob(inc) || names(inc, r) || (wholeTasks(inc) &&
		slices.ContainsFunc(inc.Pods, func(p v1alpha1.IncidentPod) bool { return p.Task == r.task }))
}

// unnamed is true for an incident that does not name its pods, or not all of them.
func unnamed(inc *v1alpha1.Incident) bool {
	return len(inc.Pods) == 0 || int(inc.PodCount) > len(inc.Pods)
}

// fellAgain is true for a failure that an incident has no step left for, although it
// restarted the rank once: the ladder begins anew, as a new incident, and is charged anew.
func fellAgain(inc *v1alpha1.Incident, f failure, policy restartPolicy) bool {
	_, _, left := nextStep(inc, policy.rules)
	return !left && restarted(inc) && f.uid != "" && f.event != v1alpha1.PodNotReady
}

// endAll ends every open incident, because the job itself has come to an end or a pause.
func endAll(s *v1alpha1.TrainingJobStatus, now time.Time, outcome v1alpha1.Outcome) {
	for i := range s.Incidents {
		if s.Incidents[i].Outcome == "" {
			end(&s.Incidents[i], now, outcome)
		}
	}
	forget(s)
}

func end(inc *v1alpha1.Incident, now time.Time, outcome v1alpha1.Outcome) {
	t := metav1.NewMicroTime(now)
	inc.EndTime, inc.Outcome, inc.Message = &t, outcome, story(inc)
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

// covering returns the open incident that a rank is part of.
func covering(s *v1alpha1.TrainingJobStatus, r rank) *v1alpha1.Incident {
	for i := range s.Incidents {
		inc := &s.Incidents[i]
		if inc.Outcome == "" && concerns(inc, r) {
			return inc
		}
	}
	return nil
}

func names(inc *v1alpha1.Incident, r rank) bool {
	return slices.ContainsFunc(inc.Pods, func(p v1alpha1.IncidentPod) bool { return p.Task == r.task && p.Index == r.index })
}

// joinable returns the open incident under the same rule that began recently
// enough for a new failure to be its wake.
func joinable(s *v1alpha1.TrainingJobStatus, now time.Time, rule string) *v1alpha1.Incident {
	for i := range s.Incidents {
		inc := &s.Incidents[i]
		if inc.Outcome == "" && inc.Rule == rule && now.Sub(inc.StartTime.Time) <= wake {
			return inc
		}
	}
	return nil
}

// AnyOpen is true while an incident is open.
func AnyOpen(s *v1alpha1.TrainingJobStatus) bool {
	return slices.ContainsFunc(s.Incidents, func(inc v1alpha1.Incident) bool { return inc.Outcome == "" })
}

// restarted is true once a step of an incident has restarted something.
func restarted(inc *v1alpha1.Incident) bool {
	return slices.ContainsFunc(inc.Steps, func(f v1alpha1.FiredStep) bool { return f.Action != v1alpha1.Ignore })
}

func causeOf(f failure) v1alpha1.Cause {
	c := v1alpha1.Cause{Pod: f.pod, Node: f.node, Reason: f.details.Reason, Message: f.details.Message}
	if len(f.details.Containers) > 0 {
		first := f.details.Containers[0]
		c.Container, c.ExitCode = first.Name, &first.ExitCode
		c.Reason, c.Message = first.Reason, first.Message
	}
	if f.disrupted != "" {
		c.Reason = f.disrupted
	}
	if len(c.Message) > maxCauseMessage {
		c.Message = strings.ToValidUTF8(c.Message[len(c.Message)-maxCauseMessage:], "")
	}
	return c
}
