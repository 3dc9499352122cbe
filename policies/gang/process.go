// Processes: what the supervisors of pods report of the programs that they run.

package gang

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/instant"
)

// ProcessState is what a supervised program does.
type ProcessState int

// The states of a supervised program.
const (
	ProcessRunning ProcessState = iota
	// ProcessStopping means that processes of an earlier epoch are being stopped.
	ProcessStopping
	// ProcessWaiting means that nothing is left of earlier epochs, and the program waits for its gang.
	ProcessWaiting
	// ProcessFailed means that the program has ended with an error.
	ProcessFailed
	// ProcessSucceeded means that the program has ended with 0.
	ProcessSucceeded
	// ProcessTerminating means that the kubelet stops the container.
	ProcessTerminating
	// ProcessWarmingUp means that a spare runs its warm-up command, or tries it again later.
	ProcessWarmingUp
)

// Process is the last report of a supervisor whose stream is up.
type Process struct {
	// HeardSince is when the stream came up, by the manager's clock.
	HeardSince time.Time
	State      ProcessState
	// Epoch that the program runs in, has ended in, or waits to start in.
	Epoch int64
	// LastExit is how the program last ended by itself in an earlier epoch, LastExitEpoch; nil where it never has, or ended well.
	LastExit      *ContainerFailure
	LastExitEpoch int64
	// Times by the clock of the node; zero where the supervisor knows of none: when the last process of an earlier epoch had ended, when
	// the program was at the barrier of its epoch, and when it was started in it.
	Stopped, AtBarrier, Started time.Time
	// WarmUpExit is how the last warm-up ended that has failed; nil while one runs.
	WarmUpExit *ContainerFailure
	// Progressed reports whether the program has saved a checkpoint in its epoch.
	Progressed bool
	// Checkpoints that it could read at the barrier of its epoch; nil where that is not known.
	Checkpoints *Checkpoints
	// ResumeStep is the step that the program was told to resume from when it was started in its epoch; 0 for none.
	ResumeStep int64
	// ResumeScope is that of the folder which it was told to read that checkpoint from; empty where that is not known.
	ResumeScope v1alpha1.CheckpointScope
	// Activity is what all its processes do.
	Activity Activity
	// Waits is for how much of its last minutes of training it waited; nil where that is not known.
	Waits *Waits
	// Addresses of the pod, by which Collectives name it, and what NCCL says to this supervisor of the collectives of its mesh; nil for nothing.
	Addresses   []string
	Collectives *Collectives
}

// Checkpoints are the steps of checkpoints in folders that only the rank sees, and in those that all ranks do, each once.
type Checkpoints struct{ Own, Shared []int64 }

// Waits are the percentages for which a program waited at least, and at most, in four of five minutes.
type Waits struct{ Least, Most int32 }

// Collectives are the collective operations of connected communicators.
type Collectives struct {
	// Hosts is how many addresses the ranks have that they connect.
	Hosts int
	// StillSince is when it was first heard that no rank launched one any more; zero where ranks do.
	StillSince time.Time
	// Behind are the addresses of the ranks that the others wait for; none where that is not known.
	Behind []string
}

// Activity is what the processes of a program have done for some 20 s.
type Activity int

// Activities.
const (
	ActivityUnknown Activity = iota
	// ActivityBusy means that they use a processor.
	ActivityBusy
	// ActivityIdle means that they wait.
	ActivityIdle
	// ActivitySpinning means that they use a processor and wait, by what their GPUs do: these execute kernels and move no data.
	ActivitySpinning
	// ActivityBlocked means that one waits in the kernel and cannot be interrupted, as for a file system that does not answer.
	ActivityBlocked
	// ActivityStopped means that one is stopped, by a signal or a debugger.
	ActivityStopped
	// ActivityBehind means that they have launched fewer collectives than the others, which wait for them.
	ActivityBehind
)

