// A real Prometheus, which scrapes the manager and the agents as the shipped PodMonitors say, and has the shipped rules.

package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"sigs.k8s.io/yaml"

	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/operator"
)

// shortened is what the minutes of the rules' for and keep_firing_for are divided by, so that an hour is a second. Their expressions
// are as they are shipped.
const shortened = 3600

// object is a part of YAML or JSON.
type object = map[string]any

// target is what Prometheus scrapes: the pod that it stands for, and where its metrics are.
type target struct{ namespace, pod, node, address string }

// podMonitor is what these tests read of one.
type podMonitor struct {
	Metadata struct{ Name, Namespace string }
	Spec     struct {
		PodMetricsEndpoints []struct {
			Port        string
			HonorLabels bool
			Relabelings []struct {
				SourceLabels []string
				TargetLabel  string
			}
		}
	}
}

// scrapeConfig is what the Prometheus operator makes of a PodMonitor, where the targets are found by name: the labels of a target are
// those that the operator gives it.
func (m podMonitor) scrapeConfig(targets []target) object {
	endpoint := m.Spec.PodMetricsEndpoints[0]
	var relabelings, static []object
	for _, r := range endpoint.Relabelings {
		relabelings = append(relabelings, object{"source_labels": r.SourceLabels, "target_label": r.TargetLabel})
	}
	for _, t := range targets {
		static = append(static, object{"targets": []string{t.address}, "labels": object{
			"__meta_kubernetes_pod_node_name": t.node,
			"namespace":                       t.namespace, "pod": t.pod, "container": "main", "endpoint": endpoint.Port,
		}})
	}
	return object{
		"job_name": m.Metadata.Namespace + "/" + m.Metadata.Name, "honor_labels": endpoint.HonorLabels,
		"relabel_configs": relabelings, "static_configs": static,
	}
}

// podMonitors are the shipped ones, by name.
func podMonitors(t *testing.T) map[string]podMonitor {
	t.Helper()
	raw, err := os.ReadFile("../../config/prometheus/pod_monitors.yaml")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]podMonitor{}
	for document := range strings.SplitSeq(strings.TrimPrefix(string(raw), "---\n"), "\n---\n") {
		var m podMonitor
		if err := yaml.Unmarshal([]byte(document), &m); err != nil {
			t.Fatal(err)
		}
		out[m.Metadata.Name] = m
	}
	return out
}

// shortenedRules are the groups of a shipped file, with the times divided.
func shortenedRules(t *testing.T, file string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("../../config/prometheus", file))
	if err != nil {
		t.Fatal(err)
	}
	var rules struct {
		Spec struct {
			Groups []struct {
				Name  string   `json:"name"`
				Rules []object `json:"rules"`
			} `json:"groups"`
		}
	}
	if err := yaml.Unmarshal(raw, &rules); err != nil {
		t.Fatal(err)
	}
	for _, group := range rules.Spec.Groups {
		for _, rule := range group.Rules {
			for _, field := range []string{"for", "keep_firing_for"} {
				if text, has := rule[field].(string); has {
					d, err := model.ParseDuration(text)
					if err != nil {
						t.Fatal(err)
					}
					rule[field] = (d / shortened).String()
				}
			}
		}
	}
	raw, err = yaml.Marshal(object{"groups": rules.Spec.Groups})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// prometheusServer is one that runs.
type prometheusServer struct {
	s   *scenario
	url string
}

