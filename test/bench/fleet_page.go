// The page of a fleet: what jobs that train cost the manager.

package main

import (
	"fmt"
	"time"

	"github.com/lockstep-dev/lockstep/test/readme"
)

// fleetResults are those of a fleet of one size.
type fleetResults struct {
	jobs   int
	lasted time.Duration
	// reports are those that the manager received, and writes what it wrote.
	reports int
	writes  writes
	// processor is what the manager computed meanwhile, and server what the API server did.
	processor, server time.Duration
	memory            int // of the manager at the end, in MiB
}

// aMinute is how many of something there are in a minute.
func (r *fleetResults) aMinute(count int) float64 { return float64(count) / r.lasted.Minutes() }

// share is how much of a processor some time is, in percent.
func (r *fleetResults) share(computed time.Duration) float64 {
	return 100 * computed.Seconds() / r.lasted.Seconds()
}

func (r *fleetResults) String() string {
	return fmt.Sprintf("%d jobs for %s: %d reports, %s, events %d; %.1f%% of a processor, the API server %.1f%%, %d MiB",
		r.jobs, r.lasted, r.reports, r.writes, r.writes.events, r.share(r.processor), r.share(r.server), r.memory)
}

func renderFleet(all []*fleetResults, sharing int, v readme.Versions) string {
	p, shared := &page{}, ""
	if sharing > 1 {
		shared = fmt.Sprintf(" Each connection has the streams of %d supervisors.", sharing)
	}
	p.line("Kubernetes %s: TrainingJobs of %d ranks, %d on a node, each with a supervisor that reports a step every %s. Volcano and kubelets are", v.Kubernetes, fleetRanks, fleetGPUs, sayEvery)
	p.line("played. Each fleet was watched for %s.%s", all[0].lasted, shared)
	p.line("")
	p.line("| jobs | ranks | reports a second | writes a minute | Events a minute | the manager's processor | the API server's | the manager's memory | of each further rank |")
	p.line("| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
	smaller := &fleetResults{}
	for _, r := range all {
		writes, further := r.aMinute(total(r.writes.kinds)+total(r.writes.refused)), ""
		if smaller.jobs > 0 {
			further = fmt.Sprintf("%d KiB", (r.memory-smaller.memory)*1024/((r.jobs-smaller.jobs)*fleetRanks))
		}
		smaller = r
		p.line("| %d | %d | %.0f | %.1f | %.1f | %.1f%% | %.1f%% | %d MiB | %s |", r.jobs, r.jobs*fleetRanks, r.aMinute(r.reports)/60, writes,
			r.aMinute(r.writes.events), r.share(r.processor), r.share(r.server), r.memory, further)
	}
	return p.String()
}
