// Incidents: failures that belong together, from the first signal until everything runs again.

package policies

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

const (
	// maxIncidentPods is how many pods an incident names. One that hit more concerns the whole job.
	maxIncidentPods = 32
	// maxClosedIncidents is how many incidents are remembered after they are over.
	maxClosedIncidents = 10
)

// noteFailures brings every failure into an incident: one that already covers the
// rank, one in whose wake it came, or a new one.
func (w *world) noteFailures(s *v1alpha1.TrainingJobStatus) {
	found := w.failures(s)
	ended := w.endRelapsed(s, found)
	victims := w.victims(s)
	for _, f := range found {
		policy := w.policy(f.Rank.Task)
		rule, ok := rules.Match(policy.Rules, f)
		if !ok {
			continue
		}
		inc, cause := w.coveringOf(s, f, rule), w.wakeOf(s, f, rule, policy)
		if inc != nil && (cause == nil || !awaitsMove(inc)) {
			w.follow(inc, rule, policy)
			w.upgradeTrigger(inc, f, rule, policy)
			w.explain(s, inc, f)
			w.takenAway(s, inc, f)
			continue
		}
		if cause != nil {
			victims.note(cause, f, rule, policy)
			continue
		}
		if inc := w.joinable(s, f, rule, policy); inc != nil {
			w.joinTo(s, inc, f, rule, policy)
			continue
		}
		if !f.InPlace() || !w.OthersStart(s, f.Rank) {
			w.openFor(s, f)
		}
	}
	victims.count()
	w.inherit(s, ended)
}

// awaitsMove reports whether an incident is about a rank that trains on a degraded device until it is moved. Such a rank falls
// in another's wake like any other.
func awaitsMove(inc *v1alpha1.Incident) bool {
	return inc.Trigger == v1alpha1.HealthDegraded && !restarted(inc)
}

// openFor opens an incident for a failure, or for the one that it followed from.
func (w *world) openFor(s *v1alpha1.TrainingJobStatus, f rules.Failure) {
	first := w.firstExit(s, f)
	policy := w.policy(first.Rank.Task)
	rule, ok := rules.Match(policy.Rules, first)
	if !ok || rules.Ignores(rule) {
		first, policy = f, w.policy(f.Rank.Task)
		rule, _ = rules.Match(policy.Rules, f)
	}
	inc := w.open(s, first.Event, first.Class)
	inc.Rule, inc.PolicyTask, inc.Cause = rule.Name, policy.Of, causeOf(first)
	join(inc, first)
	w.apply(s, inc, first)
	if first.Rank != f.Rank {
		addVictim(inc, f)
	}
}

// joinTo makes a failure part of an incident, and its cause where it explains it.
func (w *world) joinTo(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, f rules.Failure, rule v1alpha1.Rule, policy *rules.Policy) {
	if w.explains(inc, f) && !restarted(inc) {
		w.blame(s, inc, f, rule, policy)
	} else {
		join(inc, f)
		w.explain(s, inc, f)
	}
	w.apply(s, inc, f)
}

// coveringOf is the open incident that a failure is part of already. A rank that finds
// no room, or does not start, is part of the incident that restarted it, unless a rule is for just that.
func (w *world) coveringOf(s *v1alpha1.TrainingJobStatus, f rules.Failure, rule v1alpha1.Rule) *v1alpha1.Incident {
	if rules.OfWaiting(f.Event) && slices.Contains(rule.Match.Events, f.Event) {
		return w.waitingFor(s, f.Rank, f.Event)
	}
	inc := w.covering(s, f.Rank)
	if inc != nil && !rules.OfHealth(f.Event) && w.waitsForBreaker(s, inc) {
		return nil // what fails by itself is not held back
	}
	return inc
}

// follow gives an incident whose rule is not there any more, because the policy was
// changed meanwhile, the rule that its failure falls under now.
func (w *world) follow(inc *v1alpha1.Incident, rule v1alpha1.Rule, policy *rules.Policy) {
	if len(w.ruleOf(inc).Steps) == 0 {
		inc.Rule, inc.PolicyTask = rule.Name, policy.Of
	}
}

// explain gives an incident that looked like the program's fault its true cause: when a
// node dies, the ranks elsewhere abort first, and the node is missed only later.
func (w *world) explain(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, f rules.Failure) {
	if !w.explains(inc, f) {
		return
	}
	inc.Trigger, inc.Class, inc.Cause = f.Event, f.Class, causeOf(f)
	w.refund(s, inc)
	if f.Event == v1alpha1.HealthFailed && restarted(inc) && !w.dryRun {
		w.moveOn(s, inc, f)
	}
}

// moveOn takes a rank off what has failed, to which its incident had brought it back.
func (w *world) moveOn(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, f rules.Failure) {
	w.exclude(s, inc)
	w.restartBeside(s, inc, f.Rank)
}

