// What the processes of the program do: whether they use a processor, wait, or are stopped.

package process

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// Activity is what all processes of the program have done over the last samples.
type Activity int

// Activities.
const (
	// Unknown is that of a program of which there are too few samples.
	Unknown Activity = iota
	// Busy processes use a processor.
	Busy
	// Idle ones wait.
	Idle
	// Blocked ones are idle, and one was in an uninterruptible wait in each sample.
	Blocked
	// Stopped ones are idle, and one was stopped in each sample, by a signal or a debugger.
	Stopped
)

// samplePeriod is the time between two samples, and samples how many an activity is of.
const (
	samplePeriod = 10 * time.Second
	samples      = 3
)

// busyShare is the part of one processor from which on processes are busy.
const busyShare = 0.02

// Shown is what the last samples show.
type Shown struct {
	Activity Activity
	// Waits is for how long the program waited; nil where that is not known.
	Waits *Waits
}

// sample is what the processes do at a time.
type sample struct {
	at               time.Time
	used, wanted     map[identity]time.Duration
	blocked, stopped bool
}

// Sampler keeps the last samples of a program.
type Sampler struct {
	keeper *Keeper
	last   []sample
	// workers are processes that torchrun has started, or has not.
	workers map[identity]bool
}

// NewSampler returns a sampler of a keeper's processes.
func NewSampler(k *Keeper) *Sampler { return &Sampler{keeper: k, workers: map[identity]bool{}} }

// Run takes samples until the context ends, and sends what each and those before it show.
func (s *Sampler) Run(ctx context.Context, shown chan<- Shown) {
	ticker := time.NewTicker(samplePeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			select {
			case shown <- s.sample(time.Now()): // a ticker's time is when it was due
			case <-ctx.Done():
				return
			}
		}
	}
}

// sample takes a sample, and returns what all of the last ones show. Threads besides the first are looked at only where the processes are idle: there may be many.
func (s *Sampler) sample(now time.Time) Shown {
	s.keeper.mu.Lock()
	program, all := s.keeper.program, s.keeper.descendants()
	s.keeper.mu.Unlock()
	return s.take(now, program, all)
}

func (s *Sampler) take(now time.Time, program int, all []process) Shown {
	next := sample{at: now, used: map[identity]time.Duration{}, wanted: map[identity]time.Duration{}}
	for _, p := range all {
		next.used[p.identity] = p.used
		next.stopped = next.stopped || p.state == "T" || p.state == "t"
		next.blocked = next.blocked || p.state == "D"
	}
	for _, p := range s.trainers(program, all) {
		if n, known := wanted(p.pid); known {
			next.wanted[p] = n
		}
	}
	if n := len(s.last); n > 0 && !busy(s.last[n-1], next) {
		next.blocked = next.blocked || slices.ContainsFunc(all, anyThreadBlocked)
	}
	if s.last = append(s.last, next); len(s.last) > waitSamples {
		s.last = s.last[1:]
	}
	if n := len(s.last) - samples; n > 0 {
		s.last[n-1].used = nil // only waits are of so many samples
	}
	maps.DeleteFunc(s.workers, func(p identity, _ bool) bool {
		_, lives := next.used[p]
		return !lives
	})
	return Shown{Activity: activity(s.last[max(0, len(s.last)-samples):]), Waits: waits(s.last)}
}

// activity is what all samples show.
func activity(of []sample) Activity {
	if len(of) < samples {
		return Unknown
	}
	all := func(is func(sample) bool) bool {
		return !slices.ContainsFunc(of, func(one sample) bool { return !is(one) })
	}
	switch {
	case busy(of[0], of[len(of)-1]):
		return Busy
	case all(func(one sample) bool { return one.stopped }):
		return Stopped
	case all(func(one sample) bool { return one.blocked }):
		return Blocked
	}
	return Idle
}

// busy reports whether the processes have used a processor between two samples.
func busy(first, last sample) bool {
	var used time.Duration
	for p, n := range last.used {
		used += n - first.used[p] // 0 of one that is new
	}
	return used.Seconds() >= busyShare*last.at.Sub(first.at).Seconds()
}

// anyThreadBlocked reports whether a thread of a process is in an uninterruptible wait. The state of the process itself is that of its first.
func anyThreadBlocked(p process) bool {
	threads, _ := filepath.Glob("/proc/" + strconv.Itoa(p.pid) + "/task/*/stat")
	return slices.ContainsFunc(threads, func(file string) bool {
		stat, err := os.ReadFile(file)
		if err != nil {
			return false
		}
		thread, ok := parseStat(p.pid, stat)
		return ok && thread.state == "D"
	})
}
