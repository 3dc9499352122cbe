// The loop: read, evaluate, log what has changed.

package agent

import (
	"context"
	"io/fs"
	"log/slog"
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/health"
)

// Engine reads DCGM: health/dcgm does, and is the only part that needs cgo.
type Engine interface {
	// Watch sets the fields that a sample has.
	Watch(fields []health.Field)
	// Sample reads them.
	Sample(ctx context.Context, now time.Time) health.Sample
	// Notes says what this DCGM lacks.
	Notes() []string
}

// Agent watches the devices of one node.
type Agent struct {
	// DCGM is read in each poll.
	DCGM Engine
	// Overrides change the table of signals.
	Overrides *Overrides
	// Host is the boot of the node.
	Host Host
	// Sysfs is /sys.
	Sysfs   fs.FS
	Log     *slog.Logger
	Metrics *Metrics
	// Reporter brings what is found into the cluster; nil where it is only logged.
	Reporter *Reporter

	table   *health.Table
	refused string // what is wrong with the overrides
	reached bool   // DCGM answered in the last poll
	state   health.State
	said    map[string]bool
	notes   []string
}

// Run polls at an interval until the context ends.
func (a *Agent) Run(ctx context.Context, interval time.Duration) {
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
func (a *Agent) poll(ctx context.Context, now time.Time) {
	a.readTable()
	sample := a.sample(ctx, now)
	if ctx.Err() != nil {
		return // DCGM was not given the time to answer
	}
	if a.Reporter != nil {
		state, err := a.Reporter.Begin(ctx, now, a.state)
		if err != nil {
			a.Log.Error("cannot read what was published", "error", err)
		}
		a.state = state
	}
	a.state = health.Evaluate(a.state, sample, a.table)
	a.Metrics.Found(a.state, a.table)
	a.report()
	if a.Reporter != nil {
		if err := a.Reporter.Report(ctx, now, a.state, a.refused); err != nil {
			a.Log.Error("cannot publish", "error", err)
		}
	}
}

// readTable takes the table of signals as the overrides make it now.
func (a *Agent) readTable() {
	table, err := a.Overrides.Table()
	a.Metrics.Refused(err != nil)
	refused := ""
	if err != nil {
		refused = err.Error()
	}
	if refused != a.refused && refused != "" {
		a.Log.Error("the table of signals stays as it was", "error", refused)
	}
	a.refused = refused
	if table == a.table {
		return
	}
	a.table = table
	a.DCGM.Watch(table.Watched())
	a.Log.Info("the table of signals is in force", "rows", len(table.Rows()))
}

// sample reads all that there is to read of the node.
func (a *Agent) sample(ctx context.Context, now time.Time) health.Sample {
	began := time.Now()
	sample := a.DCGM.Sample(ctx, now)
	sample.BootID, sample.BootTime = a.Host.BootID, a.Host.BootTime
	sample.DriverID = driverID(a.Sysfs)
	if sample.Values == nil {
		sample.Values = map[health.Entity]map[health.Field]health.Value{}
	}
	ports, err := fs.Sub(a.Sysfs, "class/infiniband")
	if err == nil {
		err = health.ReadPorts(ports, sample.Values)
	}
	if err != nil {
		a.Log.Error("cannot read the ports", "error", err)
	}
	a.Metrics.Polled(sample.Reachable, time.Since(began))
	switch reached := sample.Reachable; {
	case reached && !a.reached:
		a.Log.Info("DCGM answers")
	case !reached && a.reached:
		a.Log.Warn("DCGM does not answer", "why", sample.Message)
	}
	a.reached = sample.Reachable
	return sample
}

// report logs what was not so after the poll before.
func (a *Agent) report() {
	if notes := a.DCGM.Notes(); !slices.Equal(notes, a.notes) {
		a.notes = notes
		a.Log.Info("what DCGM lacks here", "lacking", notes)
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
			a.Log.Warn(what)
		}
	}
	for what := range a.said {
		if !now[what] {
			a.Log.Info("no longer: " + what)
		}
	}
	a.said = now
}
