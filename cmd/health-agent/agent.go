// The loop: read, evaluate, log what has changed.

package main

import (
	"context"
	"io/fs"
	"log/slog"
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/health"
	healthagent "github.com/lockstep-dev/lockstep/health/agent"
	"github.com/lockstep-dev/lockstep/health/dcgm"
)

type agent struct {
	reader    *dcgm.Reader
	overrides *healthagent.Overrides
	host      host
	sysfs     fs.FS // /sys
	log       *slog.Logger
	metrics   *healthagent.Metrics
	// reporter brings what is found into the cluster; nil where it is only logged.
	reporter *healthagent.Reporter

	table   *health.Table
	refused string // what is wrong with the overrides
	reached bool   // DCGM answered in the last poll
	state   health.State
	said    map[string]bool
	notes   []string
}

func (a *agent) loop(ctx context.Context, interval time.Duration) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		a.poll(ctx, time.Now())
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

// poll reads DCGM and the ports, says what they mean together with the polls before, and
// publishes it.
func (a *agent) poll(ctx context.Context, now time.Time) {
	a.readTable()
	sample := a.sample(ctx, now)
	if ctx.Err() != nil {
		return // DCGM was not given the time to answer
	}
	if a.reporter != nil {
		state, err := a.reporter.Begin(ctx, now, a.state)
		if err != nil {
			a.log.Error("cannot read what was published", "error", err)
		}
		a.state = state
	}
	a.state = health.Evaluate(a.state, sample, a.table)
	a.metrics.Found(a.state, a.table)
	a.report()
	if a.reporter != nil {
		if err := a.reporter.Report(ctx, now, a.state, a.refused); err != nil {
			a.log.Error("cannot publish", "error", err)
		}
	}
}

// readTable takes the table of signals as the overrides make it now.
func (a *agent) readTable() {
	table, err := a.overrides.Table()
	a.metrics.Refused(err != nil)
	refused := ""
	if err != nil {
		refused = err.Error()
	}
	if refused != a.refused && refused != "" {
		a.log.Error("the table of signals stays as it was", "error", refused)
	}
	a.refused = refused
	if table == a.table {
		return
	}
	a.table = table
	a.reader.Watch(table.Watched())
	a.log.Info("the table of signals is in force", "rows", len(table.Rows()))
}

// sample reads all that there is to read of the node.
func (a *agent) sample(ctx context.Context, now time.Time) health.Sample {
	began := time.Now()
	sample := a.reader.Sample(ctx, now)
	sample.BootID, sample.BootTime = a.host.bootID, a.host.bootTime
	sample.DriverID = driverID(a.sysfs)
	if sample.Values == nil {
		sample.Values = map[health.Entity]map[health.Field]health.Value{}
	}
	ports, err := fs.Sub(a.sysfs, "class/infiniband")
	if err == nil {
		err = health.ReadPorts(ports, sample.Values)
	}
	if err != nil {
		a.log.Error("cannot read the ports", "error", err)
	}
	a.metrics.Polled(sample.Reachable, time.Since(began))
	switch reached := sample.Reachable; {
	case reached && !a.reached:
		a.log.Info("DCGM answers")
	case !reached && a.reached:
		a.log.Warn("DCGM does not answer", "why", sample.Message)
	}
	a.reached = sample.Reachable
	return sample
}

// report logs what was not so after the poll before.
func (a *agent) report() {
	if notes := a.reader.Notes(); !slices.Equal(notes, a.notes) {
		a.notes = notes
		a.log.Info("what DCGM lacks here", "lacking", notes)
	}
	now := map[string]bool{}
	if source := health.Source(a.state, ""); source.Message != "" {
		now["the node's health is unknown: "+source.Message] = true
	}
	for _, r := range health.Reports(a.state) {
		now[string(r.State)+" "+r.Signal+" "+r.Entity+": "+r.Message] = true
	}
	for what := range now {
		if !a.said[what] {
			a.log.Warn(what)
		}
	}
	for what := range a.said {
		if !now[what] {
			a.log.Info("no longer: " + what)
		}
	}
	a.said = now
}
