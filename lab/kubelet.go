package lab

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/policies/gang"
)

// The kubelet restarts a container at once the first time, then after 10 s, and after twice as long each time, up to 5 min; a
// container that has run for 10 min begins again (backOffPeriod and MaxContainerBackOff in kubernetes pkg/kubelet/kubelet.go).
const (
	firstBackoff = 10 * time.Second
	maxBackoff   = 5 * time.Minute
	resetBackoff = 10 * time.Minute
	// While a container may not restart yet, the kubelet looks again only after 10 to 15 s (completeWork in kubernetes
	// pkg/kubelet/pod_workers.go): this is the mean.
	backoffLook = 12500 * time.Millisecond
	// A kubelet restarts a container in the sync that finds it ended, before the API server knows of that. A deletion that this end
	// leads to is dealt with in the next sync, which waits until the kubelet has listed its containers again (podWorkerLoop in
	// pkg/kubelet/pod_workers.go, genericPlegRelistPeriod in pkg/kubelet/kubelet.go): for that long the new process runs.
	relist = time.Second
)

// container is the name of the only one of each pod.
const container = "train"

// process is the program in a pod.
type process struct {
	running bool
	// joined is whether it trains with the others, or is about to.
	joined bool
	// aborting is whether it belongs to a collective that has broken up, and has not ended yet.
	aborting bool
	backoff  time.Duration
	// restarted is when the kubelet last restarted it, and inSync whether it does that at once, in the sync that found it ended.
	restarted time.Time
	inSync    bool
}

// bind gives a pod its node, on which it starts.
func (w *world) bind(p *pod, name string) {
	if p.Node != "" || p.Deleting {
		return
	}
	p.Node, p.BoundTime, p.Unschedulable = name, w.now, false
	w.noteLocality(p)
	w.changed()
	w.after(w.Costs.Start, func() { w.start(p) })
}

// start starts the process of a pod, unless its node does not let it.
func (w *world) start(p *pod) {
	n := w.nodes[p.Node]
	if p.Finished() || p.process.running || p.machine != nil || n.lost || n.broken || !slices.Contains(w.pods, p) || (p.Deleting && !w.startsAgain(p)) {
		return
	}
	p.process.inSync = false
	p.Phase, p.StartedTime, p.IP = corev1.PodRunning, w.now, p.UID
	if !w.ReadyWhenTraining || p.Spare {
		p.beReady()
	}
	w.changed()
	if w.isSupervised(p) {
		w.supervise(p)
		return
	}
	w.setRunning(p, true)
	w.program.gather(w)
}

// startsAgain reports whether a pod that is deleted has another process before it ends. One of an earlier attempt is not counted: the
// others of its gang are gone, and those of the next one do not meet it.
func (w *world) startsAgain(p *pod) bool {
	return p.process.inSync && p.Attempt == w.job.Status.Attempt
}

// beReady has a pod pass its readiness probe: what ended before is over.
func (p *pod) beReady() { p.Ready, p.WasReady, p.Failure = true, true, gang.Failure{} }

// setRunning counts the processes of ranks.
func (w *world) setRunning(p *pod, running bool) {
	s := &p.process
	if s.running == running {
		return
	}
	switch {
	case p.Spare || s.aborting: // one that aborts does not count any more
	case running:
		w.running++
	default:
		w.running--
	}
	s.running, s.aborting, s.joined = running, false, false
}

// exit ends the process of a pod with a code other than 0.
func (w *world) exit(p *pod) {
	if p.machine != nil {
		w.programEnds(p, 1)
		return
	}
	w.endContainer(p, w.restartsInPlace(p))
}

// endContainer ends the container of a pod with an error, after which the kubelet restarts it in place, or the pod has failed.
func (w *world) endContainer(p *pod, inPlace bool) {
	joined := p.process.joined
	ended := gang.ContainerFailure{Name: container, ExitCode: 1, Reason: "Error", StartedTime: p.StartedTime, Time: w.now}
	p.Ready, p.WasReady, p.machine = false, true, nil
	w.setRunning(p, false)
	p.Failure, p.LastExit, p.StartedTime = gang.Failure{Containers: []gang.ContainerFailure{ended}}, &ended, time.Time{}
	if inPlace {
		w.restartInPlace(p)
	} else {
		p.Phase = corev1.PodFailed
		w.endVolcanoJob(p.Attempt)
	}
	w.changed()
	if joined {
		w.program.breakUp(w)
	}
}

func (w *world) restartsInPlace(p *pod) bool {
	return w.task(p.Task).Template.Spec.RestartPolicy != corev1.RestartPolicyNever
}

func (w *world) restartInPlace(p *pod) {
	s, wait := &p.process, w.Costs.RestartInPlace
	s.inSync = !w.DeletesAtOnce
	if s.backoff == 0 || w.now.Sub(s.restarted) > resetBackoff {
		s.backoff = w.Costs.Backoff
	} else {
		s.inSync = false
		wait = (s.backoff + backoffLook - 1).Truncate(backoffLook)
		s.backoff = min(2*s.backoff, maxBackoff)
	}
	s.restarted = w.now.Add(wait)
	w.after(wait, func() { w.startAgain(p) })
}

// startAgain restarts a container in place. While a device of its node has failed, it fails again.
func (w *world) startAgain(p *pod) {
	n := w.nodes[p.Node]
	if n != nil && n.broken && !n.lost && !p.Deleting && slices.Contains(w.pods, p) {
		p.process.backoff = max(p.process.backoff, firstBackoff)
		w.restartInPlace(p)
		return
	}
	w.start(p)
}

// delete deletes a pod. Its end waits for its node, unless it is forced.
func (w *world) delete(p *pod, force bool) {
	if force || p.Node == "" {
		w.remove(p)
		return
	}
	if p.Deleting {
		return
	}
	p.Deleting, p.GraceEnds = true, w.now.Add(w.Costs.Stop)
	if w.nodes[p.Node].lost {
		return
	}
	if p.process.inSync {
		restarted := p.process.restarted.Sub(w.now)
		w.after(restarted+relist, func() { w.leave(p) })
		w.after(restarted+max(relist, w.Costs.Stop), func() { w.confirm(p) })
		return
	}
	w.leave(p) // its process gets a signal to end, and trains no more
	w.after(w.Costs.Stop, func() { w.confirm(p) })
}

// confirm takes away a pod whose kubelet says that it has ended.
func (w *world) confirm(p *pod) {
	if n := w.nodes[p.Node]; p.Deleting && !n.lost {
		w.remove(p)
	}
}

// leave ends the container of a pod.
func (w *world) leave(p *pod) {
	p.machine = nil
	w.stopProcess(p)
}

// stopProcess ends the process of a pod, and with it the collective.
func (w *world) stopProcess(p *pod) {
	joined := p.process.joined
	w.setRunning(p, false)
	if joined {
		w.program.breakUp(w)
	}
}

func (w *world) remove(p *pod) {
	i := slices.Index(w.pods, p)
	if i < 0 {
		return
	}
	w.pods = slices.Delete(w.pods, i, i+1)
	w.leave(p)
	w.changed()
	w.placeSoon()
	w.makeSoon(w.Costs.Recreate)
}
