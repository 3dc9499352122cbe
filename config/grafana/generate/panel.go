// Panels: a title, what a reader has to know, and queries.

package main

import (
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/variants"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// form is how a panel shows its queries.
type form int

const (
	figure form = iota // the last value of each, large
	lines              // over time
	bars               // over time, stacked: for what adds up
)

// panel is one question and its answer.
type panel struct {
	title string
	// shows says what is seen, good what a good value looks like, and otherwise what to do where it is not.
	shows, good, otherwise string
	unit                   string // of Grafana's list
	form                   form
	queries                []query
	// scale colours the values of a figure.
	scale scale
	// max is the top of the axis; 0 leaves it to Grafana.
	max float64
}

// query is an expression of PromQL and how its series are called.
type query struct{ expr, legend string }

// scale is where a value turns from good to bad.
type scale struct {
	at      float64
	lowIsOK bool // values below are good; otherwise those from there on
}

func badFrom(at float64) scale  { return scale{at: at, lowIsOK: true} }
func goodFrom(at float64) scale { return scale{at: at} }

// check finds what is missing: a panel that cannot be read alone is none.
func (p panel) check() error {
	for what, text := range map[string]string{"title": p.title, "shows": p.shows, "good": p.good, "otherwise": p.otherwise, "unit": p.unit} {
		if text == "" {
			return fmt.Errorf("panel %q has no %s: say it in the panel's description in config/grafana/generate", p.title, what)
		}
	}
	if len(p.queries) == 0 {
		return fmt.Errorf("panel %q has no queries", p.title)
	}
	return nil
}

func (p panel) description() string {
	return fmt.Sprintf("%s\n\n**Good:** %s\n\n**Otherwise:** %s", p.shows, p.good, p.otherwise)
}

func (p panel) build() cog.Builder[dashboard.Panel] {
	if p.form == figure {
		return p.figure()
	}
	return p.graph()
}

func (p panel) figure() cog.Builder[dashboard.Panel] {
	below, above := "red", "green"
	if p.scale.lowIsOK {
		below, above = "green", "red"
	}
	steps := []dashboard.Threshold{{Color: "text"}}
	if p.scale != (scale{}) {
		steps = []dashboard.Threshold{{Color: below}, {Value: new(p.scale.at), Color: above}}
	}
	builder := stat.NewPanelBuilder().
		Title(p.title).Description(p.description()).Unit(p.unit).
		Datasource(datasource()).
		Height(5).Span(6).
		ColorMode(common.BigValueColorModeValue).
		GraphMode(common.BigValueGraphModeArea).
		Orientation(common.VizOrientationAuto).
		ReduceOptions(common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"})).
		Thresholds(dashboard.NewThresholdsConfigBuilder().Mode(dashboard.ThresholdsModeAbsolute).Steps(steps))
	for i, q := range p.queries {
		builder.WithTarget(q.build(i))
	}
	return builder
}

func (p panel) graph() cog.Builder[dashboard.Panel] {
	builder := timeseries.NewPanelBuilder().
		Title(p.title).Description(p.description()).Unit(p.unit).
		Datasource(datasource()).
		Height(8).Span(12).
		Min(0).
		Legend(common.NewVizLegendOptionsBuilder().ShowLegend(true).DisplayMode(common.LegendDisplayModeList).Placement(common.LegendPlacementBottom)).
		Tooltip(common.NewVizTooltipOptionsBuilder().Mode(common.TooltipDisplayModeMulti).Sort(common.SortOrderDescending))
	if p.max != 0 {
		builder.Max(p.max)
	}
	if p.form == bars {
		// A bar is what came in its time: with steps below $__rate_interval each event would be in several.
		builder.Interval("5m").DrawStyle(common.GraphDrawStyleBars).FillOpacity(60).
			Stacking(common.NewStackingConfigBuilder().Mode(common.StackingModeNormal))
	}
	for i, q := range p.queries {
		builder.WithTarget(q.build(i))
	}
	return builder
}

func (q query) build(index int) cog.Builder[variants.Dataquery] {
	return prometheus.NewDataqueryBuilder().
		RefId(string(rune('A' + index))).
		Datasource(datasource()).
		Expr(q.expr).
		LegendFormat(q.legend).
		Range()
}