// explains reports whether a failure is the cause of an incident that looked like the program's fault: a node failed soon after
// it began, or a pod for no fault of its program, or a GPU under one of its ranks. A program crashes at once where its GPU does,
// and that is known one poll later.
func (w *world) explains(inc *v1alpha1.Incident, f rules.Failure) bool {
	p := w.Pod(f.Rank)
	exited := p != nil && p.LastExit != nil && inc.StartTime.Sub(p.LastExit.Time) <= gang.Wake
	under := f.Event == v1alpha1.HealthFailed && (exited || slices.ContainsFunc(inc.Pods, func(p v1alpha1.IncidentPod) bool {
		return p.Task == f.Rank.Task && p.Index == f.Rank.Index && p.Node == f.Node
	}))
	lost := f.Event == v1alpha1.PodFailed && f.Class == v1alpha1.ClassInfrastructure && !restarted(inc) // else it may be a replacement
	return (rules.OfNode(f.Event) || under || lost) && inc.Class == v1alpha1.ClassUser && w.Now.Sub(inc.StartTime.Time) <= gang.NodeWake
}

// apply does to a rank that just joined an incident what was already done to the
// others, and gives a rank whose pod is gone its next life at once: there is nothing
// left that could come back by itself.
func (w *world) apply(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, f rules.Failure) {
	switch {
	case restarted(inc) && !w.dryRun:
		w.exclude(s, inc)
		w.restart(s, f.Rank, v1alpha1.RestartJoinedIncident)
	case f.UID == "":
		w.restart(s, f.Rank, v1alpha1.RestartPodGone)
	}
}

// takenAway gives a rank its next life where its pod is gone before a step has
// asked for that: the pod that waits behind its gate is another one.
func (w *world) takenAway(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, f rules.Failure) {
	if restarted(inc) || f.UID != "" {
		return
	}
	for i := range inc.Pods {
		if p := &inc.Pods[i]; p.Task == f.Rank.Task && p.Index == f.Rank.Index && p.UID != "" {
			p.UID = ""
			w.restart(s, f.Rank, v1alpha1.RestartPodGone)
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

// join makes a failure part of an incident. One for which its program is not at fault, such as the second of two nodes, is no
// victim: a pod on a silent node is seen not ready just before the node is.
func join(inc *v1alpha1.Incident, f rules.Failure) {
	if !f.ByProgram() {
		removeVictim(inc, f.Pod)
	}
	pod := v1alpha1.IncidentPod{Name: f.Pod, UID: f.UID, Task: f.Rank.Task, Index: f.Rank.Index, Node: f.Node}
	if i := slices.IndexFunc(inc.Pods, func(p v1alpha1.IncidentPod) bool { return p.Name == f.Pod }); i >= 0 {
		inc.Pods[i] = pod
		return
	}
	inc.PodCount++
	if len(inc.Pods) < maxIncidentPods {
		inc.Pods = append(inc.Pods, pod)
	}
}

// removeVictim takes back that a pod failed only in the wake of others.
func removeVictim(inc *v1alpha1.Incident, pod string) {
	if i := slices.Index(inc.Victims, pod); i >= 0 {
		inc.Victims = slices.Delete(inc.Victims, i, i+1)
		inc.VictimCount--
	}
}

// upgradeTrigger selects the rule of an incident again when a stronger event arrives for it, as long as no step has restarted
// anything; when any event arrives that is not ignored, where the first one is; and when the rest of the gang is found down
// while a node is silent.
func (w *world) upgradeTrigger(inc *v1alpha1.Incident, f rules.Failure, rule v1alpha1.Rule, policy *rules.Policy) {
	another := f.UID != "" && f.Event != inc.Trigger && !rules.OfJob(inc.Trigger) && rules.Ignores(w.ruleOf(inc)) && !rules.Ignores(rule)
	down := f.GangDown && rules.OfNode(f.Event) && f.Event == inc.Trigger && f.Pod == inc.Cause.Pod && rule.Name != inc.Rule
	if restarted(inc) || (rules.Strength(f.Event) <= rules.Strength(inc.Trigger) && !another && !down) || onlyFollows(inc, f) {
		return
	}
	inc.Trigger, inc.Class, inc.Rule, inc.PolicyTask, inc.Cause = f.Event, f.Class, rule.Name, policy.Of, causeOf(f)
}

// onlyFollows reports whether a program has ended because of what an incident is about: a node, or a pod that does not start.
func onlyFollows(inc *v1alpha1.Incident, f rules.Failure) bool {
	return f.ByProgram() && f.Pod != inc.Cause.Pod && (rules.OfNode(inc.Trigger) || inc.Trigger == v1alpha1.PodNotStarted)
}

// joinable returns the open incident that a new failure belongs to: under the same rule,
// and begun recently enough for it to be its wake; or one that it explains.
func (w *world) joinable(s *v1alpha1.TrainingJobStatus, f rules.Failure, rule v1alpha1.Rule, policy *rules.Policy) *v1alpha1.Incident {
	for i := range s.Incidents {
		inc := &s.Incidents[i]
		waiting := (rules.OfWaiting(inc.Trigger) || rules.OfWaiting(f.Event)) && inc.Trigger != f.Event
		unrelated := inc.Trigger == v1alpha1.HealthDegraded && f.ByProgram() // what is degraded ends no program
		if inc.Outcome != "" || waiting || unrelated || w.apart(s, inc, f) {
			continue
		}
		limit := gang.Wake
		if rules.OfNode(f.Event) && rules.OfNode(inc.Trigger) {
			limit = gang.NodeWake
		}
		same := inc.Rule == rule.Name && w.policyFor(inc).RulesOf == policy.RulesOf
		if (same && w.Now.Sub(inc.StartTime.Time) <= limit) || w.explains(inc, f) {
			return inc
		}
	}
	return nil
}
