package audit

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// gangHistory is a history of two ranks with supervisors, and what these have logged.
type gangHistory struct {
	*history
	logs fstest.MapFS
	// uids are those of the pods of the ranks.
	uids [2]string
}

func newGangHistory(t *testing.T) *gangHistory {
	g := &gangHistory{history: newHistory(t).job(), logs: fstest.MapFS{}}
	g.pod("llama-1-worker-1", "n1")
	for i := range g.uids {
		g.uids[i] = g.objects[fmt.Sprintf("pods/llama-1-worker-%d", i)]["metadata"].(map[string]any)["uid"].(string)
	}
	return g
}

// reports logs a report of the supervisor of a rank, two seconds later.
func (g *gangHistory) reports(index int, state string, epoch int) {
	g.after(2 * time.Second)
	name := fmt.Sprintf("ml_llama-1-worker-%d_%s/worker/0.log", index, g.uids[index])
	if g.logs[name] == nil {
		g.logs[name] = &fstest.MapFile{}
	}
	at := g.now.UTC().Format("2006-01-02T15:04:05.000Z")
	g.logs[name].Data = fmt.Appendf(g.logs[name].Data, "%s stderr F time=%s level=INFO msg=Reporting from=lockstep-run state=%s epoch=%d\n", at, at, state, epoch)
}

// node1 is the node of rank 1, as its condition Ready is.
func (g *gangHistory) node1(ready string) {
	g.write(kubelet, "create", "nodes", "n1", fields{"status": fields{"conditions": []any{fields{"type": "Ready", "status": ready}}}})
}

// givesAway has a spare take over the rank of a pod, whose name is the spare's then.
func (g *gangHistory) givesAway(index int) {
	g.after(time.Second)
	g.status(fields{"attempt": 1, "tasks": []any{
		fields{"name": "worker", "replicas": 2, "pods": []any{fields{"index": index, "attempt": 1, "pod": "worker-spare-0", "uid": "spare", "incarnation": 2}}},
		fields{"name": "worker-spare", "replicas": 1, "pods": []any{fields{"index": 0, "attempt": 1, "pod": fmt.Sprintf("worker-%d", index)}}},
	}})
}

