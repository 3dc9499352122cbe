package simulation

import (
	"math/rand/v2"
	"slices"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/supervisor/epoch"
	"github.com/lockstep-dev/lockstep/supervisor/wire"
)

// Supervised gangs: the programs of the ranks run under supervisors, which restart them in place. What a supervisor decides is the product's
// own; what it decides about, and what is between it and the manager, is the world's.

const (
	// supervisedShare is how many jobs there are for each one that has supervisors.
	supervisedShare = 4
	// exitStopped is the exit code of a program that SIGTERM ends.
	exitStopped = 128 + int32(syscall.SIGTERM)
)

// supervisor is that of a pod's program, and what it has to do with.
type supervisor struct {
	machine *epoch.Machine // nil while its container does not run
	kept    int64          // the highest epoch in the volume of the pod
	epoch   int64          // that the program runs in
	left    bool           // processes of the program are left
	// superseded is the epoch from which on no program of the pod starts by an order; 0 for none.
	superseded int64
	// givenUp is the last epoch in which it counted as dead, too: others start while its program is left.
	givenUp int64
	// placed reports whether the manager gives it a rank, where its name does not.
	placed bool
	// stopping, cleaning and forwarded are what it has begun: to stop all processes, to clean up, and to end with its container.
	stopping, cleaning, forwarded bool
	// warming reports whether it runs the warm-up of a spare, and warm whether one has ended well in some container of the pod.
	warming, warm bool
	// begun reports whether the program was started in some container of the pod.
	begun     bool
	stuck     bool // its processes cannot be stopped
	signalled bool // the kubelet has asked its container to end
	ordered   bool // what it does now follows an order
	alone     bool // its program was started without one

	copies  []int64 // steps of which the pod has a copy
	resumes int64   // the step that its program was told to resume from

	report *wire.Report // its last one
	// heard is the last report that the manager has on the stream that there is; nil where there is none. It is up once an order has come.
	// heardUntil is when the last stream with a report ended, and heardReached the epoch that its program had reached by then.
	heard                  *wire.Report
	heardSince, heardUntil time.Time
	heardReached           int64
	up                     bool
	told                   toldOrder
	// deaf is until when it reaches no manager.
	deaf time.Time
}

// drawSupervisor gives some jobs supervisors. It is drawn apart, so that the histories of other jobs are as they were.
func (t *tenant) drawSupervisor() {
	if t.supervision == nil || t.supervision.IntN(supervisedShare) > 0 || t.job.Spec.Tasks[1].Partition != nil {
		return
	}
	t.supervised = true
	spec := &v1alpha1.Supervisor{StopSeconds: new(int32(t.supervision.IntN(3) * 10))}
	if t.supervision.IntN(2) == 0 {
		spec.ManagerTimeoutSeconds = new(int32(t.supervision.IntN(4) * 30))
	}
	if t.supervision.IntN(4) == 0 {
		spec.Survivors = v1alpha1.SurvivorsKeep
	}
	if t.supervision.IntN(2) == 0 {
		spec.Progress = &v1alpha1.Progress{CheckpointFile: "/checkpoints/latest", MaxRestarts: new(int32(1))}
	}
	t.job.Spec.Supervisor = spec
	t.drawTakeOver(spec)
	t.countKinds()
	t.drawSupervisedRules(t.job)
}

// drawSupervisedRules has some rules of a supervised job restart programs in place.
func (t *tenant) drawSupervisedRules(job *v1alpha1.TrainingJob) {
	if !t.supervised {
		return
	}
	t.addProgramRule(job.Spec.RestartPolicy)
	for i := range job.Spec.Tasks {
		t.addProgramRule(job.Spec.Tasks[i].RestartPolicy)
	}
}

// addProgramRule adds a rule for programs that fail, or gives the last rule a step for them, or leaves them to the rules that there are.
func (t *tenant) addProgramRule(p *v1alpha1.RestartPolicy) {
	if p == nil || len(p.Rules) == 0 {
		return
	}
	again := v1alpha1.Step{Action: v1alpha1.RestartProcesses}
	switch t.supervision.IntN(6) {
	case 0:
	case 1:
		last := &p.Rules[len(p.Rules)-1]
		if !slices.ContainsFunc(last.Steps, func(s v1alpha1.Step) bool { return s.Action == v1alpha1.Ignore }) {
			last.Steps = slices.Concat([]v1alpha1.Step{again}, last.Steps)
			for i := range last.Steps[1:] {
				last.Steps[i+1].AfterSeconds += 10
			}
		}
	case 2:
		m := v1alpha1.Match{Events: []v1alpha1.EventType{v1alpha1.ProcessFailed, v1alpha1.ProcessStuck}}
		if t.supervision.IntN(2) == 0 {
			m.ExitCodes = &v1alpha1.ExitCodes{Operator: v1alpha1.ExitCodesIn, Values: []int32{2}}
		}
		action := []v1alpha1.Action{v1alpha1.RestartPod, v1alpha1.Ignore, v1alpha1.FailJob, v1alpha1.RestartTask}[t.supervision.IntN(4)]
		p.Rules = slices.Concat([]v1alpha1.Rule{{Name: "ends", Match: m, Steps: []v1alpha1.Step{{Action: action}}}}, p.Rules)
	default:
		after := int32(10 + t.supervision.IntN(120))
		steps := []v1alpha1.Step{again, {Action: v1alpha1.RestartPod, AfterSeconds: after}, {Action: v1alpha1.RestartJob, AfterSeconds: 3 * after}}
		p.Rules = slices.Concat([]v1alpha1.Rule{{Name: "again", Match: v1alpha1.Match{Events: []v1alpha1.EventType{v1alpha1.ProcessFailed}}, Steps: steps}}, p.Rules)
	}
}

