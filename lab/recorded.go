// Recorded incidents: the failures behind what a job's status remembers, so that they can be played again.

package lab

import (
	"cmp"
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/incident"
)

// Lead is how long the job of a play of recorded incidents trains before the first one, and how long the play goes on after the last.
const Lead = time.Hour

// DefaultRepair is for how long a node is away or degraded after an incident that does not tell it.
const DefaultRepair = 24 * time.Hour

// effects are what the failures behind incidents did.
var effects = map[v1alpha1.EventType]Effect{
	v1alpha1.PodFailed: PodFailure, v1alpha1.PodNotReady: ProcessExit, v1alpha1.ProcessFailed: ProcessExit, v1alpha1.PodDeleted: PodLoss, v1alpha1.PodNotStarted: PodLoss,
	v1alpha1.NodeNotReady: NodeLoss, v1alpha1.NodeGone: NodeDeletion, v1alpha1.HealthFailed: DeviceFailure, v1alpha1.HealthDegraded: Degradation,
}

// Recorded is an incident of a job's status with the failure behind it.
type Recorded struct {
	v1alpha1.Incident
	// Same are the further incidents of the same failure, such as that of the peers of a process which exited after it had come back.
	Same []int32
	// Down is for how long not all ranks ran, from when the failure was seen: until no incident was open any more. It is known where all
	// that were open meanwhile have recovered.
	Down  time.Duration
	Known bool

	effect Effect
	// seen is when the failure was seen; downFrom is since when ranks were down, and end when all ran again.
	seen, downFrom, end time.Time
	// stepped is whether the policy restarted more than programs.
	stepped bool
	// noRoom is for how long after the failure a replacement found no node; zero where it found one at once.
	noRoom time.Duration
	// repair is for how long the node was away.
	repair time.Duration
	factors
	bracket bracket
}

// readIncidents are the incidents of a job that tell of a failure, in the order of these, and those that do not. One about pods that
// found no room has no failure of its own.
func readIncidents(job *v1alpha1.TrainingJob, repair time.Duration) (played []Recorded, leftOut []v1alpha1.Incident) {
	for i := range job.Status.Incidents {
		inc := &job.Status.Incidents[i]
		if _, known := effects[inc.Trigger]; !known || len(inc.Pods) == 0 {
			leftOut = append(leftOut, *inc)
			continue
		}
		r := readIncident(inc, repair)
		if job.Spec.Supervisor != nil && (r.effect == NodeLoss || r.effect == NodeDeletion) {
			r.Pods = onLostNodes(job, inc)
		}
		played = append(played, r)
	}
	slices.SortStableFunc(played, func(a, b Recorded) int { return cmp.Or(a.seen.Compare(b.seen), cmp.Compare(a.ID, b.ID)) })
	return measured(merged(played)), leftOut
}

// onLostNodes are the pods of an incident on nodes that were lost: on that of its cause, or on one that the job avoids since. The others are
// of programs that ended first, because they had lost a peer.
func onLostNodes(job *v1alpha1.TrainingJob, inc *v1alpha1.Incident) []v1alpha1.IncidentPod {
	lost := slices.DeleteFunc(slices.Clone(inc.Pods), func(p v1alpha1.IncidentPod) bool {
		avoided := slices.ContainsFunc(job.Status.ExcludedNodes, func(x v1alpha1.ExcludedNode) bool { return x.Name == p.Node && x.Incident == inc.ID })
		return p.Node != inc.Cause.Node && !avoided
	})
	if len(lost) == 0 {
		return inc.Pods
	}
	return lost
}

// merged joins incidents of one failure, of which the first is played.
func merged(all []Recorded) []Recorded {
	var out []Recorded
	for _, r := range all {
		i := slices.IndexFunc(out, func(o Recorded) bool { return sameFailure(&o.Cause, &r.Cause) })
		if i < 0 {
			out = append(out, r)
			continue
		}
		one := &out[i]
		one.Same = append(one.Same, r.ID)
		one.stepped, one.noRoom = one.stepped || r.stepped, max(one.noRoom, r.noRoom)
		one.Known = one.Known && r.Known
		if r.end.After(one.end) {
			one.end = r.end
		}
	}
	return out
}

// sameFailure reports whether two incidents are about the end of one container.
func sameFailure(a, b *v1alpha1.Cause) bool {
	return a.Time != nil && b.Time != nil && a.Time.Equal(b.Time) && a.Pod == b.Pod && a.Container == b.Container
}

// measured says for how long ranks were down. An incident that the next one overlaps goes on until that is over.
func measured(all []Recorded) []Recorded {
	for i := len(all) - 1; i >= 0; i-- {
		r := &all[i]
		if i+1 < len(all) && (!r.Known || r.end.After(all[i+1].seen)) {
			r.Known = r.Known && all[i+1].Known
			if all[i+1].end.After(r.end) {
				r.end = all[i+1].end
			}
		}
		if r.Known && (r.effect != Degradation || r.stepped) {
			r.Down = r.end.Sub(r.downFrom)
		}
	}
	return all
}

func readIncident(inc *v1alpha1.Incident, repair time.Duration) Recorded {
	r := Recorded{Incident: *inc, effect: effects[inc.Trigger], repair: repair}
	phases := incident.Phases(inc)
	r.seen = inc.StartTime.Time
	if len(phases) > 0 {
		r.seen = phases[0].From // which is when a container ended, where that is known
	}
	r.downFrom = r.seen
	for _, s := range phases {
		if s.Phase == incident.WaitForRoom {
			r.noRoom = s.Until.Sub(r.seen)
		}
	}
	if r.noRoom > 0 {
		r.repair = r.noRoom // the node may have been what there was room on then
	}
	if i := slices.IndexFunc(inc.Steps, r.replaces); i >= 0 {
		r.stepped = true
		if r.effect == Degradation {
			r.downFrom = inc.Steps[i].Time.Time // until then the job trains on
		}
	}
	r.Known = inc.EndTime != nil && inc.Outcome == v1alpha1.OutcomeRecovered
	if r.Known {
		r.end = inc.EndTime.Time
	}
	if r.Known && r.returned() {
		r.repair = r.end.Sub(r.seen)
	}
	return r
}

// failures are those behind an incident, at a time of a play.
func (r *Recorded) failures(at time.Duration, costs *Costs) []Failure {
	var out []Failure
	for _, p := range r.Pods {
		out = append(out, Failure{
			At: at, Rank: gang.Rank{Task: p.Task, Index: p.Index}, Costs: costs,
			Cause: Cause{Name: string(r.Trigger), Effect: r.effect, Repair: r.repair},
		})
	}
	out[0].NoRoom = r.noRoom
	return out
}

// returned reports whether the node of an incident came back by itself.
func (r *Recorded) returned() bool { return r.effect.NeedsRepair() && !r.stepped }

// replaces reports whether a step restarted more than programs that supervisors restart in place.
func (r *Recorded) replaces(s v1alpha1.FiredStep) bool {
	return s.Action != v1alpha1.Ignore && !s.DryRun && (s.Action != v1alpha1.RestartProcesses || !r.bySupervisors())
}

// bySupervisors reports whether an incident began with the program of a supervised rank, which is restarted with its peers.
func (r *Recorded) bySupervisors() bool { return r.Trigger == v1alpha1.ProcessFailed }
