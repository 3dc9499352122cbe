// Joining: which ranks an incident is about, as those that it brings back and as victims.

package recovery

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/incident"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// maxIncidentPods is how many pods an incident names, of those that it brings back and of its victims. Its sets of ranks have all.
const maxIncidentPods = 32

// join makes a failure part of an incident. One for which its program is not at fault, such as the second of two nodes, is no
// victim: a pod on a silent node is seen not ready just before the node is.
func join(inc *v1alpha1.Incident, f rules.Failure) {
	if !f.ByProgram() {
		removeVictim(inc, f)
	}
	of := ranksOf(inc, f.Rank.Task)
	include(&of.Failed, f.Rank.Index)
	if f.UID == "" {
		include(&of.PodGone, f.Rank.Index)
	} else {
		remove(&of.PodGone, f.Rank.Index)
	}
	inc.PodCount = 0
	for _, of := range inc.Ranks {
		inc.PodCount += int32(gang.ParseIndexes(of.Failed).Len())
	}
	pod := podOf(f)
	i := slices.IndexFunc(inc.Pods, func(p v1alpha1.IncidentPod) bool { return p.Task == pod.Task && p.Index == pod.Index })
	switch {
	case i >= 0:
		inc.Pods[i] = pod
	case len(inc.Pods) < maxIncidentPods:
		inc.Pods = append(inc.Pods, pod)
	}
}

func podOf(f rules.Failure) v1alpha1.IncidentPod {
	return v1alpha1.IncidentPod{Name: f.Pod, UID: f.UID, Task: f.Rank.Task, Index: f.Rank.Index, Node: f.Node}
}

// addVictim records a victim, by name while there is room.
func addVictim(inc *v1alpha1.Incident, f rules.Failure) {
	if incident.IsVictim(inc, f.Rank) {
		return
	}
	include(&ranksOf(inc, f.Rank.Task).Victims, f.Rank.Index)
	inc.VictimCount++
	if len(inc.Victims) < maxIncidentPods && !slices.Contains(inc.Victims, f.Pod) {
		inc.Victims = append(inc.Victims, f.Pod)
	}
}

// removeVictim takes back that a rank failed only in the wake of others.
func removeVictim(inc *v1alpha1.Incident, f rules.Failure) {
	if !incident.IsVictim(inc, f.Rank) {
		return
	}
	remove(&ranksOf(inc, f.Rank.Task).Victims, f.Rank.Index)
	inc.VictimCount--
	inc.Victims = slices.DeleteFunc(inc.Victims, func(name string) bool { return name == f.Pod })
}

// clearFailed takes back all ranks that failed in an incident. Its victims stay.
func clearFailed(inc *v1alpha1.Incident) {
	inc.Pods, inc.PodCount = nil, 0
	for i := range inc.Ranks {
		inc.Ranks[i].Failed, inc.Ranks[i].PodGone = "", ""
	}
}

// ranksOf is what an incident keeps of the ranks of a task. One of an earlier version of the manager begins with those that it names.
func ranksOf(inc *v1alpha1.Incident, task string) *v1alpha1.IncidentRanks {
	if len(inc.Ranks) == 0 && len(inc.Pods) > 0 {
		inc.Ranks = []v1alpha1.IncidentRanks{{Task: inc.Pods[0].Task}}
		for _, p := range inc.Pods {
			include(&ranksOf(inc, p.Task).Failed, p.Index)
		}
	}
	for i := range inc.Ranks {
		if inc.Ranks[i].Task == task {
			return &inc.Ranks[i]
		}
	}
	inc.Ranks = append(inc.Ranks, v1alpha1.IncidentRanks{Task: task})
	return &inc.Ranks[len(inc.Ranks)-1]
}

func include(set *string, index int32) { *set = gang.WithIndex(*set, index) }
func remove(set *string, index int32)  { *set = gang.WithoutIndex(*set, index) }

// restartLate restarts a rank that joins an incident after the others were restarted. A rank whose pod is gone it restarts at once: nothing is
// left of that which could come back by itself.
func (e Engine) restartLate(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, f rules.Failure) {
	switch {
	case incident.Restarted(inc) && !e.DryRun:
		e.excludeFaulty(s, inc, podOf(f))
		e.restart(s, f.Rank, v1alpha1.RestartJoinedIncident)
	case f.UID == "":
		e.restart(s, f.Rank, v1alpha1.RestartPodGone)
	}
}

// takenAway restarts a rank whose pod is gone before a step has asked for that: the pod that waits behind its gate is another
// one.
func (e Engine) takenAway(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, f rules.Failure) {
	if incident.Restarted(inc) || f.UID != "" || !incident.Names(inc, f.Rank) || incident.LostPod(inc, f.Rank) {
		return
	}
	join(inc, f)
	e.restart(s, f.Rank, v1alpha1.RestartPodGone)
}

// restartMissed restarts a rank that has failed for good in a pod which a step of its incident would have replaced, and did not: the rank
// joined during a dry run, or had not failed by then. So it does with a pod that has ended, in which no program can be started again.
func (e Engine) restartMissed(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, f rules.Failure) {
	p := e.Pod(f.Rank)
	missed := p != nil && slices.ContainsFunc(inc.Steps, func(step v1alpha1.FiredStep) bool {
		return !step.DryRun && step.Time.After(p.PlacedTime) && concernsPod(step.Action, p)
	})
	runs := (rules.OfHealth(f.Event) || rules.TrainsOn(f.Event)) && e.Nodes[f.Node].Ready
	ill := runs && (rules.TrainsOn(f.Event) || e.HealthPolicy != nil) // it trains on, or its moves are counted
	if missed && f.UID != "" && !f.InPlace() && !rules.OfWaiting(f.Event) && !ill && incident.Names(inc, f.Rank) {
		e.restart(s, f.Rank, v1alpha1.RestartJoinedIncident)
	}
}

// concernsPod reports whether an action replaces broken pods, or starts programs again, for which a pod that has ended has to be replaced.
func concernsPod(name v1alpha1.Action, p *gang.Pod) bool {
	a := rules.ActionOf(name)
	return a.Scope == rules.BrokenPods && (a.Replaces || (a.Rejoins && p.Phase == corev1.PodFailed))
}
