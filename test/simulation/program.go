package simulation

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/policies/gang"
)

// process is the training process in a pod, and what its kubelet remembers of it.
type process struct {
	running   bool
	startTime time.Time // when it started
	restartAt time.Time // when the kubelet restarts it; zero while nothing waits
	backoff   time.Duration
	backoffAt time.Time // when the kubelet last used the back-off
	fault     fault     // why it last exited
	joined    bool      // it is in the collective
	abortAt   time.Time // when it notices that the collective is broken; zero while it is not
	hangs     bool      // it never becomes ready
}

// fault is why a process exited.
type fault int

const (
	noFault fault = iota
	ownFault
	peerFault // a peer was missing: the process is a victim
)

const (
	// rendezvous is how long a process waits for its peers before it exits.
	rendezvous = 30 * time.Second
	// noticeWithin is how long it takes the processes of a collective to notice that a peer is gone.
	noticeWithin = 5 * time.Second

	// The kubelet's restart back-off (pkg/kubelet: backOffPeriod, MaxContainerBackOff): the first restart is
	// immediate, the next comes after 10 s, doubling to 5 min, and 10 min without a restart reset it.
	firstBackoff = 10 * time.Second
	maxBackoff   = 5 * time.Minute
	resetBackoff = 10 * time.Minute
)

// crash ends the process of a pod by a fault of its own.
func (t *tenant) crash(p *pod, code int32) {
	t.exit(p, code, ownFault)
}

// exit ends the process of a pod, or the program that its supervisor keeps.
func (t *tenant) exit(p *pod, code int32, why fault) {
	if p.machine != nil {
		p.fault = why
		t.endProgram(p, code)
		return
	}
	t.endContainer(p, code, why)
}

// endContainer ends the container of a pod. With restartPolicy Never the pod fails; with OnFailure its kubelet restarts the
// process after the back-off. Meanwhile the container waits (CrashLoopBackOff), the pod is Running and not ready,
// and the last state of the container has the exit code.
func (t *tenant) endContainer(p *pod, code int32, why fault) {
	t.dropSupervisor(p)
	if code == 0 {
		t.succeed(p)
		return
	}
	p.Ready, p.WasReady, p.running, p.joined, p.abortAt, p.fault = false, true, false, false, time.Time{}, why
	ended := gang.ContainerFailure{
		Name: "train", ExitCode: code, Reason: "Error", StartedTime: p.StartedTime, Time: t.now.Truncate(time.Second),
	}
	p.Failure, p.LastExit, p.StartedTime = gang.Failure{Containers: []gang.ContainerFailure{ended}}, &ended, time.Time{}
	p.setReadyCondition()
	if t.never {
		p.Phase = corev1.PodFailed
		t.changed("pod %s fails with %d", p.Name, code)
		return
	}
	if p.backoff == 0 || t.now.Sub(p.backoffAt) > resetBackoff {
		p.restartAt, p.backoff = t.now, firstBackoff
	} else {
		p.restartAt, p.backoff = t.now.Add(p.backoff), min(2*p.backoff, maxBackoff)
		t.happened("kubelet backs off")
	}
	p.backoffAt = p.restartAt
	t.changed("pod %s exits with %d and restarts at %.1fs", p.Name, code, p.restartAt.Sub(start).Seconds())
}

// startProcess starts the process of a pod.
func (t *tenant) startProcess(p *pod) {
	p.running, p.startTime, p.restartAt = true, t.now, time.Time{}
	p.StartedTime, p.StartProblem = t.now.Truncate(time.Second), gang.StartProblem{}
	if t.supervised && (!p.Spare || t.takesOver()) {
		p.running = false
		t.beginSupervisor(p)
	}
}

// isReady reports whether a process passes its readiness probe. Without one it does as soon as it runs.
func (t *tenant) isReady(p *pod) bool {
	if !t.probed {
		return p.containerRuns() && !p.hangs
	}
	return p.running && !p.hangs && (p.joined || p.Spare || t.done)
}

// setReadyCondition keeps the conditions in line with Ready, as the kubelet does.
func (p *pod) setReadyCondition() {
	c := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue}
	if !p.Ready {
		c.Status, c.Reason = corev1.ConditionFalse, "ContainersNotReady"
	}
	// The list is replaced, not changed: observations share it.
	p.Conditions = slices.DeleteFunc(slices.Clone(p.Conditions), func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
	p.Conditions = append(p.Conditions, c)
}

