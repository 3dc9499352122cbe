// Package steps hears from a program how far it is: by a file that the program writes, by the status requests that Kubeflow Trainer's
// SDK and Hugging Face's trainer send, and by lines that it prints. All are in the container, so that no program waits for a manager.
package steps

import (
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/lockstep-dev/lockstep/supervisor/wire"
)

// Listener keeps what the program of an epoch has said last. It is safe for use by the doors and the supervisor side by side.
type Listener struct {
	mu   sync.Mutex
	run  int            // counts the programs
	said *wire.Progress // nil for nothing
	pace pace
	// began is when the program was started, and firstAfter how long after that it said its first step; zero while that is not known.
	began      time.Time
	firstAfter time.Duration
	// moved is when it said another step; zero before that.
	moved time.Time
}

// Reset forgets what an earlier program has said, save how long its steps took. Another one starts now.
func (l *Listener) Reset(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.run++
	l.began, l.firstAfter, l.moved = now, 0, time.Time{}
	l.said, l.pace = nil, pace{phases: l.pace.phases, took: l.pace.took, most: l.pace.most}
}

// program is the one that a door serves now. A door asks before it reads anything.
func (l *Listener) program() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.run
}

// Last is what the program has said; nil for nothing.
func (l *Listener) Last() *wire.Progress {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.said == nil {
		return nil
	}
	last := proto.CloneOf(l.said)
	if l.pace.heard > 0 {
		last.FirstStep, last.FirstStepMicros = new(l.pace.first), l.firstAfter.Microseconds()
	}
	if !l.moved.IsZero() {
		last.MovedMicros = l.moved.UnixMicro()
	}
	expected, overdue := l.pace.limits()
	last.Phases = l.pace.phases
	last.StepMicros, last.ExpectedMicros, last.OverdueMicros = l.pace.average.Microseconds(), expected.Microseconds(), overdue.Microseconds()
	return last
}

// TrainsSince is since when the program trains: its steps have come with pauses of two minutes at most. It is now in a longer one, and zero for a program that says no steps.
func (l *Listener) TrainsSince(now time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pace.trainsSince(now)
}

// hear takes what a program says now, if it is still the program. What it does not name stays. A program that says a phase says all of them.
func (l *Listener) hear(program int, now time.Time, p *wire.Progress) {
	l.take(program, now, p, p.GetPhase() != wire.Phase_PHASE_UNSPECIFIED)
}

// hearSome is hear of a program whose evaluations may be no phase.
func (l *Listener) hearSome(program int, now time.Time, p *wire.Progress) {
	l.take(program, now, p, false)
}

// Saved takes the step of a checkpoint that the program has saved. It is no step that others wait for: every rank may see the same checkpoint.
func (l *Listener) Saved(now time.Time, step int64) {
	l.hearSome(l.program(), now, &wire.Progress{CheckpointStep: &step})
}

func (l *Listener) take(program int, now time.Time, p *wire.Progress, allPhases bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if program != l.run {
		return
	}
	if l.said == nil {
		l.said = &wire.Progress{}
	}
	before := proto.CloneOf(l.said)
	proto.Merge(l.said, p)
	if l.said.GetPhase() != before.GetPhase() {
		l.pace.phase(now)
	}
	l.pace.phases = l.pace.phases || allPhases
	if p.Step != nil && (before.Step == nil || *before.Step != *p.Step) {
		if l.pace.first == 0 && !l.began.IsZero() { // a bar says 0 before it knows at which step it resumes
			l.firstAfter = now.Sub(l.began)
		}
		l.pace.step(now, before.GetStep(), *p.Step)
		l.moved = now
	}
}
