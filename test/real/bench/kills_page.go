// The table of killed programs.

package main

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/test/readme"
)

const killsPreface = `Kubernetes %s, on %d cores. A gang has a rack of %d nodes of %d GPUs. One program after the other is killed, each time that
of another rank, as soon as the gang has made %d steps since the last time. Times are from the kill until the last of all ranks *trained* a step; had its
program *started*, by its supervisor or, without one, by its own first line; had *stopped*, with no process left; was *told* to stop, if its program had not ended. Medians and
ranges, from the containers' logs, of which the first is read %g s after the kill. The *start-up* is the program's own, from its start to the
step: Python, the rendezvous and the checkpoint, of all ranks on these cores. torchrun's jobs have ` + "`stopSeconds: %d`" + `: it saves nothing on SIGTERM. The
trainer's losses are compared with those of a run that nothing disturbed, and torchrun's, of steps that are done again, with each other.
%s
`

func renderKills(all []*series, o *options, v readme.Versions) string {
	p := &killsPage{}
	fmt.Fprintf(p, killsPreface, v.Kubernetes, runtime.NumCPU(), nodesPerRack, gpusPerNode, between, settling.Seconds(), o.torchStop, o.circumstances())
	p.WriteString("| program | ranks | kills | trained | started | goal | stopped | told | start-up |\n")
	p.WriteString("| --- | ---: | ---: | ---: | ---: | --- | ---: | ---: | ---: |\n")
	for _, s := range all {
		p.times(s)
	}
	p.WriteString("\n| program | started, of the first kill | of the tenth | of the last | medians of both halves | goal | pods replaced | containers restarted | losses |\n")
	p.WriteString("| --- | ---: | ---: | ---: | ---: | --- | ---: | ---: | --- |\n")
	for _, s := range all {
		p.touched(s)
	}
	p.WriteString("\n" + p.checker.String())
	return p.String()
}

// circumstances says that the machine ran other work, where it did.
func (o *options) circumstances() string {
	if o.busy {
		return "The machine ran other work beside.\n"
	}
	return ""
}

type killsPage struct {
	strings.Builder
	checker checker
}

// title names a series.
func (s *series) title() string {
	if s.supervised {
		return s.program + ", with supervisors"
	}
	return s.program + ", without"
}

// times is the row of how long it took.
func (p *killsPage) times(s *series) {
	started, told, stopped, goal := figures(s.kills, kill.toStart), "–", "–", ""
	if s.supervised {
		told = fine(slices.DeleteFunc(figures(s.kills, kill.toTell), func(d time.Duration) bool { return d < 0 }))
		stopped = fine(figures(s.kills, kill.toStop))
		goal = p.checker.within("from the kill until all programs are started, "+s.title(), started, maxRestart)
	}
	fmt.Fprintf(p, "| %s | %d | %d | %s | %s | %s | %s | %s | %s |\n", s.title(), s.ranks, len(s.kills),
		fine(figures(s.kills, kill.toTrain)), fine(started), goal, stopped, told, fine(figures(s.kills, kill.startUp)))
}

// touched is the row of whether it grows, and of what else has changed.
func (p *killsPage) touched(s *series) {
	started := figures(s.kills, kill.toStart)
	half := (len(started) + 1) / 2
	first, second, goal := median(started[:half]), median(started[half:]), ""
	losses := sameBits
	if s.losses != "" {
		losses = s.losses
	}
	if s.supervised {
		what := s.title() + ", "
		goal = p.checker.ratio(what+"the second half of the kills against the first", second.Seconds()/first.Seconds(), maxGrowth) + " ×"
		p.checker.none(what+"pods replaced", s.replaced)
		p.checker.none(what+"containers restarted", s.restarted)
		p.checker.none(what+"phases that changed", len(s.phases))
		if s.losses != "" {
			p.checker.miss(what+"losses", sameBits, s.losses)
		}
	}
	fmt.Fprintf(p, "| %s | %s | %s | %s | %s, %s | %s | %d | %d | %s |\n", s.title(), nth(started, 1), nth(started, 10), nth(started, len(started)),
		seconds(first), seconds(second), goal, s.replaced, s.restarted, losses)
}

// nth is one of the times, from 1.
func nth(times []time.Duration, n int) string {
	if n < 1 || n > len(times) {
		return "–"
	}
	return seconds(times[n-1])
}

// figures is one figure of every kill, in their order.
func figures(kills []kill, figure func(kill) time.Duration) []time.Duration {
	var out []time.Duration
	for _, k := range kills {
		out = append(out, figure(k))
	}
	return out
}
