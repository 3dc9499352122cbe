// Culprits: which of several failures the others followed from.

package policies

import (
	"cmp"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// killLead is how much later a process that was killed may seem to have exited than those that gave up because of it. Exits are
// known to the second, and a busy node notes them a moment late.
const killLead = time.Second

// compareEvidence orders failures by how much they say about the cause: the strongest event first, then the
// earliest exit, then a process that was killed before one that gave up.
func compareEvidence(a, b failure) int {
	return cmp.Or(
		cmp.Compare(order(a.byProgram()), order(b.byProgram())),
		cmp.Compare(strength(b.event), strength(a.event)),
		compareExits(a.fellAt(), b.fellAt()),
		cmp.Compare(killed(b.details.Containers), killed(a.details.Containers)),
	)
}

// order puts what is false before what is true.
func order(b bool) int {
	if b {
		return 1
	}
	return 0
}

// fellAt is when a process exited, or may have, if it was killed; zero where that is not known.
func (f *failure) fellAt() time.Time {
	at := f.exitTime()
	if !at.IsZero() && wasKilled(&f.details.Containers[0]) {
		return at.Add(-killLead)
	}
	return at
}

// compareExits orders times, of which zero is not known and comes last.
func compareExits(a, b time.Time) int {
	switch {
	case a.IsZero() || b.IsZero():
		return cmp.Compare(b.Unix(), a.Unix())
	default:
		return a.Compare(b)
	}
}

// wasKilled reports whether a process was ended by SIGKILL (128+9), as by a kernel that is out of memory.
func wasKilled(c *ContainerFailure) bool { return c.Reason == "OOMKilled" || c.ExitCode == 137 }

// killed is 1 for a container that something else killed. The abort of a collective ends with an exit code of the
// program, with SIGABRT (128+6), as NCCL's watchdog does, or with SIGTERM (128+15).
func killed(containers []ContainerFailure) int {
	if len(containers) == 0 {
		return 0
	}
	first := containers[0]
	if first.Reason == "OOMKilled" || (first.ExitCode > 128 && first.ExitCode != 134 && first.ExitCode != 143) {
		return 1
	}
	return 0
}

// precedes reports whether a failure is the one that an incident really began with: programs ended in both, and this
// one did so first. The news of several pods that fail together come in any order. What ends after a restart ends because of it.
func (w *world) precedes(inc *v1alpha1.Incident, f failure) bool {
	of := failure{event: inc.Trigger, class: inc.Class}
	if !of.byProgram() || f.exitTime().IsZero() || w.Now.Sub(inc.StartTime.Time) > wake {
		return false
	}
	if restarted(inc) && !f.exitTime().Before(lastRestart(inc).Truncate(time.Second)) {
		return false
	}
	if inc.Cause.ExitCode != nil {
		of.details.Containers = []ContainerFailure{{ExitCode: *inc.Cause.ExitCode, Reason: inc.Cause.Reason}}
		if inc.Cause.Time != nil {
			of.details.Containers[0].Time = inc.Cause.Time.Time
		}
	}
	of.event = f.event
	return compareEvidence(f, of) < 0
}

// blame makes a failure the cause of an incident. As long as nothing has been restarted it decides the rule too, and the
// ranks whose programs had ended before that was known are victims.
func (w *world) blame(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, f failure, rule v1alpha1.Rule, policy *restartPolicy) {
	inc.Cause = causeOf(f)
	if restarted(inc) || unnamed(inc) {
		join(inc, f)
		return
	}
	inc.Trigger, inc.Class, inc.Rule, inc.PolicyTask = f.event, f.class, rule.Name, policy.of
	removeVictim(inc, f.pod)
	named := inc.Pods
	inc.Pods, inc.PodCount = nil, 0
	join(inc, f)
	m := w.rooms(s)
	for _, p := range named {
		other, fails := w.failureOf(s, rank{p.Task, p.Index}, m)
		if !fails || other.byProgram() {
			addVictim(inc, failure{pod: p.Name, event: v1alpha1.PodNotReady})
		}
		if fails && !other.inPlace() {
			inc.PodCount++
			inc.Pods = append(inc.Pods, p)
		}
	}
}

// mayFollow reports whether a process may have ended because of an exit of another: it ran at the time, and ended soon after.
// One that was started later has met the other again since.
func (f *failure) mayFollow(exit time.Time) bool {
	started := f.details.Containers[0].StartedTime
	return f.exitTime().Sub(exit) <= wake && (started.IsZero() || started.Before(exit))
}

// firstExit returns the failure that the exit of a program followed from: that of a rank whose process had exited
// just before and which the kubelet has restarted already. It is the failure itself where there is none.
func (w *world) firstExit(s *v1alpha1.TrainingJobStatus, f failure) failure {
	if !f.inPlace() || f.exitTime().IsZero() || w.isIndependent(f.rank.task) {
		return f
	}
	first := f
	eachRank(w.job, func(r rank) {
		p := w.pod(r)
		if p == nil || p.LastExit == nil || w.isIndependent(r.task) || w.state(s, r) < impaired || !f.mayFollow(p.LastExit.Time) {
			return
		}
		other := describeFailure(p, v1alpha1.PodNotReady, v1alpha1.ClassUser)
		other.details.Containers = []ContainerFailure{*p.LastExit}
		if compareEvidence(other, first) < 0 {
			first = other
		}
	})
	return first
}
