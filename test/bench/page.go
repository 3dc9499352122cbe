// The page: the figures as tables for a README.

package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/test/readme"
)

// page is written from top to bottom.
type page struct {
	strings.Builder
	results *results
	options *options
	checker checker
	limits  []limit
}

// render returns the section, and notes in the results which limits are exceeded.
func render(r *results, o *options, v readme.Versions) string {
	p := &page{results: r, options: o, limits: readLimits()}
	p.preface(v)
	p.times()
	p.touched()
	p.kept()
	p.misses()
	r.misses = p.checker.misses
	return p.String()
}

func (p *page) line(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

func (p *page) preface(v readme.Versions) {
	p.line("Kubernetes %s, Volcano %s, KWOK %s, each with its own defaults. Each pod takes a whole node. Racks have 18 nodes, under", v.Kubernetes, v.Volcano, v.KWOK)
	p.line("HyperNodes of 8. Rounds by size (%s pods): %s. In each round both sides, in turns, start a gang, lose a single pod", p.options.sizes.String(), p.roundsText())
	p.line("%d times, and are restarted as a whole. Times are medians between watch events, with the 10th and 90th percentile.", p.options.recoveries)
	p.line("")
}

func (p *page) roundsText() string {
	text := make([]string, len(p.options.sizes))
	for i := range text {
		text[i] = fmt.Sprint(p.options.rounds.at(i))
	}
	return strings.Join(text, ", ")
}

// comparison is one row of the table of times: a figure of ours and one of theirs.
type comparison struct {
	what         string
	ours, theirs figure
}

var comparisons = []comparison{
	{"gang applied → all its pods run", start, start},
	{"one pod failed → its replacement runs, by RestartPod", restartPod, restartPod},
	{"the same, theirs by RestartJob", restartPod, restartJob},
	{"one pod failed → the whole job restarted, by RestartJob", restartJob, restartJob},
}

func (p *page) times() {
	p.line("| pods | from → to | Lockstep | Volcano | ratio | goal |")
	p.line("| ---: | --- | ---: | ---: | ---: | --- |")
	for _, pods := range p.options.sizes {
		for _, c := range comparisons {
			ours, theirs := p.results.of(pods, &lockstep, c.ours), p.results.of(pods, &volcano, c.theirs)
			r := ratio(ours.times(), theirs.times())
			what := fmt.Sprintf("%d pods, %s", pods, c.what)
			p.line("| %d | %s | %s | %s | %.2f | %s |", pods, c.what, ours, theirs, r, p.checker.ratio(what, r, limitOf(p.limits, c.ours, c.theirs, pods).Ratio))
		}
	}
	p.line("")
}

// String is the median of the samples' times, and their spread.
func (s samples) String() string {
	times := s.times()
	if len(times) == 0 {
		return "none"
	}
	text := fmt.Sprintf("%s s (%s–%s)", seconds(median(times)), seconds(quantile(times, 0.1)), seconds(quantile(times, 0.9)))
	if late := len(s) - len(times); late > 0 {
		text += fmt.Sprintf(", %d of %d never", late, len(s))
	}
	return text
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f", d.Seconds()) }

// recovery is one row of the table of what recoveries touch.
type recovery struct {
	side   *contender
	figure figure
}

var recoveries = []recovery{
	{&lockstep, restartPod}, {&volcano, restartPod}, {&lockstep, restartJob}, {&volcano, restartJob},
}

func (p *page) touched() {
	p.line("What one pod's failure sets in motion. Writes are the manager's, by the API server's audit log, without Events and leases.")
	p.line("Writes that hold a node or the place in the queue are counted apart. Medians, and the most if it differs; goals are for the most.")
	p.line("")
	p.line("| pods | recovery | healthy pods replaced | new pods on their own node | in its rack | elsewhere | writes | for the hold | refused |")
	p.line("| ---: | --- | ---: | ---: | ---: | ---: | --- | --- | ---: |")
	for _, pods := range p.options.sizes {
		for _, r := range recoveries {
			p.touchedRow(pods, r)
		}
	}
	p.line("")
}

func (p *page) touchedRow(pods int, r recovery) {
	s := p.results.of(pods, r.side, r.figure)
	touched := s.numbers(func(s *sample) int { return s.touched })
	cells := []string{medianAndMost(touched), "", "", ""}
	if r.side == &lockstep {
		writes, holds := s.numbers(func(s *sample) int { return s.calls.writes }), s.numbers(func(s *sample) int { return s.calls.holds })
		refused := s.numbers(func(s *sample) int { return s.calls.refused })
		cells = []string{medianAndMost(touched), medianAndMost(writes), medianAndMost(holds), medianAndMost(refused)}
		what, limit := fmt.Sprintf("%d pods, %s of Lockstep, ", pods, r.figure), limitOf(p.limits, r.figure, r.figure, pods)
		if r.figure == restartPod {
			cells[0] += "; " + p.checker.most(what+"healthy pods replaced", most(touched), 0)
		}
		cells[1] += "; " + p.checker.most(what+"writes", most(writes), limit.Writes.of(pods))
		cells[2] += "; " + p.checker.most(what+"writes for the hold", most(holds), limit.Holds.of(pods))
	}
	where := s.places()
	p.line("| %d | %s, %s | %s | %d | %d | %d | %s |", pods, r.side.name, r.figure,
		cells[0], where.own, where.rack, where.elsewhere, strings.Join(cells[1:], " | "))
}

// medianAndMost are one number where they are the same.
func medianAndMost(numbers []int) string {
	m, most := median(numbers), most(numbers)
	if m == most {
		return fmt.Sprint(m)
	}
	return fmt.Sprintf("%d, most %d", m, most)
}

// kept are the recoveries on a full cluster.
func (p *page) kept() {
	if len(p.results.kept) == 0 {
		return
	}
	p.line("A rack of %d nodes is full with one gang, and two jobs wait, of %d and of %d nodes. How often the gang came back on all its nodes:", laneNodes, smallPods, largePods)
	p.line("")
	p.line("| gang | fails | every node kept | lost to a waiting job | not back in time | goal |")
	p.line("| --- | --- | ---: | ---: | ---: | --- |")
	for _, t := range p.results.kept {
		fails, goal := "one pod", ""
		if t.whole {
			fails = "all pods at once"
		}
		if t.must {
			goal = p.checker.all("place kept by "+t.who+", "+fails, t.kept, t.of)
		}
		p.line("| %s | %s | %d of %d | %d | %d | %s |", t.who, fails, t.kept, t.of, t.lost, t.late, goal)
	}
	p.line("")
}

func (p *page) misses() {
	if len(p.checker.misses) == 0 {
		p.line("No goal is missed.")
		return
	}
	p.line("Goals missed:")
	p.line("")
	for _, miss := range p.checker.misses {
		p.line("- %s", miss)
	}
}
