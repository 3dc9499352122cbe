// Results: what was measured, by size, side and figure.

package main

import (
	"fmt"
	"strings"
	"time"
)

// results are all that a run has measured.
type results struct {
	samples []*sample
	kept    []*tries
	// health and supervised are nil where they were left out.
	health     *healthResults
	supervised *supervisedResults
	fleet      []*fleetResults    // by size
	takeOver   []*takeOverResults // by size
	misses     []string           // limits of gangs that are exceeded
}

// sample is one start or one recovery.
type sample struct {
	pods   int // of the gang
	side   string
	figure figure

	came bool // the gang came to run
	took time.Duration

	touched int // healthy pods that were replaced
	places  places
	calls   calls // of the manager
}

func (s *sample) String() string { return fmt.Sprintf("%d pods, %s, %s", s.pods, s.side, s.figure) }

// places count where replacements went.
type places struct{ own, rack, elsewhere int }

func (p places) plus(q places) places {
	return places{p.own + q.own, p.rack + q.rack, p.elsewhere + q.elsewhere}
}

// compare counts whom a recovery touched besides the rank that failed, and where the new pods are.
func (s *sample) compare(before, after lives, failed int) {
	for rank, p := range before.replaced(after) {
		if rank != failed {
			s.touched++
		}
		switch old := before[rank].node; {
		case p.node == old:
			s.places.own++
		case rackOf(p.node) == rackOf(old):
			s.places.rack++
		default:
			s.places.elsewhere++
		}
	}
}

// rackOf is the rack of a node, which its name begins with.
func rackOf(node string) string { return node[:max(0, strings.LastIndex(node, "-n"))] }

// of are the samples of one size, side and figure.
func (r *results) of(pods int, side *contender, f figure) samples {
	var out samples
	for _, s := range r.samples {
		if s.pods == pods && s.side == side.name && s.figure == f {
			out = append(out, s)
		}
	}
	return out
}

// samples are of one size, side and figure.
type samples []*sample

// times are those of the samples that came to an end.
func (s samples) times() []time.Duration {
	var out []time.Duration
	for _, one := range s {
		if one.came {
			out = append(out, one.took)
		}
	}
	return out
}

// numbers are one number of each sample.
func (s samples) numbers(of func(*sample) int) []int {
	var out []int
	for _, one := range s {
		out = append(out, of(one))
	}
	return out
}

// places are those of all samples together.
func (s samples) places() places {
	var sum places
	for _, one := range s {
		sum = sum.plus(one.places)
	}
	return sum
}

// sameNodes reports whether two lots of pods have the same nodes, whichever rank on which.
func sameNodes(a, b lives) bool {
	nodes := map[string]int{}
	for _, p := range a {
		nodes[p.node]++
	}
	for _, p := range b {
		nodes[p.node]--
	}
	for _, n := range nodes {
		if n != 0 {
			return false
		}
	}
	return true
}
