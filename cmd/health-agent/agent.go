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
	reader *dcgm.Reader
	table  *health.Table
	host   host
	ports  fs.FS // /sys/class/infiniband
	log    *slog.Logger
	// reporter brings what is found into the cluster; nil where it is only logged.
	reporter *healthagent.Reporter

	state health.State
	said  map[string]bool
	notes []string
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

// poll reads DCGM and the ports, and says what they mean together with the polls before.
func (a *agent) poll(ctx context.Context, now time.Time) {
	sample := a.reader.Sample(ctx, now)
	if ctx.Err() != nil {
		return // DCGM was not given the time to answer
	}
	sample.BootID, sample.BootTime = a.host.bootID, a.host.bootTime
	if sample.Values == nil {
		sample.Values = map[health.Entity]map[health.Field]health.Value{}
	}
	if err := health.ReadPorts(a.ports, sample.Values); err != nil {
		a.log.Error("cannot read the ports", "error", err)
	}
	if a.reporter != nil {
		state, err := a.reporter.Begin(ctx, now, a.state)
		if err != nil {
			a.log.Error("cannot read what was published", "error", err)
		}
		a.state = state
	}
	a.state = health.Evaluate(a.state, sample, a.table)
	a.report()
	if a.reporter != nil {
		if err := a.reporter.Report(ctx, now, a.state); err != nil {
			a.log.Error("cannot publish", "error", err)
		}
	}
}

// report logs what was not so after the poll before.
func (a *agent) report() {
	if notes := a.reader.Notes(); !slices.Equal(notes, a.notes) {
		a.notes = notes
		a.log.Info("connected to DCGM", "lacking", notes)
	}
	now := map[string]bool{}
	if source := health.Source(a.state); source.Message != "" {
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