func TestRunsOfAGangDoNotMeet(t *testing.T) {
	tests := map[string]struct {
		tell func(*gangHistory)
		want []string
	}{
		"a gang that restarts in place": {func(g *gangHistory) {
			g.reports(0, "RUNNING", 1)
			g.reports(1, "RUNNING", 1)
			g.reports(0, "FAILED", 1)
			g.reports(1, "STOPPING", 1)
			g.reports(0, "WAITING", 2)
			g.reports(1, "WAITING", 2)
			g.reports(0, "RUNNING", 2)
			g.reports(1, "RUNNING", 2)
		}, nil},
		"a rank starts while another one stops": {func(g *gangHistory) {
			g.reports(0, "RUNNING", 1)
			g.reports(1, "RUNNING", 1)
			g.reports(0, "FAILED", 1)
			g.reports(1, "STOPPING", 1)
			g.reports(0, "RUNNING", 2)
			g.reports(1, "WAITING", 2)
		}, []string{"the program of pod ml/llama-1-worker-0 started in epoch 2 while that of pod ml/llama-1-worker-1 ran in epoch 1"}},
		"a rank never hears of the later epoch": {func(g *gangHistory) {
			g.reports(1, "RUNNING", 1)
			g.reports(0, "RUNNING", 2)
			g.idle(time.Minute)
		}, []string{"the program of pod ml/llama-1-worker-0 started in epoch 2 while that of pod ml/llama-1-worker-1 ran in epoch 1"}},
		"its pod was removed before": {func(g *gangHistory) {
			g.reports(1, "RUNNING", 1)
			g.remove(kubelet, "pods", "llama-1-worker-1")
			g.reports(0, "RUNNING", 2)
			g.idle(time.Minute)
		}, nil},
		"it was asked to end, and its pod had ended before": {func(g *gangHistory) {
			g.reports(1, "RUNNING", 1)
			g.reports(1, "STOPPING", 2)
			g.reports(1, "TERMINATING", 2)
			g.write(kubelet, "patch", "pods", "llama-1-worker-1", fields{"status": fields{"phase": "Failed"}})
			g.reports(0, "RUNNING", 2)
			g.idle(time.Minute)
			g.remove(kubelet, "pods", "llama-1-worker-1")
		}, nil},
		"it was asked to end, and its pod has yet to": {func(g *gangHistory) {
			g.reports(1, "RUNNING", 1)
			g.reports(1, "STOPPING", 2)
			g.reports(1, "TERMINATING", 2)
			g.reports(0, "RUNNING", 2)
			g.after(2 * time.Second)
			g.write(kubelet, "patch", "pods", "llama-1-worker-1", fields{"status": fields{"phase": "Failed"}})
			g.idle(time.Minute)
		}, []string{"the program of pod ml/llama-1-worker-0 started in epoch 2 while that of pod ml/llama-1-worker-1 ran in epoch 1"}},
		"a spare takes its rank over while its node is silent": {func(g *gangHistory) {
			g.reports(1, "RUNNING", 1)
			g.node1("Unknown")
			g.givesAway(1)
			g.reports(0, "RUNNING", 2)
			g.idle(time.Minute)
		}, nil},
		"a spare takes its rank over, and its node is well": {func(g *gangHistory) {
			g.reports(1, "RUNNING", 1)
			g.node1("True")
			g.givesAway(1)
			g.reports(0, "RUNNING", 2)
			g.idle(time.Minute)
		}, []string{"the program of pod ml/llama-1-worker-0 started in epoch 2 while that of pod ml/llama-1-worker-1 ran in epoch 1"}},
		"it was removed by force, and its program ran on": {func(g *gangHistory) {
			g.reports(1, "RUNNING", 1)
			g.remove("pod-garbage-collector", "pods", "llama-1-worker-1")
			g.reports(0, "RUNNING", 2)
			g.reports(1, "TERMINATING", 1)
			g.reports(1, "STOPPING", 1)
			g.reports(1, "FAILED", 1)
		}, nil},
		"its deletion was answered with an error, and not done": {func(g *gangHistory) {
			g.reports(1, "RUNNING", 1)
			g.fails(manager, "delete", "pods", "llama-1-worker-1")
			g.write(kubelet, "patch", "pods", "llama-1-worker-1", fields{"status": fields{"message": "runs"}})
			g.reports(0, "RUNNING", 2)
			g.idle(time.Minute)
		}, []string{"the program of pod ml/llama-1-worker-0 started in epoch 2 while that of pod ml/llama-1-worker-1 ran in epoch 1"}},
		"a survivor goes on in the later epoch": {func(g *gangHistory) {
			g.reports(0, "RUNNING", 1)
			g.reports(1, "RUNNING", 1)
			g.reports(0, "FAILED", 1)
			g.reports(0, "RUNNING", 2)
			g.reports(1, "RUNNING", 2)
		}, nil},
		"the clocks of two nodes are a little apart": {func(g *gangHistory) {
			g.reports(1, "RUNNING", 1)
			g.reports(1, "WAITING", 2)
			g.after(-2500 * time.Millisecond)
			g.reports(0, "RUNNING", 2)
		}, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			g := newGangHistory(t)
			tc.tell(g)
			g.idle(time.Second)
			report, err := Check(Options{PodLogs: g.logs}, strings.NewReader(strings.Join(g.lines, "\n")))
			if err != nil {
				t.Fatal(err)
			}
			if report.Reports == 0 {
				t.Error("no report was read")
			}
			var got []string
			for _, v := range report.Violations {
				got = append(got, v.Message)
				if v.Rule != ruleOneEpoch {
					t.Errorf("the rule is %s", v.Rule)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
}