// startPrometheus runs one for the test, which scrapes the manager and some agents every second.
func (s *scenario) startPrometheus(am *alertmanager, agents []gpuNode) *prometheusServer {
	s.t.Helper()
	dir := s.t.TempDir()
	binaries, err := cluster.Build(s.ctx, io.Discard, cluster.Prometheus)
	s.must(err, "find Prometheus")
	port, err := testCluster.Port()
	s.must(err, "find a port")
	p := &prometheusServer{s: s, url: fmt.Sprintf("http://127.0.0.1:%d", port)}
	managers := []target{{operator.Namespace, "manager", "", strings.TrimSuffix(strings.TrimPrefix(metricsURL, "http://"), "/metrics")}}
	var onNodes []target
	for _, a := range agents {
		onNodes = append(onNodes, target{agentNamespace, "agent-" + a.name, a.name, a.metrics})
	}
	monitors := podMonitors(s.t)
	config, err := yaml.Marshal(object{
		"global":         object{"scrape_interval": "1s", "evaluation_interval": "1s"},
		"scrape_configs": []object{monitors["lockstep-manager"].scrapeConfig(managers), monitors[agentName].scrapeConfig(onNodes)},
		"rule_files":     []string{"lockstep.yaml", "gpu.yaml"},
		"alerting":       object{"alertmanagers": []object{{"static_configs": []object{{"targets": []string{strings.TrimPrefix(am.url, "http://")}}}}}},
	})
	s.must(err, "write Prometheus' configuration")
	for file, content := range map[string][]byte{
		"prometheus.yml": config, "lockstep.yaml": shortenedRules(s.t, "lockstep.yaml"), "gpu.yaml": shortenedRules(s.t, "gpu.yaml"),
	} {
		s.must(os.WriteFile(filepath.Join(dir, file), content, 0o600), "write Prometheus' configuration")
	}
	name := "prometheus-" + s.pool.Name
	process, err := testCluster.Run(s.ctx, cluster.Command{
		Name: name, Path: binaries.Path(cluster.Prometheus), Dir: dir,
		Args: []string{
			"--config.file=" + filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path=" + filepath.Join(dir, "data"),
			"--web.listen-address=" + strings.TrimPrefix(p.url, "http://"),
		},
		Ready: func(ctxT) error { return get(p.url + "/-/ready") },
	})
	s.must(err, "run Prometheus")
	s.t.Cleanup(func() {
		if s.t.Failed() {
			s.t.Logf("Prometheus' log:\n%s", testCluster.Log(name))
		}
		_ = process.Stop()
	})
	return p
}

// ask reads the data of an answer of Prometheus' API.
func (p *prometheusServer) ask(path string, query url.Values, into any) error {
	response, err := http.Get(p.url + "/api/v1/" + path + "?" + query.Encode())
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer := struct {
		Status, Error string
		Data          json.RawMessage
	}{}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return err
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s %s: %s", path, query, answer.Error)
	}
	return json.Unmarshal(answer.Data, into)
}

// series are those that an expression gives now.
func (p *prometheusServer) series(expr string) (model.Vector, error) {
	var answer struct {
		Result model.Vector
	}
	err := p.ask("query", url.Values{"query": {expr}}, &answer)
	return answer.Result, err
}

// awaitSeries waits until an expression gives something.
func (p *prometheusServer) awaitSeries(what, expr string) {
	p.s.t.Helper()
	p.s.awaitAny(what, func(ctxT) (bool, error) {
		found, err := p.series(expr)
		return len(found) > 0, err
	})
}

// awaitTargets waits until so many targets are up, and none is down.
func (p *prometheusServer) awaitTargets(n int) {
	p.s.t.Helper()
	p.s.awaitAny(fmt.Sprintf("%d targets are up", n), func(ctxT) (bool, error) {
		var answer struct {
			ActiveTargets []struct{ Health, ScrapeURL, LastError string }
		}
		if err := p.ask("targets", nil, &answer); err != nil {
			return false, err
		}
		for _, t := range answer.ActiveTargets {
			if t.Health != "up" {
				return false, fmt.Errorf("%s is %s: %s", t.ScrapeURL, t.Health, t.LastError)
			}
		}
		return len(answer.ActiveTargets) == n, nil
	})
}

// alert is what Alertmanager tells of one.
type alert struct {
	Labels, Annotations map[string]string
	StartsAt            time.Time
}

// firing are the alerts of a name that Alertmanager knows and that are not resolved.
func (am *alertmanager) firing(name string) ([]alert, error) {
	response, err := http.Get(am.url + "/api/v2/alerts?" + url.Values{"filter": {fmt.Sprintf("alertname=%q", name)}}.Encode())
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var out []alert
	err = json.NewDecoder(response.Body).Decode(&out)
	return out, err
}

// awaitAlert waits until Alertmanager has an alert with some labels, or has it no more.
func (s *scenario) awaitAlert(am *alertmanager, name string, labels map[string]string, isFiring bool) {
	s.t.Helper()
	s.awaitAny(fmt.Sprintf("%s %v: firing is %t", name, labels, isFiring), func(ctxT) (bool, error) {
		found, err := am.firing(name)
		if err != nil {
			return false, err
		}
		for _, a := range found {
			if hasLabels(a.Labels, labels) {
				return isFiring, nil
			}
		}
		return !isFiring, nil
	})
}

func hasLabels(all, some map[string]string) bool {
	for name, value := range some {
		if all[name] != value {
			return false
		}
	}
	return true
}
