// Package dashboards reads Grafana dashboards strictly, by the schema of Grafana's foundation SDK, and gives their queries to tests.
package dashboards

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
)

// Query is one expression of a panel.
type Query struct {
	Dashboard, Panel string
	// Expr is PromQL in which the variables of Grafana have values: all namespaces, queues and nodes, and the windows of a dashboard
	// that shows an hour.
	Expr string
	// Legend names the series: a template of Grafana, with {{label}}.
	Legend string
}

// Read reads all dashboards of a folder, by the names of their files. What the schema does not know is an error.
func Read(dir string) (map[string]dashboard.Dashboard, error) {
	plugins.RegisterDefaultPlugins()
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	out := map[string]dashboard.Dashboard{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var d dashboard.Dashboard
		if err := d.UnmarshalJSONStrict(raw); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if err := d.Validate(); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		out[strings.TrimSuffix(filepath.Base(file), ".json")] = d
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no dashboards in %s", dir)
	}
	return out, nil
}

// Panels are those of a dashboard, the ones in rows that are folded among them.
func Panels(d dashboard.Dashboard) []dashboard.Panel {
	var out []dashboard.Panel
	for _, p := range d.Panels {
		if p.Panel != nil {
			out = append(out, *p.Panel)
		}
		if p.RowPanel != nil {
			out = append(out, p.RowPanel.Panels...)
		}
	}
	return out
}

// Queries are those of all panels of a folder's dashboards, in the order of the dashboards' names.
func Queries(dir string) ([]Query, error) {
	all, err := Read(dir)
	if err != nil {
		return nil, err
	}
	var out []Query
	for name, d := range all {
		for _, panel := range Panels(d) {
			for _, target := range panel.Targets {
				q, isPrometheus := target.(*prometheus.Dataquery)
				if !isPrometheus {
					return nil, fmt.Errorf("%s, panel %q: a query is %T, and not of Prometheus", name, *panel.Title, target)
				}
				out = append(out, Query{Dashboard: name, Panel: *panel.Title, Expr: Fill(q.Expr), Legend: *q.LegendFormat})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Query) int { return strings.Compare(a.Dashboard, b.Dashboard) })
	return out, nil
}

// Fill gives the variables of Grafana values.
func Fill(expr string) string {
	return strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h", "$namespace", ".*", "$queue", ".*", "$node", ".*").Replace(expr)
}
