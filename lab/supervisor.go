package lab

import (
	"strconv"
	"syscall"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/supervisor/epoch"
	"github.com/lockstep-dev/lockstep/supervisor/wire"
)

// Supervisors: what they decide is the product's own. Their streams are up as long as their nodes answer, and carry everything at once.

// exitStopped is the exit code of a program that SIGTERM ends.
const exitStopped = 128 + int32(syscall.SIGTERM)

// supervisor is that of a pod's program.
type supervisor struct {
	machine *epoch.Machine // nil while its container does not run
	kept    int64          // the highest epoch in the volume of the pod
	ran     bool           // a container of the pod has run the program
	report  *wire.Report   // its last one
	// programStart is when the program was started that runs; zero while none does.
	programStart time.Time
}

// supervised reports whether the programs of a job's ranks have supervisors.
func (s *Setup) supervised() bool { return s.Job.Spec.Supervisor != nil }

// keepsSurvivors reports whether the programs of other ranks run on while that of one is restarted.
func (s *Setup) keepsSurvivors() bool {
	return s.supervised() && s.Job.Spec.Supervisor.Survivors == v1alpha1.SurvivorsKeep
}

// isSupervised reports whether the program of a pod has a supervisor. Those of spares do nothing.
func (w *world) isSupervised(p *pod) bool {
	return w.supervised() && !p.Spare && !w.task(p.Task).Independent
}

// supervise begins in a container that starts.
func (w *world) supervise(p *pod) {
	p.machine = epoch.New(epoch.Options{Epoch: p.kept, Restarted: p.ran})
	w.inform(p, epoch.Began{})
	w.inform(p, epoch.Connected{})
	w.instruct(p)
}

// give has the supervisors of the job hear an order.
func (w *world) give(o *policies.Order) {
	if o == nil || (w.ordered != nil && *w.ordered == *o) {
		return
	}
	w.ordered = o
	for _, p := range w.pods {
		w.instruct(p)
	}
}

// instruct gives a supervisor the last order.
func (w *world) instruct(p *pod) {
	if o := w.ordered; o != nil {
		w.inform(p, epoch.Ordered{Order: &wire.Order{Epoch: o.Epoch, Start: o.Start, Resume: o.Epoch > 1, Release: o.Release, Keep: o.Keep}})
	}
}

// inform gives a supervisor an event, and does what it wants.
func (w *world) inform(p *pod, e epoch.Event) {
	if p.machine == nil {
		return
	}
	for _, a := range p.machine.Handle(w.now, e) {
		switch a := a.(type) {
		case epoch.Persist:
			p.kept = a.Epoch
		case epoch.Start:
			w.runProgram(p)
		case epoch.Stop:
			w.later(p, w.Costs.StopProgram, func() {
				w.programEnds(p, exitStopped)
				w.inform(p, epoch.Gone{})
			})
		case epoch.Clean:
			w.later(p, 0, func() { w.inform(p, epoch.Cleaned{}) })
		case epoch.Report:
			p.report = a.Report
			w.changed()
		case epoch.End:
			w.endContainer(p, w.restartsInPlace(p))
			return
		}
	}
}

// later has something happen in the container that a pod has now.
func (w *world) later(p *pod, d time.Duration, do func()) {
	machine := p.machine
	w.after(d, func() {
		if machine == p.machine {
			do()
		}
	})
}

// runProgram starts the program of a supervised rank. On a node with a failed device it fails once it has started.
func (w *world) runProgram(p *pod) {
	p.ran, p.programStart = true, w.now
	if w.nodes[p.Node].broken {
		w.later(p, w.Costs.RestartInPlace, func() { w.programEnds(p, 1) })
		return
	}
	w.setRunning(p, true)
	w.program.gather(w)
}

// programEnds ends the program of a supervised rank: by itself, or because it is stopped. Its container goes on.
func (w *world) programEnds(p *pod, code int32) {
	if p.programStart.IsZero() {
		return
	}
	exit := &wire.Exit{Code: code, StartedMicros: p.programStart.UnixMicro(), EndedMicros: w.now.UnixMicro()}
	p.programStart = time.Time{}
	p.Ready = p.Ready && !w.ReadyWhenTraining
	w.stopProcess(p)
	w.inform(p, epoch.Ended{Exit: exit})
}

// showTo gives a pod as the manager sees it what its supervisor reports.
func (s *supervisor) showTo(seen *gang.Pod) {
	if s.machine == nil {
		return
	}
	r := s.report
	seen.Process = &gang.Process{
		HeardSince: seen.StartedTime,
		State:      gang.ProcessState(r.State - wire.State_STATE_RUNNING), Epoch: r.Epoch, LastExit: exitOf(r.LastExit), LastExitEpoch: r.LastExitEpoch,
		Stopped: ofMicros(r.StoppedMicros), AtBarrier: ofMicros(r.BarrierMicros), Started: ofMicros(r.StartedMicros), Progressed: r.Progressed,
	}
	if exit := exitOf(r.Exit); exit != nil {
		seen.Failure.Containers, seen.LastExit = []gang.ContainerFailure{*exit}, exit
	}
}

func exitOf(e *wire.Exit) *gang.ContainerFailure {
	if e == nil {
		return nil
	}
	return &gang.ContainerFailure{
		Name: container, ExitCode: e.Code, Reason: "Error", StartedTime: ofMicros(e.StartedMicros), Time: ofMicros(e.EndedMicros),
	}
}

func ofMicros(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMicro(n).UTC()
}

// epochOf is the epoch that a pod is given with its gate.
func epochOf(l policies.Lift) int64 {
	n, _ := strconv.ParseInt(l.Annotations[v1alpha1.AnnotationEpoch], 10, 64) // without a supervisor there is none
	return n
}

// showsProgress reports whether supervisors notice the checkpoints of their programs.
func (s *Setup) showsProgress() bool {
	return s.supervised() && s.Job.Spec.Supervisor.Progress != nil && s.Job.Spec.Supervisor.Progress.CheckpointFile != ""
}

// progress has the supervisors of the ranks that train notice a checkpoint.
func (w *world) progress() {
	for _, p := range w.pods {
		if p.process.joined {
			w.inform(p, epoch.Progressed{})
		}
	}
}
