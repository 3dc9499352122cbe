// Predictions: a trial as the lab plays it.

package main

import (
	"time"

	"github.com/lockstep-dev/lockstep/lab"
	"github.com/lockstep-dev/lockstep/policies/topology"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// forGood is how long a node is away that does not come back.
const forGood = 24 * time.Hour

// predict plays the failures of a trial in the lab, at the distances from each other that they had.
func predict(m *measurement, costs lab.Costs) (outcome, error) {
	away := forGood
	if m.away > 0 {
		away = m.away
	}
	var failures []lab.Failure
	var last time.Duration
	for _, at := range m.failed {
		last = lab.Lead + at.Sub(m.failed[0])
		for _, r := range m.trial.hit(m.job) {
			failures = append(failures, lab.Failure{
				At: last, Rank: r, Cause: lab.Cause{Name: m.trial.name, Effect: m.trial.effect, Repair: away},
			})
		}
	}
	r, err := lab.Play(lab.Setup{
		Job: m.job, HyperNodes: hyperNodes(m.pool), ReadyWhenTraining: m.readyWhenTraining, DeletesAtOnce: m.deletesAtOnce, Costs: &costs, Failures: failures, For: last + lab.Lead,
	})
	if err != nil {
		return outcome{}, err
	}
	failed := lab.Begin.Add(last)
	return outcomeOf(r.Incidents, failed, failed.Add(downSince(r.Outages, last))), nil
}

// downSince is how long the outages were that began at a time or later.
func downSince(outages []lab.Outage, at time.Duration) time.Duration {
	sum := time.Duration(0)
	for _, o := range outages {
		if o.At >= at {
			sum += o.Down()
		}
	}
	return sum
}

// hyperNodes are those of a pool, as the lab takes them.
func hyperNodes(pool cluster.Topology) []topology.HyperNode {
	all := []topology.HyperNode{{Name: pool.HyperNode(2, 0), Tier: 2, Nodes: pool.NodeNames()}}
	for rack := range pool.Racks {
		all = append(all, topology.HyperNode{Name: pool.Rack(rack), Tier: 1, Nodes: pool.RackNodes(rack)})
	}
	return all
}
