// The record: each lost node of the larger gang, in a file of the tree.

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/test/evidence"
)

// gangRecord is what became of the gangs of a side.
type gangRecord struct {
	Gang   string       `json:"gang"`
	Losses string       `json:"losses,omitempty"` // of the training, against those of a run that nothing disturbed
	Nodes  []lossRecord `json:"lostNodes"`
}

// lossRecord is one lost node. Times of programs begin when its pods may be replaced.
type lossRecord struct {
	Node            string  `json:"node"`
	First           bool    `json:"ofRank0,omitempty"`
	Ranks           int     `json:"ranks"`
	Recovered       bool    `json:"recovered"`
	Silent          float64 `json:"powerOffToNotReadySeconds"`
	Started         float64 `json:"allProgramsStartedAfterSeconds,omitempty"`
	Trained         float64 `json:"trainsAfterSeconds,omitempty"`
	Made            int     `json:"podsMadeBefore"`
	Bound           int     `json:"podsBoundBefore"`
	Replaced        int     `json:"otherPodsReplaced"`
	Restarted       int     `json:"otherContainersRestarted"`
	RanksNotAtHome  int     `json:"ranksNotAtHome"`
	WhyNotRecovered string  `json:"whyNotRecovered,omitempty"`
}

// moveRecord is one move that nothing had failed before. The stop is from the last step before to the first one after.
type moveRecord struct {
	By             string  `json:"by"`
	Ranks          []int   `json:"ranks"`
	StepsLost      int     `json:"stepsLost"`
	Stop           float64 `json:"stopSeconds"`
	Made           int     `json:"podsMadeBefore"`
	Bound          int     `json:"podsBoundBefore"`
	Replaced       int     `json:"otherPodsReplaced"`
	Restarted      int     `json:"otherContainersRestarted"`
	RanksNotAtHome int     `json:"ranksNotAtHome"`
}

// plannedMoves has gangs moved, prints each move, and records them where that is asked for. It fails where a step was lost.
func (b *bench) plannedMoves(ctx context.Context, o *options) error {
	tested, err := evidence.Of(ctx, "make test-moves", o.movesRecord)
	if err != nil {
		return err
	}
	all, differ, err := b.moves(ctx, o)
	if err != nil {
		return err
	}
	var records []moveRecord
	goals := &checker{}
	for _, m := range all {
		goals.none("by "+m.by+", steps lost", m.repeated)
		goals.none("by "+m.by+", pods bound before the gang trains", m.placed)
		goals.none("by "+m.by+", other pods replaced, or their containers restarted", m.replaced+m.restarted)
		records = append(records, moveRecord{m.by, m.ranks, m.repeated, hundredths(m.stopped), m.made, m.placed, m.replaced, m.restarted, m.away})
		fmt.Printf("%s: ranks %v, %d steps lost, %s without a step\n", m.by, m.ranks, m.repeated, seconds(m.stopped))
	}
	if differ != "" {
		goals.miss("losses", sameBits, differ)
	}
	fmt.Println(goals)
	if o.movesRecord != "" {
		err = evidence.Write(o.movesRecord, struct {
			evidence.Tested
			Ranks  int          `json:"ranks"`
			Losses string       `json:"losses"`
			Moves  []moveRecord `json:"moves"`
		}{tested, o.gang, cmp.Or(differ, sameBits), records})
	}
	if len(goals.misses) > 0 {
		err = errors.Join(err, fmt.Errorf("planned moves: %s", strings.Join(goals.misses, "; ")))
	}
	return err
}

// recorder returns what writes the record. The commit is that of the beginning.
func (o *options) recorder(ctx context.Context) (write func([]*side) error, err error) {
	if o.record == "" {
		return func([]*side) error { return nil }, nil
	}
	files := []string{o.record}
	if o.readme != "" {
		files = append(files, o.readme)
	}
	tested, err := evidence.Of(ctx, "make test-takeovers", files...)
	return func(sides []*side) error {
		var gangs []gangRecord
		for _, s := range sides {
			gangs = append(gangs, s.record())
		}
		return evidence.Write(o.record, struct {
			evidence.Tested
			Ranks int          `json:"ranks"`
			Gangs []gangRecord `json:"gangs"`
		}{tested, o.gang, gangs})
	}, err
}

func (s *side) record() gangRecord {
	g := gangRecord{Gang: s.title(), Losses: s.bits()}
	for _, r := range s.results {
		l := lossRecord{
			Node: r.node, First: r.first, Ranks: r.lost, Recovered: r.recovered, Silent: hundredths(r.silent), Made: r.made, Bound: r.placed,
			Replaced: r.replaced, Restarted: r.restarted, RanksNotAtHome: r.away, WhyNotRecovered: r.left,
		}
		if r.recovered {
			l.Started, l.Trained = hundredths(r.programs()), hundredths(r.since())
		}
		g.Nodes = append(g.Nodes, l)
	}
	return g
}

// hundredths are seconds.
func hundredths(d time.Duration) float64 { return math.Round(d.Seconds()*100) / 100 }
