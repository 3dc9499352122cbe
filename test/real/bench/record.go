// The record: each lost node of the larger gang, in a file of the tree.

package main

import (
	"context"
	"math"
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
