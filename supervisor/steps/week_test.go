package steps

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/supervisor/wire"
)

var (
	weekJobs = flag.Int("jobs", 10, "how many jobs train for a week")
	weekSeed = flag.Uint64("week-seed", 1, "seed of their draws")
	weekJSON = flag.String("week-json", "", "file that lists what was counted")
)

// run is a job that trains, as the doors see it: they look each second.
type run struct {
	dice *rand.Rand
	l    Listener      // of one container for the whole week
	now  time.Duration // since the job began
	step int64
	seen int64 // the second of the last look

	named      bool          // the program says its phases
	each       time.Duration // a step
	every      int64         // steps from one that it says to the next, as those of a log
	evaluate   int64         // every so many steps
	save       int64
	recoveries float64 // an hour
	alarms     []string
	// missed is for how long a step was expected that had not come: beside a silent node the gang would have counted as down.
	missed time.Duration
}

// drawRun draws a job: steps of 50 ms to a minute, of which each, each tenth or each hundredth is said, and one in a thousand takes four times as long, and the first of a run 132 times, ten minutes at most; evaluations as long as
// fifty steps; checkpoints of up to a minute; a restart of its programs every few hours.
func drawRun(seed, job uint64) *run {
	dice := rand.New(rand.NewPCG(seed, job))
	return &run{
		dice: dice, named: dice.IntN(2) == 0, every: []int64{1, 10, 100}[dice.IntN(3)], each: time.Duration(float64(50*time.Millisecond) * math.Pow(1200, dice.Float64())),
		evaluate: 200 + dice.Int64N(1800), save: 100 + dice.Int64N(900), recoveries: dice.Float64() / 4,
	}
}

// trainUntil trains until a time, and until a run has made two steps, and notes each moment in which a step was overdue.
func (r *run) trainUntil(end time.Duration) {
	first := true
	for r.now < end || r.l.pace.heard < 2 {
		took := time.Duration(float64(r.each) * (0.95 + r.dice.Float64()/10))
		switch {
		case first:
			took = min(132*took, 10*time.Minute)
		case r.dice.IntN(1000) == 0:
			took *= 4
		}
		first = false
		r.passes(took)
		r.step++
		if r.step%r.every == 0 {
			r.look(r.step)
		}
		if r.step%r.evaluate == 0 {
			r.other(wire.Phase_PHASE_EVALUATE, 50*r.each)
		}
		if r.step%r.save == 0 {
			r.other(wire.Phase_PHASE_CHECKPOINT, time.Duration(r.dice.Int64N(int64(time.Minute))))
		}
		if r.dice.Float64() < r.recoveries*took.Hours() {
			r.l.Reset(t0.Add(r.now))
			r.now += time.Duration(r.dice.Int64N(int64(10 * time.Minute)))
			first = true
		}
	}
}

// other is a phase without steps.
func (r *run) other(phase wire.Phase, d time.Duration) {
	if r.named {
		r.l.hear(r.l.program(), t0.Add(r.now), &wire.Progress{Phase: phase})
		r.now += d
		r.l.hear(r.l.program(), t0.Add(r.now), &wire.Progress{Phase: wire.Phase_PHASE_TRAIN})
		return
	}
	r.passes(d)
}

// passes lets time pass without a step. It is an alarm if one is overdue by then.
func (r *run) passes(d time.Duration) {
	if d > expectedShortest/2 {
		expected, overdue := r.l.pace.limits()
		if overdue > 0 && r.sinceLast()+d > overdue {
			r.alarms = append(r.alarms, fmt.Sprintf("at %s: no step for %s, overdue after %s", r.now, r.sinceLast()+d, overdue))
		}
		if expected > 0 {
			r.missed += min(d, max(0, r.sinceLast()+d-expected))
		}
	}
	r.now += d
}

func (r *run) sinceLast() time.Duration {
	if r.l.pace.last.IsZero() {
		return 0
	}
	return r.now - r.l.pace.last.Sub(t0)
}

func (r *run) overdue() time.Duration {
	_, overdue := r.l.pace.limits()
	return overdue
}

// look has a door see a step, in the second after it was made, and only the last of a second.
func (r *run) look(step int64) {
	second := int64(r.now / time.Second)
	if second == r.seen {
		return
	}
	r.seen = second
	said := &wire.Progress{Step: &step}
	if r.named {
		said.Phase = wire.Phase_PHASE_TRAIN
	}
	r.l.hear(r.l.program(), t0.Add(time.Duration(second)*time.Second), said)
}

// No step of a healthy job is ever overdue, and each hang between two steps is seen, but for those before anything is known of the steps. Nothing is said here of hangs
// in the first step of a run, and in a phase that the program names: there the clock stands.
func TestAWeekOfSteps(t *testing.T) {
	const week, hangsOfTen = 7 * 24 * time.Hour, 2
	var steps int64
	hangs, seen := 0, 0
	var longest, missed time.Duration
	for job := range *weekJobs {
		r := drawRun(*weekSeed, uint64(job))
		hang := week
		if job%10 < hangsOfTen {
			hang = time.Duration(r.dice.Int64N(int64(week)))
		}
		r.trainUntil(hang)
		steps += r.step
		missed += r.missed
		for _, alarm := range r.alarms {
			t.Errorf("job %d of seed %d, whose steps take %s, which says each %dth and %s its phases: %s", job, *weekSeed, r.each, r.every, map[bool]string{true: "says", false: "does not say"}[r.named], alarm)
		}
		if hang < week {
			hangs++
			if late := r.overdue(); late > 0 {
				seen++
				longest = max(longest, late)
			}
		}
	}
	share := missed.Hours() / (float64(*weekJobs) * week.Hours())
	t.Logf("%d jobs, %d steps; %d of %d hangs are seen, the last after %s; a step was expected and had not come for %.2g of the time", *weekJobs, steps, seen, hangs, longest, share)
	if *weekJSON != "" && !t.Failed() {
		commit, err := exec.Command("git", "log", "-1", "--format=%H", "--", ".").Output()
		must(t, err)
		text, err := json.MarshalIndent(map[string]any{
			"commit": strings.TrimSpace(string(commit)), "seed": *weekSeed, "jobs": *weekJobs, "steps": steps, "falseStalls": 0, "hangs": hangs, "hangsSeen": seen, "missedShare": share,
		}, "", "  ")
		must(t, err)
		must(t, os.WriteFile(*weekJSON, append(text, '\n'), 0o600))
	}
	if seen*100 < hangs*99 {
		t.Errorf("%d of %d hangs are seen", seen, hangs)
	}
}
