// Pages: what a dashboard is made of here, and how it becomes one of Grafana's.

package main

import (
	"errors"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// page is a dashboard.
type page struct {
	// name is that of the file. The dashboard's UID, by which links name it, is the same after "lockstep-".
	name        string
	title       string
	description string
	variables   []variable
	rows        []row
}

// variable is a label whose values a reader chooses from; by default it is all of them.
type variable struct {
	label  string
	values string // the PromQL query that lists them
	about  string
}

type row struct {
	title  string
	panels []panel
}

// datasource is the one that the reader chose.
func datasource() common.DataSourceRef {
	return common.DataSourceRef{Type: new("prometheus"), Uid: new("$datasource")}
}

func (p page) build() (dashboard.Dashboard, error) {
	builder := dashboard.NewDashboardBuilder(p.title).
		Uid("lockstep-"+p.name).
		Description(p.description).
		Tags([]string{"lockstep"}).
		Timezone("browser").
		Time("now-24h", "now").
		Refresh("1m").
		Tooltip(dashboard.DashboardCursorSyncCrosshair).
		WithVariable(dashboard.NewDatasourceVariableBuilder("datasource").Label("Data source").Description("The Prometheus that scrapes Lockstep.").Type("prometheus")).
		Link(dashboard.NewDashboardLinkBuilder("Lockstep").Type(dashboard.DashboardLinkTypeDashboards).Tags([]string{"lockstep"}).AsDropdown(true).KeepTime(true).IncludeVars(true))
	for _, v := range p.variables {
		builder.WithVariable(v.build())
	}
	var problems []error
	for _, r := range p.rows {
		builder.WithRow(dashboard.NewRowBuilder(r.title))
		for _, panel := range r.panels {
			problems = append(problems, panel.check())
			builder.WithPanel(panel.build())
		}
	}
	built, err := builder.Build()
	number(built.Panels)
	return built, errors.Join(append(problems, err)...)
}

// number gives panels and rows their ids, which links to them and Grafana's own references use.
func number(panels []dashboard.PanelOrRowPanel) {
	for i := range panels {
		id := uint32(i + 1)
		if panels[i].RowPanel != nil {
			panels[i].RowPanel.Id = id
		} else {
			panels[i].Panel.Id = &id
		}
	}
}

func (v variable) build() cog.Builder[dashboard.VariableModel] {
	return dashboard.NewQueryVariableBuilder(v.label).
		Label(v.label).
		Description(v.about).
		Query(dashboard.StringOrMap{String: &v.values}).
		Datasource(datasource()).
		Refresh(dashboard.VariableRefreshOnTimeRangeChanged).
		Sort(dashboard.VariableSortAlphabeticalAsc).
		Multi(true).IncludeAll(true).AllValue(".*").
		Current(dashboard.VariableOption{
			Selected: new(true),
			Text:     dashboard.StringOrArrayOfString{String: new("All")},
			Value:    dashboard.StringOrArrayOfString{String: new("$__all")},
		})
}
