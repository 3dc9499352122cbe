// Joining: which pods an incident names, as those that it brings back and as victims.

package recovery

import (
	"slices"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/incident"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// maxIncidentPods is how many pods an incident names. One that hit more concerns the whole job.
const maxIncidentPods = 32

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

// addVictim records a victim, by name while there is room. Victims without a name that restart in place are counted once in
// each pass (victims.count), because nothing tells whether they were counted before.
func addVictim(inc *v1alpha1.Incident, f rules.Failure) {
	if slices.Contains(inc.Victims, f.Pod) {
		return
	}
	named := len(inc.Victims) < maxIncidentPods
	if named {
		inc.Victims = append(inc.Victims, f.Pod)
	}
	if named || !f.InPlace() {
		inc.VictimCount++
	}
}

// removeVictim takes back that a pod failed only in the wake of others.
func removeVictim(inc *v1alpha1.Incident, pod string) {
	if i := slices.Index(inc.Victims, pod); i >= 0 {
		inc.Victims = slices.Delete(inc.Victims, i, i+1)
		inc.VictimCount--
	}
}

// apply does to a rank that just joined an incident what was already done to the others, and restarts a rank whose pod is gone
// at once: nothing is left of it that could come back by itself.
func (e Engine) apply(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, f rules.Failure) {
	switch {
	case incident.Restarted(inc) && !e.DryRun:
		e.exclude(s, inc)
		e.restart(s, f.Rank, v1alpha1.RestartJoinedIncident)
	case f.UID == "":
		e.restart(s, f.Rank, v1alpha1.RestartPodGone)
	}
}

// takenAway restarts a rank whose pod is gone before a step has asked for that: the pod that waits behind its gate is another
// one.
func (e Engine) takenAway(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, f rules.Failure) {
	if incident.Restarted(inc) || f.UID != "" {
		return
	}
	for i := range inc.Pods {
		if p := &inc.Pods[i]; p.Task == f.Rank.Task && p.Index == f.Rank.Index && p.UID != "" {
			p.UID = ""
			e.restart(s, f.Rank, v1alpha1.RestartPodGone)
		}
	}
}