// runProgram lets the processes of a collective meet, train and abort. Where one is lost all others abort; a
// process that does not find its peers in time exits, and is restarted to wait again.
func (t *tenant) runProgram() {
	if !t.collective || t.done {
		return
	}
	t.breakCollective()
	for _, p := range t.pods {
		if p.Spare || !p.running || !t.executes(p) {
			continue
		}
		if t.givesUp(p) {
			t.happened("collective aborts a rank")
			t.once("collective aborts in a history")
			t.exit(p, 1, peerFault)
		}
	}
	t.breakCollective()
	if len(t.group) == 0 && t.complete() {
		t.join()
	}
}

// givesUp reports whether a process aborts, or has waited for its peers in vain.
func (t *tenant) givesUp(p *pod) bool {
	aborts := !p.abortAt.IsZero() && !p.abortAt.After(t.now)
	waited := !p.joined && !p.hangs && p.abortAt.IsZero() && t.now.Sub(p.startTime) >= rendezvous
	return aborts || (waited && !t.complete())
}

// breakCollective has the processes of a collective that has lost one notice it.
func (t *tenant) breakCollective() {
	lost := slices.ContainsFunc(t.group, func(p *pod) bool {
		return p.Phase != corev1.PodSucceeded && (!p.joined || !t.computes(p) || t.podOfUID(p.UID) != p)
	})
	if !lost && (len(t.group) == 0 || t.complete()) {
		return
	}
	t.findCulprit()
	for _, p := range t.group {
		if p.joined && p.abortAt.IsZero() {
			p.joined = false
			p.abortAt = t.now.Add(time.Duration(t.rng.Int64N(int64(noticeWithin))))
		}
	}
	t.group = nil
}

// complete reports whether a process of every rank runs and none is about to abort.
func (t *tenant) complete() bool {
	v := t.currentVolcanoJob()
	if v == nil {
		return false
	}
	want := 0
	for i := range t.job.Spec.Tasks {
		want += int(v.size.Replicas[t.job.Spec.Tasks[i].Name])
	}
	return countRanks(t.podsOf(v), func(p *pod) bool { return p.running && !p.hangs && p.abortAt.IsZero() && t.computes(p) }) == want
}

func (t *tenant) join() {
	for _, p := range t.podsOf(t.currentVolcanoJob()) {
		if !p.Spare {
			p.joined = true
			t.group = append(t.group, p)
		}
	}
	t.culprit = nil
	t.happened("collective is complete")
	t.changed("the collective of %s is complete", t.name)
}

// nextTimer is when the next process acts by itself; zero for never.
func (w *world) nextTimer() time.Time {
	var next time.Time
	sooner := func(at time.Time) {
		if at.After(w.now) && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	for _, t := range w.tenants {
		for _, p := range t.pods {
			if p.Phase == corev1.PodPending && t.stalls(p) {
				sooner(p.BoundTime.Add(reasonAfter))
			}
			if !w.executes(p) {
				continue
			}
			sooner(p.restartAt)
			sooner(t.nextExpiry(p))
			sooner(p.deaf)
			if t.failsAfter > 0 && p.running {
				sooner(p.startTime.Add(t.failsAfter))
			}
			sooner(p.abortAt)
			if t.collective && p.running && !p.joined && !p.Spare {
				sooner(p.startTime.Add(rendezvous))
			}
		}
	}
	return next
}

// isVictim reports whether a rank fell only in the wake of another: its process last exited because a peer was
// missing, and either waits for the peer now or is waited for by none.
func (t *tenant) isVictim(p *pod) bool {
	if !t.collective || p.fault != peerFault || !t.executes(p) || p.Deleting || p.Disrupted != "" {
		return false
	}
	if p.running {
		return true
	}
	return slices.ContainsFunc(ranksOf(t.job, &t.job.Status), func(r rank) bool {
		if r == p.rank() {
			return false
		}
		peer := t.findPod(func(q *pod) bool { return q.rank() == r && q.Attempt == p.Attempt })
		return peer == nil || peer.Deleting || !t.executes(peer) || (!peer.running && peer.fault == ownFault)
	})
}
