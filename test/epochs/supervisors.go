package epochs

import (
	"slices"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/supervisor/epoch"
	"github.com/lockstep-dev/lockstep/supervisor/wire"
)

func same(a, b *v1alpha1.TrainingJobStatus) bool { return equality.Semantic.DeepEqual(a, b) }

// begin starts the container of a pod, with a supervisor of its own.
func (w *world) begin(p *pod, restarted bool) {
	p.machine = epoch.New(epoch.Options{Epoch: p.seen, Restarted: restarted, ManagerTimeout: managerTimeout})
	p.program, p.processes, p.stopping, p.cleaning, p.restartAt, p.report, p.heard = 0, false, false, false, time.Time{}, nil, nil
	p.Phase, p.Ready, p.WasReady, p.StartedTime, p.Failure, p.IP = corev1.PodRunning, true, true, w.now, gang.Failure{}, "10.0.0."+p.UID
	w.say("the container of pod %s begins, restarted=%v, epoch %d", p.UID, restarted, p.seen)
	w.tell(p, epoch.Began{})
	w.require(p.program <= 1, "pod %s starts in epoch %d before its gang is there", p.UID, p.program)
}

// tell gives a supervisor an event, and does what it wants.
func (w *world) tell(p *pod, e epoch.Event) {
	if p.machine == nil || p.ended {
		return
	}
	for _, a := range p.machine.Handle(w.now, e) {
		switch a := a.(type) {
		case epoch.Persist:
			w.require(a.Epoch >= p.seen, "pod %s keeps epoch %d after %d", p.UID, a.Epoch, p.seen)
			p.seen = a.Epoch
		case epoch.Start:
			w.start(p, a.Epoch)
		case epoch.Stop:
			w.require(p.program == 0 || !w.keeps(), "the program of pod %s is stopped, and survivors are kept", p.UID)
			p.stopping = true
		case epoch.Clean:
			p.cleaning = true
		case epoch.Report:
			p.report = a.Report
		case epoch.End:
			w.end(p, a.Code)
		case epoch.Forward:
		}
	}
}

// start is the invariant: nothing is left of an earlier program of the pod, and where the manager says that the gang is there, no program of an
// earlier epoch of any rank. A supervisor that reaches no manager starts its program without knowing of the others.
func (w *world) start(p *pod, e int64) {
	w.say("the program of pod %s, rank %d, starts in epoch %d", p.UID, p.Index, e)
	w.require(!p.processes, "two programs of pod %s", p.UID)
	w.require(e >= p.seen, "pod %s starts in epoch %d and has seen %d", p.UID, e, p.seen)
	for _, q := range w.pods {
		if q != p && w.ordered && !w.keeps() && q.Attempt == p.Attempt && q.program > 0 {
			w.require(q.program == e || q.Incarnation < gang.Incarnation(&w.job.Status, q.Task, q.Index),
				"rank %d starts in epoch %d while rank %d runs in %d", p.Index, e, q.Index, q.program)
		}
	}
	p.program, p.processes = e, true
}

// end is the end of a container.
func (w *world) end(p *pod, code int) {
	w.say("the container of pod %s ends with %d", p.UID, code)
	p.program, p.processes, p.machine, p.Ready = 0, false, nil, false
	w.cut(p)
	p.StartedTime = time.Time{}
	if p.Deleting {
		return
	}
	exit := gang.ContainerFailure{Name: "train", ExitCode: int32(max(code, 1)), Reason: "Error", Time: w.now.Truncate(time.Second)}
	p.Failure.Containers, p.LastExit, p.restartAt = []gang.ContainerFailure{exit}, &exit, w.now.Add(time.Duration(w.rng.IntN(20))*time.Second)
}

// exits ends the program of a pod by itself.
func (w *world) exits(p *pod, code int32) {
	w.say("the program of pod %s exits with %d", p.UID, code)
	p.program = 0
	w.tell(p, epoch.Ended{Exit: &wire.Exit{Code: code, EndedMicros: w.now.UnixMicro()}})
}