// TrainingProgress is how far a program says that it is. What is nil or empty it has not said.
type TrainingProgress struct {
	// Epoch in which it said this.
	Epoch int64
	// Phases reports whether it says each phase that it is in.
	Phases bool

	Phase                            v1alpha1.TrainingPhase
	Step, TotalSteps, CheckpointStep *int64
	Percent                          *int32
	// FirstStep is the first one that it has said in the epoch.
	FirstStep *int64
	// FirstStepAfter is how long after the start of the program it said that; 0 where that is not known.
	FirstStepAfter time.Duration
	// StepTime is how long a step takes on average, Expected within how long the next one is expected, and Overdue how long none may come before one
	// is overdue whatever else is known, all by those of its container; 0 where that is not known.
	StepTime, Expected, Overdue time.Duration
	// MovedTime is when the manager first heard of the step and the phase.
	MovedTime time.Time
	// SaidTime is when the program said the step, by the clock of its node; zero where that is not known.
	SaidTime time.Time
}

// IsEmpty reports whether the program has said nothing at all.
func (t *TrainingProgress) IsEmpty() bool {
	return t.Phase == "" && t.Step == nil && t.TotalSteps == nil && t.CheckpointStep == nil && t.Percent == nil
}

// IsSupervised reports whether the programs of a task's ranks have supervisors.
func (g *Gang) IsSupervised(task string) bool {
	return g.Job.Spec.Supervisor != nil && !g.IsIndependent(task) && g.Task(task) != nil
}

// KeepsSurvivors reports whether the programs of other ranks go on while that of one is restarted, for they heal themselves.
func (g *Gang) KeepsSurvivors() bool {
	return g.Job.Spec.Supervisor != nil && g.Job.Spec.Supervisor.Survivors == v1alpha1.SurvivorsKeep
}

// ProcessFailed reports whether the program of a pod has ended with an error in the epoch of the gang.
func (g *Gang) ProcessFailed(p *Pod) bool {
	return p.Process != nil && p.Process.State == ProcessFailed && p.Process.Epoch >= g.epoch
}

// AwaitsGang reports whether the program of a pod is being restarted with its gang: it is stopped, waits for the others, or starts. Of a node
// that does not answer the last report may still be there.
func (g *Gang) AwaitsGang(p *Pod) bool {
	return g.restarting && p.Process != nil && g.mayJoin(p) && !g.ProcessFailed(p)
}

// AwaitsSupervisors reports whether a pod is ready while its gang is being restarted, and no supervisor is heard, as where all others have yet to
// start: nothing tells that its own is at fault.
func (g *Gang) AwaitsSupervisors(p *Pod) bool {
	return g.restarting && !g.heard && g.mayJoin(p) && p.IsHealthy() && p.Disrupted == ""
}

// mayJoin reports whether a pod stays, and can join a run of its gang.
func (g *Gang) mayJoin(p *Pod) bool {
	return g.IsSupervised(p.Task) && !p.Deleting && g.Nodes[p.Node].Ready
}

// isAway reports whether the program of a rank does not train. While the gang is being restarted none does before all run in its
// epoch. At other times, and where no supervisor reaches the manager, one that is not heard counts as running: nothing is known of it.
func (g *Gang) isAway(s *v1alpha1.TrainingJobStatus, p *Pod) bool {
	switch {
	case !g.IsSupervised(p.Task) || p.Spare:
		return false
	case g.KeepsSurvivors():
		return p.Process != nil && p.Process.State != ProcessRunning
	case Restarts(s) && !g.Unheard(s):
		return !g.trains(s)
	}
	return p.Process != nil && (p.Process.Epoch < s.Epoch || p.Process.State != ProcessRunning)
}

// Gathers reports whether the gang is being restarted, as far as supervisors tell, and has yet to run as a whole. Programs that heal themselves do
// not wait for each other.
func (g *Gang) Gathers(s *v1alpha1.TrainingJobStatus) bool {
	return !g.KeepsSurvivors() && Restarts(s) && !g.Unheard(s) && !g.trains(s)
}

