package audit

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// takesOver has a spare become the rank whose pod is lost, as the status says of the pod with a UID.
func (h *history) takesOver(uid func(spare string) string) {
	const spare = "llama-1-worker-spare-0"
	h.write(kubelet, "create", "nodes", "n1", fields{"status": fields{
		"allocatable": fields{"nvidia.com/gpu": "8"}, "conditions": []any{fields{"type": "Ready", "status": "True"}},
	}})
	h.gated(spare)
	h.lifts(spare)
	h.bind(volcano, spare, "n1")
	h.write(kubelet, "patch", "pods", spare, fields{"spec": fields{"nodeName": "n1"}, "status": fields{"phase": "Running"}})
	by := uid(h.objects["pods/"+spare]["metadata"].(map[string]any)["uid"].(string))
	h.status(fields{
		"tasks": []any{
			fields{"name": "worker", "replicas": 1, "ranks": []any{fields{"indexes": "0", "incarnation": 2}}, "pods": []any{fields{"index": 0, "attempt": 1, "pod": "worker-spare-0", "uid": by, "incarnation": 2}}},
			fields{"name": "worker-spare", "replicas": 1, "ranks": []any{fields{"indexes": "0", "incarnation": 2}}, "pods": []any{fields{"index": 0, "attempt": 1, "pod": "worker-0"}}},
		},
		"incidents": []any{incident0("0", step0("RestartPod", h.now))},
	})
	h.deletes("llama-1-worker-0")
	h.remove(kubelet, "pods", "llama-1-worker-0")
	h.idle(2 * time.Minute)
}

// A pod that has taken a rank over is not of an earlier incarnation of it, and another one of its name would be.
func TestASpareThatTakesOver(t *testing.T) {
	for name, tc := range map[string]struct {
		uid  func(string) string
		want []string
	}{
		"the pod":     {func(spare string) string { return spare }, nil},
		"another pod": {func(string) string { return "another" }, []string{"Restarts"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHistory(t).job()
			h.takesOver(tc.uid)
			var rules []string
			for _, v := range h.check().Violations {
				rules = append(rules, v.Rule)
			}
			if diff := cmp.Diff(tc.want, rules); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
}