// keepsSurvivors reports whether the programs of other ranks run on while that of one is restarted.
func (t *tenant) keepsSurvivors() bool {
	return t.supervised && t.job.Spec.Supervisor.Survivors == v1alpha1.SurvivorsKeep
}

// managerTimeout is how long a program that has failed waits for a manager.
func (t *tenant) managerTimeout() time.Duration {
	if at := t.job.Spec.Supervisor.ManagerTimeoutSeconds; at != nil {
		return seconds(*at)
	}
	return time.Minute
}

// containerRuns reports whether the container of a pod runs, with a program or with a supervisor alone.
func (p *pod) containerRuns() bool { return p.running || p.machine != nil }

// beginSupervisor begins in a container that starts.
func (t *tenant) beginSupervisor(p *pod) {
	standby := p.standby == v1alpha1.StandbySpare || p.standby == v1alpha1.StandbyRank
	restarted := p.LastExit != nil && (p.begun || !standby)
	p.supervisor = supervisor{kept: p.kept, deaf: p.deaf, copies: p.copies, superseded: p.superseded, warm: p.warm, begun: p.begun}
	p.machine = epoch.New(epoch.Options{Epoch: p.kept, Restarted: restarted, Standby: standby, WarmUp: t.warmUpTime(p), ManagerTimeout: t.managerTimeout(), Checkpoints: t.readable(p)})
	t.inform(p, epoch.Began{})
	t.require(Barrier, !p.running || p.epoch <= 1, "pod %s starts in epoch %d before its gang is there", p.Name, p.epoch)
}

// inform gives a supervisor an event, and does what it wants.
func (t *tenant) inform(p *pod, e epoch.Event) {
	if p.machine == nil {
		return
	}
	for _, a := range p.machine.Handle(t.now, e) {
		switch a := a.(type) {
		case epoch.Persist:
			t.require(Barrier, a.Epoch >= p.kept, "pod %s keeps epoch %d after %d", p.Name, a.Epoch, p.kept)
			p.kept = a.Epoch
		case epoch.Start:
			t.startProgram(p, a.Epoch, a.Order.GetResumeStep())
		case epoch.WarmUp:
			p.warming = true
		case epoch.Stop:
			p.stopping = true
			t.checkStop(p)
		case epoch.Clean:
			p.cleaning = true
		case epoch.Forward:
			p.forwarded = true
		case epoch.Report:
			p.report = a.Report
			t.changed("the supervisor of pod %s: %s in epoch %d", p.Name, a.State, a.Epoch)
			t.noteEpoch(p)
		case epoch.End:
			t.endContainer(p, int32(a.Code), p.fault)
			return
		}
	}
}

// noteEpoch has the program of a survivor that is kept go on in the epoch that its supervisor reports.
func (t *tenant) noteEpoch(p *pod) {
	if p.running && p.report.State == wire.State_STATE_RUNNING {
		p.epoch = p.report.Epoch
	}
}

// startProgram starts the program of a supervised rank, which resumes from a step.
func (t *tenant) startProgram(p *pod, e, step int64) {
	t.checkStart(p, e)
	if p.ordered && !slices.Contains(t.ghosts, p) {
		t.checkResume(p, e, step)
	}
	p.resumes = step
	p.running, p.left, p.begun, p.epoch, p.startTime, p.alone = true, true, true, e, t.now, !p.ordered
	t.changed("the program of pod %s starts in epoch %d", p.Name, e)
}

// endProgram ends the program of a supervised rank: by itself, or because somebody stops it.
func (t *tenant) endProgram(p *pod, code int32) {
	exit := &wire.Exit{Code: code, StartedMicros: p.startTime.UnixMicro(), EndedMicros: t.now.UnixMicro()}
	p.running, p.joined, p.abortAt, p.forwarded = false, false, time.Time{}, false
	t.changed("the program of pod %s ends with %d", p.Name, code)
	if t.probed && p.Ready {
		p.Ready = false
		p.setReadyCondition()
	}
	p.left = p.left && code != 0
	t.inform(p, epoch.Ended{Exit: exit})
}

