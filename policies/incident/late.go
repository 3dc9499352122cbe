// Late: ranks of a supervised gang that do not reach its epoch.

package incident

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/instant"
)

// epochReachedWithin is how long a rank has to reach an epoch, besides the time to stop its program: 50 s for the memory of its GPUs to be
// free (lockstep-run's --gpu-memory-timeout), 30 s at most between two tries to connect, and as much again.
const epochReachedWithin = 2 * time.Minute

// lateAt is when a rank that has not reached the epoch of its gang counts as failed; zero for one that has, and where another check is for
// it: its pod does not run, or its node does not answer. A rank that is not heard of is not late before it has had the time to be heard by
// this manager, and never while the gang is on its way to no epoch. Where no supervisor of the gang was heard, it has that time once one is. One whose stream came up after that has its time from then on, and so has one that had reached it when its stream ended.
func (v *View) lateAt(s *v1alpha1.TrainingJobStatus, p *gang.Pod) time.Time {
	if s.EpochTime == nil || !v.IsSupervised(p.Task) || p.Spare || p.Phase != corev1.PodRunning || !v.Nodes[p.Node].Ready || p.Deleting {
		return time.Time{}
	}
	if v.mayHaveReachedEpoch(s, p) {
		return time.Time{}
	}
	since := instant.Latest(s.EpochTime.Time, p.StartedTime, v.ListensSince)
	if p.HeardReached >= s.Epoch {
		since = instant.Latest(since, p.HeardUntil)
	}
	if !gang.Restarts(s) {
		if p.Process == nil {
			return time.Time{}
		}
		since = instant.Latest(since, p.Process.HeardSince)
	}
	at := since.Add(instant.Seconds(ptr.Deref(v.Job.Spec.Supervisor.StopSeconds, 10)) + epochReachedWithin)
	if p.Process != nil {
		return at
	}
	return instant.Latest(at, v.HeardBy())
}

// mayHaveReachedEpoch reports whether a rank has reached the epoch of its gang, or is not known to be behind it.
func (v *View) mayHaveReachedEpoch(s *v1alpha1.TrainingJobStatus, p *gang.Pod) bool {
	switch {
	case p.Process == nil && !v.AnySupervisor():
		return true // no supervisor reaches the manager, and the kubelets restart the programs
	case v.KeepsSurvivors() && (p.Process == nil || p.Process.State == gang.ProcessRunning):
		return true // it may train on
	}
	return p.Process != nil && p.Process.Epoch >= s.Epoch && p.Process.State != gang.ProcessStopping
}

// isLate reports whether a rank has had its time to reach the epoch of its gang.
func (v *View) isLate(s *v1alpha1.TrainingJobStatus, p *gang.Pod) bool {
	at := v.lateAt(s, p)
	return !at.IsZero() && !at.After(v.Now)
}

// heardBy is when the last rank of an incident that has just been started while its gang is being restarted will have had its time to be heard;
// zero where another one is known to be broken, or is being waited for.
func (v *View) heardBy(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) time.Time {
	var at time.Time
	only := v.Gathers(s) && v.EveryRankOf(inc, func(r gang.Rank) bool {
		p := v.Pod(r)
		if p == nil || p.Process != nil || !v.IsSupervised(r.Task) || p.Phase != corev1.PodRunning || !v.Nodes[p.Node].Ready ||
			p.Deleting || p.Disrupted != "" || v.isIllFor(inc, p) {
			return v.IsHealedFor(s, inc, r)
		}
		at = instant.Latest(at, instant.Latest(p.StartedTime, v.ListensSince).Add(gang.HeardWithin))
		return true
	})
	if !only {
		return time.Time{}
	}
	return at
}

// NextLateCheck is when the next rank will have had its time to reach the epoch of its gang, or the last one its time to be heard at all.
func (v *View) NextLateCheck(s *v1alpha1.TrainingJobStatus) time.Time {
	var next time.Time
	if at := v.UnheardAt(s); v.Job.Spec.Supervisor != nil && gang.Restarts(s) && !v.AnySupervisor() && at.After(v.Now) {
		next = at
	}
	gang.EachRank(v.Effective, func(r gang.Rank) {
		if p := v.Pod(r); p != nil && !gang.IsStale(s, p) {
			if at := v.lateAt(s, p); at.After(v.Now) {
				next = instant.Earliest(next, at)
			}
		}
	})
	return next
}
