// The page of take-overs: gangs of several sizes that lose nodes, and the leader of their manager.

package main

import (
	"fmt"
	"time"

	"github.com/lockstep-dev/lockstep/test/readme"
)

// takeOverResults are those of one gang.
type takeOverResults struct {
	ranks      int
	connecting time.Duration // from the start of the supervisors until all have a stream
	// alone and connected are the memory of the manager before the supervisors connect and after that, and after is that of the next leader, in MiB.
	alone, connected, after int
	losses                  []*takenOver
	// led and heard are from the end of the leader until the next one hears a supervisor, and all of them. changed is what it wrote.
	led, heard time.Duration
	changed    writes
}

// takenOver is the loss of a node, whose ranks are taken over.
type takenOver struct {
	programRestart
	before map[string]int // writes before all ranks ran
}

// toRun are the times of all losses.
func (r *takeOverResults) toRun() (times []time.Duration) {
	for _, l := range r.losses {
		times = append(times, l.toRun())
	}
	return times
}

// figure is the most of a figure of all losses.
func (r *takeOverResults) most(figure func(*takenOver) int) (out int) {
	for _, l := range r.losses {
		out = max(out, figure(l))
	}
	return out
}

// perStream is the memory of a stream, in KiB.
func (r *takeOverResults) perStream() int {
	return (r.connected - r.alone) * 1024 / (r.ranks + takeOverSpares)
}

func renderTakeOver(r *results, v readme.Versions) string {
	p := &page{limits: readLimits()}
	p.line("Kubernetes %s: gangs with %d ranks on a node, and %d spares. Volcano and kubelets are played. %d nodes are deleted in turn, rank 0's first. Then the", v.Kubernetes, fleetGPUs, takeOverSpares, takeOverLosses)
	p.line("manager is killed, and starts again. No pod is made or bound before all ranks run. All supervisors are one process that rarely collects garbage, with a connection each.")
	p.line("")
	p.line("|ranks|node deleted → all run|worst|goal|growth|status writes|goal|manager's processor|supervisors'|memory of a stream|all connected after|after the manager was killed|")
	p.line("|---:|---:|---:|---|---:|---:|---|---:|---:|---:|---:|---:|")
	smaller := &takeOverResults{}
	for _, one := range r.takeOver {
		p.takeOver(one, smaller)
		smaller = one
	}
	p.line("")
	p.misses()
	r.misses = append(r.misses, p.checker.misses...)
	return p.String()
}

// takeOver is the line of a gang, after that of a smaller one.
func (p *page) takeOver(r, smaller *takeOverResults) {
	l, times, growth, of := limitOf(p.limits, takeOver, takeOver, r.ranks), r.toRun(), "", fmt.Sprintf("%d ranks, ", r.ranks)
	if len(smaller.losses) > 0 {
		growth = fmt.Sprintf("%.1f×", ratio(times, smaller.toRun()))
	}
	worst, statuses := quantile(times, 1), r.most(func(t *takenOver) int { return t.before[statusWrite] })
	processor := func(of func(*takenOver) time.Duration) string {
		return seconds(time.Duration(r.most(func(t *takenOver) int { return int(of(t)) })))
	}
	p.line("|%d|%s ms|%s ms|%s|%s|%d|%s|%s s|%s s|%d KiB|%s s|%s s|", r.ranks, spread(times), millis(worst),
		p.checker.within(of+"node deleted → all ranks run", worst, time.Duration(l.Seconds)*time.Second, len(times)), growth,
		statuses, p.checker.most(of+"status writes until all ranks run", statuses, l.Writes.of(r.ranks)),
		processor(func(t *takenOver) time.Duration { return t.processor }), processor(func(t *takenOver) time.Duration { return t.supervisors }),
		r.perStream(), seconds(r.connecting), seconds(r.heard))
}