// saves has the program of a pod save a checkpoint.
func (w *world) saves(p *pod) {
	w.say("the program of pod %s saves", p.UID)
	w.tell(p, epoch.Progressed{})
}

// steps lets a supervisor finish something that it has begun.
func (w *world) steps(p *pod) {
	w.ordered = true
	defer func() { w.ordered = false }()
	switch {
	case p.stopping:
		p.stopping, p.processes = false, false
		if p.program > 0 {
			p.program = 0
			w.tell(p, epoch.Ended{Exit: &wire.Exit{Code: 143, EndedMicros: w.now.UnixMicro()}})
		}
		w.tell(p, epoch.Gone{})
	case p.cleaning:
		p.cleaning = false
		w.tell(p, epoch.Cleaned{})
	}
}

func (w *world) cut(p *pod) {
	if p.connected {
		p.connected, p.heard = false, nil
		w.tell(p, epoch.Disconnected{})
	}
}

// speaks lets what a supervisor has to say reach the manager, or connects it.
func (w *world) speaks(p *pod) {
	if p.machine == nil || !w.nodes[p.Node].Ready {
		return
	}
	p.connected = true
	p.heard = p.report
}

// hears lets the manager's order reach a supervisor, which takes a stream for one that is up from then on.
func (w *world) hears(p *pod) {
	if p.machine == nil || !p.connected || w.order == nil {
		return
	}
	o := w.order
	if !w.calm && w.one(6) {
		o = &w.late[w.rng.IntN(len(w.late))]
	}
	w.tell(p, epoch.Connected{})
	w.ordered = true
	defer func() { w.ordered = false }()
	w.tell(p, epoch.Ordered{Order: &wire.Order{Epoch: o.Epoch, Start: o.Start, Resume: o.Epoch > 1, Release: o.Release, Keep: o.Keep}})
}

// kubelet takes the next step of a pod.
func (w *world) kubelet(p *pod) {
	n := w.nodes[p.Node]
	switch {
	case p.Node == "" && p.Deleting:
		w.gone(p)
	case n == nil || !n.Ready:
	case p.Deleting:
		w.say("pod %s is gone", p.UID)
		w.cut(p)
		p.machine, p.program = nil, 0
		w.gone(p)
	case p.machine == nil && !p.restartAt.After(w.now):
		w.begin(p, !p.restartAt.IsZero())
	}
}

// expire tells supervisors that their time is over.
func (w *world) expire() {
	for _, p := range slices.Concat(w.pods, w.ghosts) {
		if p.machine == nil {
			continue
		}
		if at := p.machine.Deadline(); !at.IsZero() && !at.After(w.now) {
			w.tell(p, epoch.Expired{})
		}
	}
}

func (w *world) silence(n *gang.Node) {
	w.say("node %s is silent", n.Name)
	n.Ready, n.SilentSince = false, w.now
	for _, p := range w.pods {
		if p.Node == n.Name {
			w.cut(p)
		}
	}
}

// mend brings a node back. Its ghosts ask the manager, which refuses them.
func (w *world) mend(n *gang.Node) {
	w.say("node %s is back", n.Name)
	n.Ready, n.SilentSince = true, time.Time{}
	w.ghosts = slices.DeleteFunc(w.ghosts, func(p *pod) bool { return p.Node == n.Name })
}

// killed ends a supervisor and its program together.
func (w *world) killed(p *pod) {
	w.say("the supervisor of pod %s is killed", p.UID)
	w.end(p, 137)
}

// terminated has the kubelet stop a container, as for a node that shuts down.
func (w *world) terminated(p *pod) {
	w.tell(p, epoch.Signalled{Signal: syscall.SIGTERM})
	p.Deleting = true
	w.say("pod %s is deleted by somebody", p.UID)
}