// succeed ends the program of a rank with 0.
func (t *tenant) succeed(p *pod) {
	if p.machine != nil {
		t.endProgram(p, 0)
		return
	}
	p.Phase, p.Ready, p.running, p.StartedTime = corev1.PodSucceeded, false, false, time.Time{}
	t.changed("pod %s has succeeded", p.Name)
}

// kill ends the container of a pod at once, with all that runs in it.
func (t *tenant) kill(p *pod) { t.endContainer(p, 137, ownFault) }

// dropSupervisor forgets what ended with a container.
func (t *tenant) dropSupervisor(p *pod) {
	if p.machine != nil {
		t.disconnect(p)
		p.supervisor = supervisor{kept: p.kept, deaf: p.deaf, warm: p.warm, begun: p.begun}
	}
}

// runSupervisors lets every supervisor take its next step.
func (w *world) runSupervisors() {
	for _, t := range w.tenants {
		if !t.supervised {
			continue
		}
		for _, p := range slices.Clone(t.pods) {
			if p.machine != nil && !t.hesitates() {
				t.runSupervisor(p)
			}
		}
		t.runGhosts()
	}
}

// hesitates reports whether a supervisor skips its turn.
func (t *tenant) hesitates() bool { return !t.calm && t.supervision.IntN(2) == 0 }

// runSupervisor lets a supervisor finish what it has begun, and talk with the manager.
func (t *tenant) runSupervisor(p *pod) {
	if !t.nodes[p.Node].answers() {
		t.disconnect(p)
	}
	if !t.computes(p) {
		return
	}
	if at := p.machine.Deadline(); !at.IsZero() && !at.After(t.now) {
		t.inform(p, epoch.Expired{})
	}
	t.stepSupervisor(p)
	t.talk(p)
}

// stepSupervisor finishes what a supervisor has begun.
func (t *tenant) stepSupervisor(p *pod) {
	ordered := p.ordered
	p.ordered = true // the program that starts now was stopped by an order
	switch {
	case p.warming:
		t.stepWarmUp(p)
	case p.stopping && !p.stuck:
		p.stopping, p.left = false, false
		if p.running {
			t.endProgram(p, exitStopped)
		}
		t.inform(p, epoch.Gone{})
	case p.cleaning:
		p.cleaning = false
		t.inform(p, epoch.Cleaned{Checkpoints: t.readable(p)})
	case p.forwarded && p.running && !p.stuck:
		t.endProgram(p, exitStopped)
	}
	p.ordered = ordered
}

// terminate is a kubelet that asks a container to end. It reports whether the container is to be waited for.
func (t *tenant) terminate(p *pod) bool {
	if p.machine == nil || p.signalled || t.supervision.IntN(3) == 0 {
		return false
	}
	p.signalled = true
	t.happened("supervisor is asked to end")
	t.inform(p, epoch.Signalled{Signal: syscall.SIGTERM})
	return true
}

// nextExpiry is when the next supervisor gives up on the manager; zero for never.
func (t *tenant) nextExpiry(p *pod) time.Time {
	if p.machine == nil {
		return time.Time{}
	}
	return p.machine.Deadline()
}

// note gives a pod what its supervisor reports.
func note(p *gang.Pod, r *wire.Report) {
	p.Process = &gang.Process{
		State: gang.ProcessState(r.State - wire.State_STATE_RUNNING), Epoch: r.Epoch,
		LastExit: exitOf(r.LastExit), LastExitEpoch: r.LastExitEpoch, Progressed: r.Progressed,
		Stopped: ofMicros(r.StoppedMicros), AtBarrier: ofMicros(r.BarrierMicros), Started: ofMicros(r.StartedMicros),
		ResumeStep: r.ResumeStep,
	}
	if c := r.Checkpoints; c != nil {
		p.Process.Checkpoints = &gang.Checkpoints{Own: c.Own, Shared: c.Shared}
	}
	p.Completing = r.State == wire.State_STATE_SUCCEEDED
	exit := exitOf(r.Exit)
	switch {
	case r.State == wire.State_STATE_WARMING_UP:
		p.Process.WarmUpExit = exit
	case exit != nil:
		p.Failure.Containers, p.LastExit = []gang.ContainerFailure{*exit}, exit
	}
}

func exitOf(e *wire.Exit) *gang.ContainerFailure {
	if e == nil || e.Code == 0 {
		return nil
	}
	return &gang.ContainerFailure{
		Name: "train", ExitCode: e.Code, Reason: "Error", StartedTime: ofMicros(e.StartedMicros), Time: ofMicros(e.EndedMicros),
	}
}

func ofMicros(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMicro(n).UTC()
}

// supervisionOf is what is drawn about supervisors.
func supervisionOf(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 3)) }
