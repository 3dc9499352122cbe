// The page of health: the figures of the reports as tables.

package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// The goals.
const (
	maxDecision = 50 * time.Millisecond // from a NodeHealth that shows it to the decision, 99 of 100
	maxBacklog  = time.Second           // from the last report of a storm to the last verdict
)

// healthResults are those of one pool.
type healthResults struct {
	nodes, gangs            int
	idle                    int // memory of the manager before the first report, in MiB
	single, storm, outbreak wave
}

// wave are reports that were sent together, or one after the other.
type wave struct {
	reports   reports
	writes    writes
	written   time.Duration // from the first report to the last
	processor time.Duration // that the manager computed
	server    time.Duration // that the API server did
	memory    int           // of the manager at the end, in MiB
}

// backlog is how long after the last report the last came to a point.
func (w *wave) backlog(point func(*report) time.Time) time.Duration {
	return w.reports.last(point).Sub(w.reports.last(wasSent))
}

func (w *wave) String() string {
	text := []string{fmt.Sprintf("%d reports", len(w.reports))}
	for _, p := range points {
		times := w.reports.took(p.point)
		text = append(text, fmt.Sprintf("%s %s, p99 %s, most %s of %d", p.name, spread(times), millis(quantile(times, 0.99)), millis(quantile(times, 1)), len(times)))
	}
	text = append(text, fmt.Sprintf("last verdict %s ms and last write %s ms after the last report, %d MiB, %s s of processor, %s",
		millis(w.backlog(toVerdict)), millis(w.writes.last.Sub(w.reports.last(wasSent))), w.memory, seconds(w.processor), w.writes))
	return strings.Join(text, "; ")
}

// points of a report that the table tells of.
var points = []struct {
	name  string
	point func(*report) time.Time
}{
	{"the NodeHealth shows it", toShown},
	{"its verdict is seen", toVerdict},
	{"the decision to move the pod", toDecision},
	{"that is recorded, and seen", toRecord},
	{"the pod is deleted", toMove},
}

func renderHealth(r *healthResults, v versions) string {
	p := &page{}
	p.line("Kubernetes %s: %d nodes in racks of 18, each with a NodeHealth; %d gangs of %d pods run on some of them.", v.kubernetes, r.nodes, r.gangs, healthPods)
	p.line("Each report says that a GPU is ill, and is written as the health agent does. In a storm all nodes")
	p.line("report within %d s: of one node in ten a GPU has failed that a gang uses, and of the others one is", int(stormLength.Seconds()))
	p.line("degraded that nobody uses; the breakers are set to let all through. In an outbreak a GPU of every node")
	p.line("fails, under the default limits. A decision's time is the incident's `startTime`, that of a deletion is")
	p.line("when the API server was asked; what is seen is seen by a watch of this program, on the same machine.")
	p.line("")
	p.waves(r)
	p.keepsUp(r)
	p.kinds(r)
	p.misses()
	return p.String()
}

func (p *page) waves(r *healthResults) {
	p.line("| reports | from | until | how many | median (10th–90th) | p99 | most | goal for p99 |")
	p.line("| --- | --- | --- | ---: | ---: | ---: | ---: | --- |")
	for _, w := range []struct {
		what string
		wave *wave
	}{{"one at a time", &r.single}, {"a storm", &r.storm}} {
		for _, point := range points {
			p.wave(w.what, "a report", point.name, w.wave.reports.took(point.point), 0)
		}
		goal := maxDecision
		if w.wave != &r.single {
			goal = 0
		}
		p.wave(w.what, "the NodeHealth that shows it", "the decision to move the pod", w.wave.reports.tookFrom(toShown, toDecision), goal)
	}
	p.line("")
}

func (p *page) wave(what, from, until string, times []time.Duration, limit time.Duration) {
	goal := ""
	if limit > 0 {
		goal = p.checker.within(what+", from "+from+" until "+until, quantile(times, 0.99), limit, len(times))
	}
	p.line("| %s | %s | %s | %d | %s ms | %s ms | %s ms | %s |", what, from, until, len(times),
		spread(times), millis(quantile(times, 0.99)), millis(quantile(times, 1)), goal)
}

// spread is the median and where most are.
func spread(times []time.Duration) string {
	return fmt.Sprintf("%s (%s–%s)", millis(median(times)), millis(quantile(times, 0.1)), millis(quantile(times, 0.9)))
}

func millis(d time.Duration) string { return fmt.Sprintf("%.0f", float64(d)/float64(time.Millisecond)) }

func (p *page) keepsUp(r *healthResults) {
	p.line("| | storm | outbreak |")
	p.line("| --- | ---: | ---: |")
	p.both(r, "reports", func(w *wave) string { return fmt.Sprint(len(w.reports)) })
	p.both(r, "written within", func(w *wave) string { return seconds(w.written) + " s" })
	p.both(r, "let through", func(w *wave) string {
		return fmt.Sprint(w.reports.number(func(r *report) bool { return !r.verdict.IsZero() && !r.heldBack }))
	})
	p.both(r, "held back", func(w *wave) string { return fmt.Sprint(w.reports.number(func(r *report) bool { return r.heldBack })) })
	p.both(r, "pods moved", func(w *wave) string { return fmt.Sprint(len(w.reports.took(toMove))) })
	p.both(r, "the last report → the last verdict", func(w *wave) string {
		name := "a storm"
		if w == &r.outbreak {
			name = "an outbreak"
		}
		got := w.backlog(toVerdict)
		return seconds(got) + " s; " + p.checker.within(name+", from the last report until the last verdict is seen", got, maxBacklog, len(w.reports))
	})
	p.both(r, "the manager's processor time", func(w *wave) string { return seconds(w.processor) + " s" })
	p.both(r, "the API server's", func(w *wave) string { return seconds(w.server) + " s" })
	p.both(r, fmt.Sprintf("the manager's memory afterwards (%d MiB before)", r.idle), func(w *wave) string { return fmt.Sprintf("%d MiB", w.memory) })
	p.both(r, "the last report → the last write", func(w *wave) string { return seconds(w.writes.last.Sub(w.reports.last(wasSent))) + " s" })
	p.line("")
}

func (p *page) both(r *healthResults, what string, text func(*wave) string) {
	p.line("| %s | %s | %s |", what, text(&r.storm), text(&r.outbreak))
}

// kinds are the manager's writes.
func (p *page) kinds(r *healthResults) {
	p.line("The manager's writes for one report, until all is quiet and the pods run elsewhere, by the API server's")
	p.line("audit log, Events and leases aside; in brackets all of them.")
	p.line("")
	p.line("| write | one at a time | storm | outbreak |")
	p.line("| --- | ---: | ---: | ---: |")
	waves := []*wave{&r.single, &r.storm, &r.outbreak}
	row := func(what string, of func(writes) int) {
		cells := make([]string, len(waves))
		for i, w := range waves {
			cells[i] = fmt.Sprintf("%.2f (%d)", float64(of(w.writes))/float64(max(1, len(w.reports))), of(w.writes))
		}
		p.line("| %s | %s |", what, strings.Join(cells, " | "))
	}
	all := map[string]int{}
	for _, w := range waves {
		maps.Copy(all, w.writes.kinds)
	}
	for _, kind := range slices.Sorted(maps.Keys(all)) {
		row(kind, func(w writes) int { return w.kinds[kind] })
	}
	row("all", func(w writes) int { return total(w.kinds) })
	row("refused", func(w writes) int { return total(w.refused) })
	p.line("")
}
