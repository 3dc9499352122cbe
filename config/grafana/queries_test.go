// Dashboards and rules ask for metrics that exist. The metrics are those of the very registries of the manager and the agent.

package grafana

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/yaml"

	"github.com/lockstep-dev/lockstep/controllers"
	_ "github.com/lockstep-dev/lockstep/controllers/fleet" // its metrics
	"github.com/lockstep-dev/lockstep/health/agent"
	_ "github.com/lockstep-dev/lockstep/health/alerts" // its metrics
	"github.com/lockstep-dev/lockstep/test/dashboards"
	"github.com/lockstep-dev/lockstep/test/promcheck"
)

// targetLabels are those that the Prometheus operator gives the targets of a PodMonitor.
var targetLabels = []string{"job", "instance", "namespace", "pod", "container", "endpoint"}

// dcgmLabels are those that dcgm-exporter gives its series (internal/pkg/rendermetrics), in both spellings of its versions, what
// Prometheus makes of them where a target has the same label, and node and kubernetes_node, which many relabel it with.
var dcgmLabels = []string{
	"gpu", "UUID", "pci_bus_id", "device", "modelName", "Hostname", "hostname", "GPU_I_PROFILE", "GPU_I_ID", "DCGM_FI_DRIVER_VERSION",
	"container", "namespace", "pod", "exported_container", "exported_namespace", "exported_pod", "node", "kubernetes_node",
}

// elsewhere are the metrics of other programs.
var elsewhere = map[string][]string{
	// kube-state-metrics, docs/metrics/cluster/node-metrics.md
	"kube_node_spec_taint": {"node", "key", "value", "effect"},
	// dcgm-exporter, etc/default-counters.csv
	"DCGM_EXP_XID_ERRORS_COUNT":                     append([]string{"xid"}, dcgmLabels...),
	"DCGM_FI_DEV_XID_ERRORS":                        dcgmLabels,
	"DCGM_FI_DEV_ROW_REMAP_FAILURE":                 dcgmLabels,
	"DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL":   dcgmLabels,
	"DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL": dcgmLabels,
	"DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL": dcgmLabels,
	"DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL": dcgmLabels,
	"DCGM_FI_DEV_PCIE_REPLAY_COUNTER":               dcgmLabels,
}

// knownMetrics are all that a query may ask for, but for recording rules.
func knownMetrics(t *testing.T) promcheck.Metrics {
	t.Helper()
	known := promcheck.Metrics{}
	for name, labels := range elsewhere {
		known[name] = promcheck.Of(labels...)
	}
	manager, isRegistry := metrics.Registry.(prometheus.Collector)
	if !isRegistry {
		t.Fatalf("controller-runtime's registry is a %T, and describes nothing", metrics.Registry)
	}
	known.AddRegistry(manager, targetLabels...)
	known.AddRegistry(&controllers.Gauges{}, targetLabels...) // cmd/manager registers it
	known.AddRegistry(agent.NewMetrics().Registry(), targetLabels...)
	return known
}

func TestPanelsAskForWhatThereIs(t *testing.T) {
	known := knownMetrics(t)
	queries, err := dashboards.Queries(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range queries {
		labels, err := known.Check(q.Expr)
		if err == nil {
			err = labels.CheckText(q.Legend)
		}
		if err != nil {
			t.Errorf("%s, panel %q: %v", q.Dashboard, q.Panel, err)
		}
	}
}

var labelValues = regexp.MustCompile(`^label_values\((.+), (\w+)\)$`)

func TestVariablesAskForWhatThereIs(t *testing.T) {
	known := knownMetrics(t)
	all, err := dashboards.Read(".")
	if err != nil {
		t.Fatal(err)
	}
	for name, d := range all {
		for _, v := range d.Templating.List {
			if v.Query == nil || v.Type != "query" {
				continue
			}
			parts := labelValues.FindStringSubmatch(*v.Query.String)
			if parts == nil {
				t.Errorf("%s, variable %s: %q is no label_values(metric, label)", name, v.Name, *v.Query.String)
				continue
			}
			labels, err := known.Check(dashboards.Fill(parts[1]))
			if err == nil && !labels[parts[2]] {
				t.Errorf("%s, variable %s: %s has no label %s", name, v.Name, parts[1], parts[2])
			}
			if err != nil {
				t.Errorf("%s, variable %s: %v", name, v.Name, err)
			}
		}
	}
}

// rules are what this test reads of a PrometheusRule.
type rules struct {
	Spec struct {
		Groups []struct {
			Rules []struct {
				Record, Alert, Expr string
				Labels, Annotations map[string]string
			}
		}
	}
}

func TestRulesAskForWhatThereIs(t *testing.T) {
	known := knownMetrics(t)
	checked := 0
	for _, file := range []string{"lockstep.yaml", "gpu.yaml"} {
		raw, err := os.ReadFile(filepath.Join("..", "prometheus", file))
		if err != nil {
			t.Fatal(err)
		}
		var r rules
		if err := yaml.Unmarshal(raw, &r); err != nil {
			t.Fatal(err)
		}
		for _, group := range r.Spec.Groups {
			for _, rule := range group.Rules {
				checked++
				labels, err := known.Check(rule.Expr)
				if err != nil {
					t.Errorf("%s, %s%s: %v", file, rule.Record, rule.Alert, err)
					continue
				}
				if rule.Record != "" {
					known[rule.Record] = labels
				}
				for name, text := range joined(rule.Labels, rule.Annotations) {
					if err := labels.CheckText(text); err != nil {
						t.Errorf("%s, %s, %s: %v", file, rule.Alert, name, err)
					}
				}
			}
		}
	}
	if checked < 20 {
		t.Errorf("%d rules were checked: does this test read them at all?", checked)
	}
}

func joined(all ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, m := range all {
		maps.Copy(out, m)
	}
	return out
}

// A reader who knows nothing but the panel has to know what to do.
func TestPanelsSayWhatIsGood(t *testing.T) {
	all, err := dashboards.Read(".")
	if err != nil {
		t.Fatal(err)
	}
	for name, d := range all {
		if *d.Uid != "lockstep-"+name {
			t.Errorf("%s has the uid %s", name, *d.Uid)
		}
		titles, ids := map[string]bool{}, map[uint32]bool{}
		for _, p := range dashboards.Panels(d) {
			if p.Title == nil || titles[*p.Title] {
				t.Errorf("%s: panel %v has no title of its own", name, p.Id)
				continue
			}
			titles[*p.Title] = true
			if id := ptr.Deref(p.Id, 0); id == 0 || ids[id] {
				t.Errorf("%s, panel %q has no id of its own: %d", name, *p.Title, id)
			} else {
				ids[id] = true
			}
			for what, has := range saidOf(p) {
				if !has {
					t.Errorf("%s, panel %q has no %s", name, *p.Title, what)
				}
			}
		}
	}
}

// saidOf is what a panel has to have.
func saidOf(p dashboard.Panel) map[string]bool {
	description := ptr.Deref(p.Description, "")
	return map[string]bool{
		"title":                             *p.Title != "",
		"word on what a good value is":      strings.Contains(description, "**Good:** "),
		"word on what to do otherwise":      strings.Contains(description, "**Otherwise:** "),
		"unit":                              p.FieldConfig != nil && ptr.Deref(p.FieldConfig.Defaults.Unit, "") != "",
		"data source that the reader chose": p.Datasource != nil && ptr.Deref(p.Datasource.Uid, "") == "$datasource",
		"query":                             len(p.Targets) > 0,
	}
}