// trains reports whether every rank that the gang needs runs in its epoch, and is ready.
func (g *Gang) trains(s *v1alpha1.TrainingJobStatus) bool {
	if g.training == nil || g.training.epoch != s.Epoch {
		g.training = &training{epoch: s.Epoch, all: g.everyProcess(s, s.Epoch, func(p *Pod) bool {
			return (p.Process.State == ProcessRunning && p.IsHealthy()) || p.Process.State == ProcessSucceeded
		})}
	}
	return g.training.all
}

// training is whether all ranks run in an epoch.
type training struct {
	epoch int64
	all   bool
}

// Restarts reports whether the gang is on its way to its present epoch, as far as the status tells: an incident that raised it is open.
func Restarts(s *v1alpha1.TrainingJobStatus) bool {
	for i := range s.Incidents {
		if inc := &s.Incidents[i]; inc.Outcome == "" && inc.Epoch > 0 && inc.Epoch == s.Epoch {
			return true
		}
	}
	return false
}

// AtBarrier reports whether every rank that the gang needs has reached its epoch: nothing of an earlier epoch is left of any. Programs
// that heal themselves have no barrier.
func (g *Gang) AtBarrier(s *v1alpha1.TrainingJobStatus) bool {
	return g.KeepsSurvivors() || g.everyProcess(s, s.Epoch, func(p *Pod) bool {
		return p.Process.State != ProcessStopping && p.Process.State != ProcessTerminating && p.Process.State != ProcessWarmingUp
	})
}

// ResumeStep is the step that the programs of an epoch resume from: what those that have started were told, or else the newest of which every rank can read a checkpoint. It is 0
// where there is none, or not all is known.
func (g *Gang) ResumeStep(s *v1alpha1.TrainingJobStatus) int64 {
	if g.KeepsSurvivors() {
		return 0
	}
	readable, ranks, known := map[int64]int{}, 0, true
	var started *Process
	all := g.everyProcess(s, s.Epoch, func(p *Pod) bool {
		ranks++
		if p.Process.State == ProcessRunning || p.Process.State == ProcessSucceeded {
			started = p.Process
		}
		c := p.Process.Checkpoints
		if c == nil {
			known = false
			return true
		}
		for _, step := range c.Own {
			readable[step]++
		}
		return true
	})
	switch {
	case started != nil:
		return started.ResumeStep
	case !all || !known:
		return 0
	}
	newest := g.newestShared(s.Epoch)
	for step, by := range readable {
		if by == ranks {
			newest = max(newest, step)
		}
	}
	return newest
}

// newestShared is the newest step that all ranks see. It is there where one pod of the epoch has found it: another one may have looked before it was written, as
// by the program of a rank that moves, whose former pod is a spare's by now.
func (g *Gang) newestShared(epoch int64) (newest int64) {
	for i := range g.Pods {
		p := g.Pods[i].Process
		if p == nil || p.Epoch != epoch || p.Checkpoints == nil {
			continue
		}
		for _, step := range p.Checkpoints.Shared {
			newest = max(newest, step)
		}
	}
	return newest
}

// SeesAllStart reports whether the program of every rank that the gang needs is seen to have started in the epoch that the gang had when it
// was observed, on a node that answers. Survivors that are kept may have started before.
func (g *Gang) SeesAllStart(s *v1alpha1.TrainingJobStatus) bool {
	return g.everyProcess(s, g.epoch, func(p *Pod) bool {
		started := p.Process.State == ProcessRunning || p.Process.State == ProcessFailed || p.Process.State == ProcessSucceeded
		return started && g.Nodes[p.Node].Ready
	})
}

