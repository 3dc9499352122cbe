// From the metrics of the real manager and real agents to a dashboard, and to the people whom an alert calls.

package e2e

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/dashboards"
)

// emptyPanels are those that may show nothing in this test, and why.
var emptyPanels = map[string]string{
	"fleet/Taints of Lockstep":                    "no kube-state-metrics runs here",
	"fleet/Alerts received, by outcome":           "no alert of a GPU came yet",
	"jobs/Checkpoints on request, by outcome":     "nobody was asked for a checkpoint",
	"jobs/Time of checkpoints on request":         "the same",
	"operator/Alerts that were not applied":       "none was refused",
	"operator/Leaders":                            "the manager of these tests needs no lease",
	"operator/Refused requests":                   "none may have been refused yet",
	"operator/Requests to the receiver of alerts": "no alert of a GPU came yet",
}

func TestPrometheusShowsAFaultAndAlerts(t *testing.T) {
	needsAgent(t)
	s := newScenario(t, "watched", 1, 4)
	s.keepManager()
	queue := &scheduling.Queue{ObjectMeta: metav1.ObjectMeta{Name: s.pool.Name}, Spec: scheduling.QueueSpec{Weight: 1}}
	s.must(testCluster.Client().Create(s.ctx, queue), "create the queue")
	t.Cleanup(func() { s.must(client.IgnoreNotFound(testCluster.Client().Delete(s.ctx, queue)), "delete the queue") })
	job := s.trainingJob(2, rules(exitsWith(2, v1alpha1.FailJob), anything(step(v1alpha1.RestartPod, 0))), standing)
	job.Spec.Queue = queue.Name
	s.run(job)
	idle := slices.DeleteFunc(s.pool.RackNodes(0), func(n string) bool { return slices.Contains(s.nodesOfRanks(), n) })
	agents := []gpuNode{s.startAgent(idle[0]), s.startAgent(idle[1])}
	am := s.startAlertmanager()
	prometheus := s.startPrometheus(am, agents)
	prometheus.awaitTargets(1 + len(agents))
	ours := fmt.Sprintf("{namespace=%q, queue=%q}", namespace, queue.Name)
	prometheus.awaitSeries("the job is counted", "lockstep_jobs"+ours+" == 1")

	// An agent cannot tell how well its node is, until it can.
	unknown := map[string]string{"instance": agents[0].name, "severity": "warning"}
	agents[0].dcgm.EngineDown()
	s.awaitAlert(am, "LockstepNodeHealthUnknown", unknown, true)
	agents[0].dcgm.EngineUp()
	s.awaitAlert(am, "LockstepNodeHealthUnknown", unknown, false)

	// A link goes down, and its node into quarantine.
	agents[1].dcgm.SetLink(0, 0, linkDown)
	prometheus.awaitSeries("the link is down", fmt.Sprintf("lockstep_health_faults{instance=%q, signal=\"NVLinkDown\"} == 1", agents[1].name))
	s.awaitAlert(am, "LockstepNodesQuarantined", nil, true)

	// A pod fails, and recovers; another one fails its job. It is the first of its queue that does.
	s.must(testCluster.FailPod(s.ctx, keyOf(s.pod(1)), 1), "fail a pod")
	s.recovered(1)
	prometheus.awaitPanels()
	prometheus.answersRules()
	s.must(testCluster.FailPod(s.ctx, keyOf(s.pod(1)), 2), "fail a pod by its configuration")
	s.awaitAlert(am, "LockstepJobsFailed", map[string]string{"namespace": namespace, "queue": queue.Name}, true)
}

// exitsWith is a rule for pods that fail with an exit code.
func exitsWith(code int32, action v1alpha1.Action) v1alpha1.Rule {
	r := rule("exit-code", v1alpha1.PodFailed, step(action, 0))
	r.Match.ExitCodes = &v1alpha1.ExitCodes{Operator: v1alpha1.ExitCodesIn, Values: []int32{code}}
	return r
}

// awaitPanels asks all queries of the shipped dashboards, and those of panels that must not be empty until each panel shows something.
func (p *prometheusServer) awaitPanels() {
	t := p.s.t
	t.Helper()
	queries, err := dashboards.Queries("../../config/grafana")
	p.s.must(err, "read the dashboards")
	missing, panels := map[string][]dashboards.Query{}, map[string]bool{}
	for _, q := range queries {
		name := q.Dashboard + "/" + q.Panel
		panels[name] = true
		if _, err := p.series(q.Expr); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if emptyPanels[name] == "" {
			missing[name] = append(missing[name], q)
		}
	}
	for name := range emptyPanels {
		if !panels[name] {
			t.Errorf("emptyPanels names %s, and there is no such panel", name)
		}
	}
	p.s.awaitAny("the panels show something", func(ctxT) (bool, error) {
		var last error
		maps.DeleteFunc(missing, func(_ string, queries []dashboards.Query) bool {
			return slices.ContainsFunc(queries, func(q dashboards.Query) bool {
				found, err := p.series(q.Expr)
				last = errors.Join(last, err)
				return len(found) > 0
			})
		})
		if len(missing) > 0 && last == nil {
			last = fmt.Errorf("nothing in %q", slices.Sorted(maps.Keys(missing)))
		}
		return len(missing) == 0, last
	})
}

// answersRules evaluates every expression of the shipped rules.
func (p *prometheusServer) answersRules() {
	t := p.s.t
	t.Helper()
	for _, file := range []string{"lockstep.yaml", "gpu.yaml"} {
		raw, err := os.ReadFile("../../config/prometheus/" + file)
		p.s.must(err, "read the rules")
		var rules struct {
			Spec struct {
				Groups []struct {
					Rules []struct{ Record, Alert, Expr string }
				}
			}
		}
		p.s.must(yaml.Unmarshal(raw, &rules), file)
		for _, group := range rules.Spec.Groups {
			for _, rule := range group.Rules {
				if _, err := p.series(rule.Expr); err != nil {
					t.Errorf("%s, %s%s: %v", file, rule.Record, rule.Alert, err)
				}
			}
		}
	}
}
