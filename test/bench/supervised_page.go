// The page of supervisors: the figures of programs restarted together.

package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/test/readme"
)

// The goals, for each restart.
const (
	maxRestart      = 2 * time.Second // from the exit of a program until all run again
	maxStatusWrites = 2               // the step, and the recovery

	statusWrite = "update trainingjobs/status"
)

// supervisedResults are those of one gang.
type supervisedResults struct {
	ranks      int
	connecting time.Duration // from the start of the supervisors until all have a stream
	// alone and connected are the memory of the manager before the supervisors connect and after that, in MiB.
	alone, connected int
	restarts         []*programRestart
	peers            samples // of Volcano's RestartJob at the same size
}

// programRestart is one restart of all programs.
type programRestart struct {
	// failed is when a program ended. recorded is when the watch showed the next epoch, waiting when the last rank waited for it,
	// running when the last program started in it, and recovered when the watch showed the end of the incident.
	failed, recorded, waiting, running, recovered time.Time
	writes                                        writes
	// processor is what the manager computed until nothing was left to do, and supervisors what all of them together did.
	processor, supervisors time.Duration
	memory                 int // of the manager at the end, in MiB
}

func (r *programRestart) toRecord() time.Duration   { return r.recorded.Sub(r.failed) }
func (r *programRestart) toWait() time.Duration     { return r.waiting.Sub(r.failed) }
func (r *programRestart) toRun() time.Duration      { return r.running.Sub(r.failed) }
func (r *programRestart) toRecovery() time.Duration { return r.recovered.Sub(r.failed) }

// statuses are the writes of the TrainingJob's status.
func (r *programRestart) statuses() int { return r.writes.kinds[statusWrite] }

// others are the writes of anything but that status and Events.
func (r *programRestart) others() int { return total(r.writes.kinds) - r.statuses() }

func (r *programRestart) events() int { return r.writes.events }

func (r *programRestart) String() string {
	return fmt.Sprintf("recorded after %s ms, all wait after %s ms and run after %s ms, recovered after %s ms; %s, events %d; %s s of processor, the supervisors %s s, %d MiB",
		millis(r.toRecord()), millis(r.toWait()), millis(r.toRun()), millis(r.toRecovery()),
		r.writes, r.writes.events, seconds(r.processor), seconds(r.supervisors), r.memory)
}

// of is one figure of every restart.
func of[T any](restarts []*programRestart, figure func(*programRestart) T) []T {
	out := make([]T, 0, len(restarts))
	for _, r := range restarts {
		out = append(out, figure(r))
	}
	return out
}

func renderSupervised(r *supervisedResults, v readme.Versions) string {
	p := &page{}
	p.line("Kubernetes %s, Volcano %s, KWOK %s: one TrainingJob of %d ranks with `spec.supervisor`. Pods and programs are simulated: to start or", v.Kubernetes, v.Volcano, v.KWOK, r.ranks)
	p.line("stop a program takes no time. The %d supervisors run in one process, each with its own connection, a token of its pod, and the code of", r.ranks)
	p.line("`lockstep-run`. One program fails, %d times in turn. Goals are for the worst.", len(r.restarts))
	p.line("")
	p.restartTimes(r)
	p.restartCosts(r)
	p.misses()
	return p.String()
}

// restartTimes is the table of what happens when.
func (p *page) restartTimes(r *supervisedResults) {
	p.line("| from the exit of a program until | median (10th–90th) | worst | goal |")
	p.line("| --- | ---: | ---: | --- |")
	for _, row := range []struct {
		until string
		took  func(*programRestart) time.Duration
		limit time.Duration
	}{
		{"the step is recorded, and seen", (*programRestart).toRecord, 0},
		{fmt.Sprintf("all %d ranks wait", r.ranks), (*programRestart).toWait, 0},
		{fmt.Sprintf("all %d run in the next epoch", r.ranks), (*programRestart).toRun, maxRestart},
		{"the incident is `Recovered`, and that is seen", (*programRestart).toRecovery, 0},
	} {
		times, goal := of(r.restarts, row.took), ""
		worst := quantile(times, 1)
		if row.limit > 0 {
			goal = p.checker.within("from the exit of a program until "+row.until, worst, row.limit, len(times))
		}
		p.line("| %s | %s ms | %s ms | %s |", row.until, spread(times), millis(worst), goal)
	}
	if len(r.peers) > 0 {
		p.line("| Volcano's RestartJob has all %d pods run again, %d times | %s | %s s |  |", r.ranks, len(r.peers), r.peers, seconds(quantile(r.peers.times(), 1)))
	}
	p.line("")
}

// restartCosts is the table of what a restart takes.
func (p *page) restartCosts(r *supervisedResults) {
	p.line("What one restart costs, until nothing is left to do:")
	p.line("")
	p.line("| of one restart | median | worst | goal |")
	p.line("| --- | ---: | ---: | --- |")
	for _, row := range []struct {
		what  string
		count func(*programRestart) int
		limit int
	}{
		{"writes of the TrainingJob's status", (*programRestart).statuses, maxStatusWrites},
		{"writes of Events", (*programRestart).events, 0},
		{"other writes" + r.otherKinds(), (*programRestart).others, 0},
	} {
		counts, goal := of(r.restarts, row.count), ""
		if row.limit > 0 {
			goal = p.checker.most(row.what+" in one restart", most(counts), row.limit)
		}
		p.line("| %s | %d | %d | %s |", row.what, median(counts), most(counts), goal)
	}
	for _, row := range []struct {
		what string
		took func(*programRestart) time.Duration
	}{
		{"the manager's processor time", func(r *programRestart) time.Duration { return r.processor }},
		{"that of all supervisors together", func(r *programRestart) time.Duration { return r.supervisors }},
	} {
		times := of(r.restarts, row.took)
		p.line("| %s | %s s | %s s |  |", row.what, seconds(median(times)), seconds(quantile(times, 1)))
	}
	p.line("")
}

// otherKinds names the writes of anything but the status.
func (r *supervisedResults) otherKinds() string {
	kinds := map[string]int{}
	for _, restart := range r.restarts {
		maps.Copy(kinds, restart.writes.kinds)
	}
	delete(kinds, statusWrite)
	if len(kinds) == 0 {
		return ""
	}
	return ": " + strings.Join(slices.Sorted(maps.Keys(kinds)), ", ")
}