// everyProcess reports whether each rank that the gang needs has reached an epoch, and f holds for its pod. A
// rank that has completed is not needed, nor a replica beyond the gang that has yet to find its first node.
func (g *Gang) everyProcess(s *v1alpha1.TrainingJobStatus, epoch int64, f func(*Pod) bool) bool {
	all := true
	EachRank(g.Effective, func(r Rank) {
		p := g.Pod(r)
		if !g.IsSupervised(r.Task) || IsCompleted(s, r) || (p != nil && p.Succeeded() && !IsStale(s, p)) || g.IsNew(s, r, p) {
			return
		}
		all = all && p != nil && !p.Gated && !p.Deleting && !IsStale(s, p) &&
			p.Process != nil && (p.Process.Epoch == epoch || g.KeepsSurvivors()) && f(p)
	})
	return all
}

// IsNew reports whether a rank has yet to find its first node while the gang has its place: a replica beyond the gang. A pod that is to be
// replaced may have found one: the cache may be behind, and reports may come before it shows the node.
func (g *Gang) IsNew(s *v1alpha1.TrainingJobStatus, r Rank, p *Pod) bool {
	return s.Placement != nil && NodeOf(s.Placement, r) == "" && (p == nil || (p.Node == "" && p.Process == nil && !IsStale(s, p)))
}

// ExitBefore is how the program of a pod ended by itself in the epoch before that of the gang, if it has: known only after another
// exit had raised the epoch.
func (g *Gang) ExitBefore(p *Pod) *ContainerFailure {
	if !g.restarting || p == nil || p.Process == nil || p.Process.LastExitEpoch != g.epoch-1 {
		return nil
	}
	return p.Process.LastExit
}

// AnySupervisor reports whether a supervisor of the gang is heard.
func (g *Gang) AnySupervisor() bool { return g.heard }

// HeardBy is when all supervisors will have had the time to be heard since the first of those that are; what kept it from the manager before
// may have kept them. It means nothing where none is heard.
func (g *Gang) HeardBy() time.Time { return g.heardSince.Add(HeardWithin) }

// UnheardUntil is until when a pod that runs, and is not heard, may yet be heard; zero where that has passed, and for any other pod, of which there may be none.
func (g *Gang) UnheardUntil(p *Pod) time.Time {
	if p == nil || p.Process != nil || p.Phase != corev1.PodRunning {
		return time.Time{}
	}
	at := instant.Latest(instant.Latest(g.ListensSince, p.HeardUntil), p.StartedTime).Add(HeardWithin)
	if !at.After(g.Now) {
		return time.Time{}
	}
	return at
}

// HeardWithin is how long supervisors have to be heard by a manager that has just started, or once their container or another one of their gang
// has been: 30 s at most between two tries to connect, and as much again.
const HeardWithin = time.Minute

// Unheard reports whether no supervisor of the gang is heard although all have had the time, as where a NetworkPolicy keeps them from the
// manager.
func (g *Gang) Unheard(s *v1alpha1.TrainingJobStatus) bool {
	return !g.AnySupervisor() && !g.UnheardAt(s).After(g.Now)
}

// UnheardAt is when the last supervisor of the gang will have had the time to be heard; of one that has yet to start not before it has.
func (g *Gang) UnheardAt(s *v1alpha1.TrainingJobStatus) time.Time {
	if !g.unheardAt.IsZero() {
		return g.unheardAt
	}
	at := g.ListensSince
	EachRank(g.Effective, func(r Rank) {
		if p := g.Pod(r); p != nil && g.IsSupervised(r.Task) && !IsStale(s, p) {
			started := p.StartedTime
			if started.IsZero() {
				started = g.Now
			}
			at = instant.Latest(at, started)
		}
	})
	g.unheardAt = at.Add(HeardWithin)
	return g.unheardAt
}

// processEnded reports whether the program of a pod does not run, as its supervisor reports.
func (p *Pod) processEnded() bool { return p.Process != nil && p.Process.State != ProcessRunning }
