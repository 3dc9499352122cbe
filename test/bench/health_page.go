// The page of health: the figures of the reports as tables.

package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/test/readme"
)

// The goals. That every decision of a storm is to come within so long is the design's; the others
// are for what the manager itself can do.
const (
	maxDecision = 50 * time.Millisecond // from a NodeHealth that shows it to the decision, 99 of 100
	maxBacklog  = time.Second           // from the last report of a flood to the last verdict
	maxStorm    = 5 * time.Second       // from a report in a storm to the decision
)

// healthResults are those of one pool.
type healthResults struct {
	nodes, gangs int
	idle         int // memory of the manager before the first report, in MiB
	// bare is what a bare writer answers to the reports of a flood.
	single, bare, flood, storm, outbreak wave
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

const decision = "the decision to move the pod"

// points of a report that are printed. The page has those that matter to a job.
var points = []struct {
	name   string
	point  func(*report) time.Time
	onPage bool
}{
	{"the NodeHealth shows it", toShown, false},
	{"its verdict is seen", toVerdict, true},
	{decision, toDecision, true},
	{"that is recorded, and seen", toRecord, false},
	{"the pod is deleted", toMove, true},
}

func renderHealth(r *healthResults, v readme.Versions) string {
	p := &page{}
	p.line("Kubernetes %s: %d nodes in racks of 18, each with a NodeHealth; %d gangs of %d pods run on some of them.", v.Kubernetes, r.nodes, r.gangs, healthPods)
	p.line("In a *flood* all nodes report within %d s that a GPU is degraded which nobody uses. In a *storm* a GPU that a gang uses has also failed on one", int(stormLength.Seconds()))
	p.line("node in ten. The breakers let all of that through. In an *outbreak* a GPU of every node fails, under the default limits. A *bare writer* answers each report")
	p.line("of a flood with a verdict, and neither decides nor acts.")
	p.line("")
	p.waves(r)
	p.keepsUp(r)
	p.kinds(r)
	p.misses()
	return p.String()
}

// goal is how long a share of the reports may take; the zero value is none.
type goal struct {
	share float64
	limit time.Duration
}

func (g goal) String() string {
	if g.share == 1 {
		return "all"
	}
	return fmt.Sprintf("p%.0f", 100*g.share)
}

func (p *page) waves(r *healthResults) {
	p.line("| reports | from | until | how many | median (10th–90th) | p99 | most | goal |")
	p.line("| --- | --- | --- | ---: | ---: | ---: | ---: | --- |")
	for _, w := range []struct {
		what              string
		wave              *wave
		fromSent, fromNow goal
	}{
		{"one at a time", &r.single, goal{}, goal{0.99, maxDecision}},
		{"a bare writer's", &r.bare, goal{}, goal{}},
		{"a flood", &r.flood, goal{}, goal{}},
		{"a storm", &r.storm, goal{1, maxStorm}, goal{}},
	} {
		for _, point := range points {
			if !point.onPage {
				continue
			}
			g := goal{}
			if point.name == decision {
				g = w.fromSent
			}
			p.wave(w.what, "a report", point.name, w.wave.reports.took(point.point), g)
		}
		p.wave(w.what, "the NodeHealth that shows it", decision, w.wave.reports.tookFrom(toShown, toDecision), w.fromNow)
	}
	p.line("")
}

// wave is a line; where nothing came to the point, and nothing has to, there is none.
func (p *page) wave(what, from, until string, times []time.Duration, g goal) {
	if len(times) == 0 && g.limit == 0 {
		return
	}
	text := ""
	if g.limit > 0 {
		text = g.String() + " " + p.checker.within(fmt.Sprintf("%s, from %s until %s", what, from, until), quantile(times, g.share), g.limit, len(times))
	}
	p.line("| %s | %s | %s | %d | %s ms | %s ms | %s ms | %s |", what, from, until, len(times),
		spread(times), millis(quantile(times, 0.99)), millis(quantile(times, 1)), text)
}

// spread is the median and where most are.
func spread(times []time.Duration) string {
	return fmt.Sprintf("%s (%s–%s)", millis(median(times)), millis(quantile(times, 0.1)), millis(quantile(times, 0.9)))
}

func millis(d time.Duration) string { return fmt.Sprintf("%.0f", float64(d)/float64(time.Millisecond)) }

func (p *page) keepsUp(r *healthResults) {
	p.line("| | a bare writer's | a flood | a storm | an outbreak |")
	p.line("| --- | ---: | ---: | ---: | ---: |")
	p.each(r, "reports", func(w *wave) string { return fmt.Sprint(len(w.reports)) })
	p.each(r, "written within", func(w *wave) string { return seconds(w.written) + " s" })
	p.each(r, "let through", func(w *wave) string {
		return fmt.Sprint(w.reports.number(func(r *report) bool { return !r.verdict.IsZero() && !r.heldBack }))
	})
	p.each(r, "held back", func(w *wave) string { return fmt.Sprint(w.reports.number(func(r *report) bool { return r.heldBack })) })
	p.each(r, "pods moved", func(w *wave) string { return fmt.Sprint(len(w.reports.took(toMove))) })
	p.each(r, "the last report → the last verdict", func(w *wave) string {
		got := w.backlog(toVerdict)
		text := seconds(got) + " s"
		if w == &r.flood {
			text += "; " + p.checker.within("a flood, from the last report until the last verdict is seen", got, maxBacklog, len(w.reports))
		}
		return text
	})
	p.each(r, "the API server's processor time", func(w *wave) string { return seconds(w.server) + " s" })
	managers := func(text func(w *wave) string) func(w *wave) string {
		return func(w *wave) string {
			if w == &r.bare {
				return ""
			}
			return text(w)
		}
	}
	p.each(r, "the manager's", managers(func(w *wave) string { return seconds(w.processor) + " s" }))
	p.each(r, fmt.Sprintf("its memory afterwards (%d MiB before)", r.idle), managers(func(w *wave) string { return fmt.Sprintf("%d MiB", w.memory) }))
	p.each(r, "the last report → its last write", managers(func(w *wave) string { return seconds(w.writes.last.Sub(w.reports.last(wasSent))) + " s" }))
	p.line("")
}

func (p *page) each(r *healthResults, what string, text func(*wave) string) {
	p.line("| %s | %s | %s | %s | %s |", what, text(&r.bare), text(&r.flood), text(&r.storm), text(&r.outbreak))
}

// kinds are the manager's writes.
func (p *page) kinds(r *healthResults) {
	p.line("The manager's writes for one report, until the pods run elsewhere, by the API server's audit log, without Events and leases; in brackets all")
	p.line("of them.")
	p.line("")
	p.line("| write | one at a time | a flood | a storm | an outbreak |")
	p.line("| --- | ---: | ---: | ---: | ---: |")
	waves := []*wave{&r.single, &r.flood, &r.storm, &r.outbreak}
	row := func(what string, of func(writes) int) {
		cells := make([]string, len(waves))
		for i, w := range waves {
			cells[i] = fmt.Sprintf("%.2f (%d)", float64(of(w.writes))/float64(max(1, len(w.reports))), of(w.writes))
		}
		p.line("| %s | %s |", what, strings.Join(cells, " | "))
	}
	row("all", func(w writes) int { return total(w.kinds) })
	row("refused", func(w writes) int { return total(w.refused) })
	p.line("")
}
