// The rules are tested by promtool, on metrics as dcgm-exporter and Lockstep have them.

package prometheus

import (
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/health"
	"github.com/lockstep-dev/lockstep/health/alerts"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// rule is what these tests read of one.
type rule struct {
	Record        string            `json:"record,omitempty"`
	Alert         string            `json:"alert,omitempty"`
	Expr          string            `json:"expr"`
	For           string            `json:"for,omitempty"`
	KeepFiringFor string            `json:"keep_firing_for,omitempty"`
	Labels        map[string]string `json:"labels,omitempty"`
	Annotations   map[string]string `json:"annotations,omitempty"`
}

// ruleFile is what Prometheus reads: the spec of a PrometheusRule.
type ruleFile struct {
	Groups []struct {
		Name     string `json:"name"`
		Interval string `json:"interval,omitempty"`
		Rules    []rule `json:"rules"`
	} `json:"groups"`
}

func (f ruleFile) each(do func(r *rule)) {
	for g := range f.Groups {
		for r := range f.Groups[g].Rules {
			do(&f.Groups[g].Rules[r])
		}
	}
}

var files = []string{"gpu.yaml", "lockstep.yaml"}

func rulesOf(t *testing.T, name string) ruleFile {
	t.Helper()
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var object struct {
		APIVersion string         `json:"apiVersion"`
		Kind       string         `json:"kind"`
		Metadata   map[string]any `json:"metadata"`
		Spec       ruleFile       `json:"spec"`
	}
	if err := yaml.UnmarshalStrict(raw, &object); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if object.Kind != "PrometheusRule" || object.APIVersion != "monitoring.coreos.com/v1" {
		t.Fatalf("%s is a %s %s", name, object.APIVersion, object.Kind)
	}
	return object.Spec
}

// promtool runs a file of tests on rules, and returns what it says of those that fail.
func promtool(t *testing.T, name string, rules ruleFile, tests []byte) (string, error) {
	t.Helper()
	binaries, err := cluster.Build(t.Context(), io.Discard, cluster.Promtool)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := yaml.Marshal(rules)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for file, content := range map[string][]byte{name: raw, "tests.yaml": tests} {
		if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.CommandContext(t.Context(), binaries.Path(cluster.Promtool), "test", "rules", filepath.Join(dir, "tests.yaml")).CombinedOutput()
	return string(out), err
}

func testsOf(t *testing.T, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("tests", name))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestRules(t *testing.T) {
	for _, name := range files {
		if out, err := promtool(t, name, rulesOf(t, name), testsOf(t, name)); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// A rule whose breakage no test notices is not tested. All rules of a file are broken at once in
// one respect, and each has to be among those that fail.
func TestEveryPartOfARuleIsTested(t *testing.T) {
	thresholds := regexp.MustCompile(`([><]=?|==) [0-9.]+`)
	for what, broken := range map[string]func(*rule){
		"expr":            func(r *rule) { r.Expr = "vector(1) > 2" },
		"threshold":       func(r *rule) { r.Expr = thresholds.ReplaceAllString(r.Expr, "> -1") },
		"for":             func(r *rule) { r.For = "" },
		"keep_firing_for": func(r *rule) { r.KeepFiringFor = "" },
		"labels":          func(r *rule) { r.Labels = nil },
		"annotations":     func(r *rule) { r.Annotations = nil },
	} {
		for _, name := range files {
			rules := rulesOf(t, name)
			var changed []string
			rules.each(func(r *rule) {
				was := *r
				if broken(r); r.Alert != "" && !equal(was, *r) {
					changed = append(changed, r.Alert)
				}
			})
			out, _ := promtool(t, name, rules, testsOf(t, name))
			for _, alert := range changed {
				if !strings.Contains(out, "alertname: "+alert+",") {
					t.Errorf("%s: no test notices that the %s of %s is broken", name, what, alert)
				}
			}
		}
	}
}

func equal(a, b rule) bool {
	return a.Expr == b.Expr && a.For == b.For && a.KeepFiringFor == b.KeepFiringFor && len(a.Labels) == len(b.Labels) && len(a.Annotations) == len(b.Annotations)
}

var xidRow = regexp.MustCompile(`^xid:(\d+)$`)

// Every XID of the default table means the same here: its signal, its state, or nothing.
func TestXIDsAreThoseOfTheTable(t *testing.T) {
	alertOf := map[v1alpha1.HealthState]string{v1alpha1.HealthStateFailed: "GPUXIDFailed", v1alpha1.HealthStateDegraded: "GPUXIDDegraded"}
	var tests strings.Builder
	fmt.Fprintln(&tests, "rule_files: [gpu.yaml]\nevaluation_interval: 15s\ntests:")
	rows := 0
	for _, row := range health.Default().Rows() {
		xid := xidRow.FindStringSubmatch(row.ID)
		if xid == nil {
			continue
		}
		rows++
		alert, labels := alertOf[v1alpha1.HealthState(row.State)], fmt.Sprintf(", xid: %q", xid[1])
		fmt.Fprintf(&tests, "- name: %s\n  interval: 15s\n  input_series:\n  - {series: 'DCGM_EXP_XID_ERRORS_COUNT{UUID=\"GPU-a\",xid=%q}', values: '1x8'}\n  alert_rule_test:\n", row.ID, xid[1])
		for _, name := range []string{"GPUXIDFailed", "GPUXIDDegraded"} {
			if name != alert {
				fmt.Fprintf(&tests, "  - {eval_time: 1m, alertname: %s, exp_alerts: []}\n", name)
				continue
			}
			severity := map[string]string{"GPUXIDFailed": "critical", "GPUXIDDegraded": "warning"}[name]
			fmt.Fprintf(&tests, "  - eval_time: 1m\n    alertname: %s\n    exp_alerts:\n    - exp_labels: {UUID: GPU-a, severity: %s, lockstep_severity: %s, lockstep_signal: %s%s}\n",
				name, severity, strings.ToLower(string(row.State)), row.Signal, labels)
		}
	}
	if rows < 30 {
		t.Fatalf("only %d XIDs in the table", rows)
	}
	rules := rulesOf(t, "gpu.yaml")
	rules.each(func(r *rule) { r.Annotations = nil })
	if out, err := promtool(t, "gpu.yaml", rules, []byte(tests.String())); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// Every alert of a GPU is one that the receiver takes, of a signal and a state of the table.
func TestAlertsOfGPUsAreSignalsOfTheTable(t *testing.T) {
	known := map[string]bool{}
	for _, row := range health.Default().Rows() {
		known[fmt.Sprint(row.Signal, " ", row.State)] = true
	}
	rulesOf(t, "gpu.yaml").each(func(r *rule) {
		if r.Alert == "" {
			return
		}
		labels := maps.Clone(r.Labels)
		labels["alertname"], labels["hostname"] = r.Alert, "gpu-17"
		if strings.Contains(labels[alerts.LabelSignal], "{{") { // by the XID, which has a test of its own
			labels[alerts.LabelSignal] = map[string]string{"failed": "XID79", "degraded": "XID144"}[labels[alerts.LabelSeverity]]
		}
		change, err := alerts.Map(alerts.Alert{Status: "firing", Labels: labels, StartsAt: time.Unix(1e9, 0)})
		if err != nil {
			t.Errorf("%s: %v", r.Alert, err)
			return
		}
		if what := fmt.Sprint(change.Report.Signal, " ", change.Report.State); !known[what] {
			t.Errorf("%s is %s, which no row of the table is", r.Alert, what)
		}
	})
}

// What is told of Lockstep itself must not come back as the fault of a node.
func TestAlertsOfLockstepAreForPeople(t *testing.T) {
	rulesOf(t, "lockstep.yaml").each(func(r *rule) {
		for _, label := range slices.Sorted(maps.Keys(r.Labels)) {
			if strings.HasPrefix(label, "lockstep_") {
				t.Errorf("%s has the label %s", r.Alert, label)
			}
		}
	})
}

// The rule that README.md shows for InfiniBand is one, and the receiver takes its alerts.
func TestExampleOfThePage(t *testing.T) {
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(page), "```yaml\n")
	block, _, _ = strings.Cut(block, "```")
	var rules []rule
	if err := yaml.UnmarshalStrict([]byte(block), &rules); err != nil || len(rules) != 1 {
		t.Fatalf("%d rules, %v", len(rules), err)
	}
	var file ruleFile
	raw, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "page", "rules": rules}}})
	if err == nil {
		err = yaml.Unmarshal(raw, &file)
	}
	if err != nil {
		t.Fatal(err)
	}
	tests := `
rule_files: [page.yaml]
evaluation_interval: 15s
tests:
- interval: 15s
  input_series:
  - {series: 'node_infiniband_state_id{node="gpu-17",device="mlx5_0",port="1"}', values: '4x4 1x20'}
  - {series: 'node_infiniband_state_id{node="gpu-17",device="mlx5_1",port="1"}', values: '4x24'}
  alert_rule_test:
  - {eval_time: 1m15s, alertname: PortDown, exp_alerts: []}
  - eval_time: 3m
    alertname: PortDown
    exp_alerts:
    - exp_labels: {node: gpu-17, device: mlx5_0, port: "1", lockstep_severity: failed, lockstep_signal: IBPortDown, lockstep_entity: nic/mlx5_0/1}
`
	if out, err := promtool(t, "page.yaml", file, []byte(tests)); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
