// Ranks: the sets of ranks that an incident keeps. The names in it are for people, and only the first of them; what is decided is decided
// by these sets.

package incident

import (
	"slices"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// Unnamed reports whether an incident is about the job as a whole, and no rank in particular.
func Unnamed(inc *v1alpha1.Incident) bool {
	return len(inc.Pods) == 0
}

// Names reports whether a rank is one of those that failed in an incident, and that it brings back.
func Names(inc *v1alpha1.Incident, r gang.Rank) bool {
	if len(inc.Ranks) > 0 {
		return gang.HasIndex(ranksOf(inc, r.Task).Failed, r.Index)
	}
	return Failed(inc, r.Task).Has(r.Index)
}

// IsVictim reports whether a rank failed only in the wake of an incident.
func IsVictim(inc *v1alpha1.Incident, r gang.Rank) bool {
	return gang.HasIndex(ranksOf(inc, r.Task).Victims, r.Index)
}

// LostPod reports whether the pod of a rank was gone before a step of its incident asked for that.
func LostPod(inc *v1alpha1.Incident, r gang.Rank) bool {
	return gang.HasIndex(ranksOf(inc, r.Task).PodGone, r.Index)
}

// Failed are the ranks of a task that failed in an incident. Where an earlier version of the manager wrote it, they are those that it names.
func Failed(inc *v1alpha1.Incident, task string) gang.Indexes {
	if len(inc.Ranks) > 0 {
		return gang.ParseIndexes(ranksOf(inc, task).Failed)
	}
	set := ""
	for _, p := range inc.Pods {
		if p.Task == task {
			set = gang.WithIndex(set, p.Index)
		}
	}
	return gang.ParseIndexes(set)
}

func ranksOf(inc *v1alpha1.Incident, task string) v1alpha1.IncidentRanks {
	for _, of := range inc.Ranks {
		if of.Task == task {
			return of
		}
	}
	return v1alpha1.IncidentRanks{}
}

// eachFailed calls f for each rank that failed in an incident and that the job still has.
func (v *View) eachFailed(inc *v1alpha1.Incident, f func(gang.Rank)) {
	for i := range v.Effective.Spec.Tasks {
		task := v.Effective.Spec.Tasks[i].Name
		Failed(inc, task).Each(func(index int32) {
			if r := (gang.Rank{Task: task, Index: index}); v.Exists(r) {
				f(r)
			}
		})
	}
}

// PodsOf are the pods that failed in an incident, of the ranks that the job still has. Those that it does not name are as they are now,
// without a UID where the pod of the rank is another one by now.
func (v *View) PodsOf(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) []v1alpha1.IncidentPod {
	var pods []v1alpha1.IncidentPod
	v.eachFailed(inc, func(r gang.Rank) {
		if i := namedAt(inc, r); i >= 0 {
			pods = append(pods, inc.Pods[i])
			return
		}
		pod := v1alpha1.IncidentPod{Name: gang.PodNameOf(v.Job, s, r), Task: r.Task, Index: r.Index, Node: gang.NodeOf(s.Placement, r)}
		if p := v.Pod(r); p != nil && v.failedIn(inc, p) {
			pod.UID, pod.Node = p.UID, p.Node
		}
		pods = append(pods, pod)
	})
	return pods
}

// failedIn reports whether it is this very pod that failed in an incident, and not an earlier one of its rank. Of a rank that has no
// name in the incident, a pod that was placed since is another one.
func (v *View) failedIn(inc *v1alpha1.Incident, p *gang.Pod) bool {
	r := p.Rank()
	if i := namedAt(inc, r); i >= 0 {
		return inc.Pods[i].UID == p.UID
	}
	return Names(inc, r) && !LostPod(inc, r) && !p.Gated && !p.PlacedTime.After(inc.StartTime.Time)
}

// failedOn reports whether a rank failed on a node in an incident.
func (v *View) failedOn(inc *v1alpha1.Incident, r gang.Rank, node string) bool {
	if i := namedAt(inc, r); i >= 0 {
		return inc.Pods[i].Node == node
	}
	p := v.Pod(r)
	return p != nil && p.Node == node && v.failedIn(inc, p)
}

func namedAt(inc *v1alpha1.Incident, r gang.Rank) int {
	return slices.IndexFunc(inc.Pods, func(p v1alpha1.IncidentPod) bool { return p.Task == r.Task && p.Index == r.Index })
}
