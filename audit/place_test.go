package audit

import (
	"testing"
	"time"
)

// racks are r0 with n0 and r1 with n1, under one spine; the job is at home in r0.
func (h *history) racks() {
	h.write(user1, "create", "nodes", "n1", fields{"metadata": fields{"labels": fields{"rack": "r1"}}})
	h.hyperNode("r0", "Node", fields{"exactMatch": fields{"name": "n0"}})
	h.hyperNode("r1", "Node", fields{"labelMatch": fields{"matchExpressions": []any{fields{"key": "rack", "operator": "In", "values": []any{"r1"}}}}})
	h.hyperNode("spine", "HyperNode", fields{"exactMatch": fields{"name": "r0"}}, fields{"exactMatch": fields{"name": "r1"}})
	h.home("r0")
}

func (h *history) hyperNode(name, of string, selectors ...fields) {
	var members []any
	for _, selector := range selectors {
		members = append(members, fields{"type": of, "selector": selector})
	}
	h.write(user1, "create", "hypernodes", name, fields{"spec": fields{"members": members}})
}

func (h *history) home(name string) { h.status(fields{"placement": fields{"hyperNode": name}}) }

// comes has the manager bind a further rank, which tolerates a taint.
func (h *history) comes(node string) {
	h.write(volcano, "create", "pods", "llama-1-worker-1", fields{
		"metadata": fields{"labels": fields{"lockstep.dev/job-uid": "uid-llama-1", "lockstep.dev/task": "worker", "lockstep.dev/attempt": "1"}},
		"spec":     fields{"tolerations": []any{fields{"key": "dedicated", "operator": "Exists"}, fields{"key": "hold.lockstep.dev/llama-uid", "operator": "Exists"}, fields{"key": "hold.lockstep.dev/passed-uid", "operator": "Exists"}}},
	})
	h.bind(manager, "llama-1-worker-1", node)
}

// becomes changes what a node says of itself, some time ago.
func (h *history) becomes(node string, spec fields) {
	h.write(user1, "patch", "nodes", node, fields{"spec": spec})
	h.after(time.Minute)
}

func taints(key, effect string) fields {
	return fields{"taints": []any{fields{"key": key, "effect": effect}}}
}

func TestFalsifiedPlaces(t *testing.T) {
	judge(t, map[string]story{
		"at home":           {func(h *history) { h.racks(); h.comes("n0") }, ""},
		"in another rack":   {func(h *history) { h.racks(); h.comes("n1") }, "Home"},
		"home is the spine": {func(h *history) { h.racks(); h.home("spine"); h.comes("n1") }, ""},
		"home moves first":  {func(h *history) { h.racks(); h.home("r1"); h.comes("n1") }, ""},
		"a HyperNode that holds itself": {func(h *history) {
			h.racks()
			h.hyperNode("ring", "HyperNode", fields{"exactMatch": fields{"name": "ring"}})
			h.home("ring")
			h.comes("n1")
		}, ""},
		"a spine whose racks a pattern names, of which some may be older than the log": {func(h *history) {
			h.racks()
			h.hyperNode("pod", "HyperNode", fields{"regexMatch": fields{"pattern": "^r0$"}})
			h.home("pod")
			h.comes("n1")
		}, ""},
		"a spine with a rack that is older than the log": {func(h *history) {
			h.racks()
			h.hyperNode("pod", "HyperNode", fields{"exactMatch": fields{"name": "r0"}}, fields{"exactMatch": fields{"name": "r9"}})
			h.home("pod")
			h.comes("n1")
		}, ""},
		"home is older than the log": {func(h *history) { h.home("r9"); h.comes("n0") }, ""},
		"a node that is excluded": {func(h *history) {
			h.status(fields{"excludedNodes": []any{fields{"name": "n0", "until": h.now.Add(time.Hour)}}})
			h.comes("n0")
		}, "Home"},
		"a node that was excluded": {func(h *history) {
			h.status(fields{"excludedNodes": []any{fields{"name": "n0", "until": h.now.Add(time.Hour)}}})
			h.after(2 * time.Hour)
			h.comes("n0")
		}, ""},
		"a node that is cordoned": {func(h *history) { h.becomes("n0", fields{"unschedulable": true}); h.comes("n0") }, "Admits"},
		"a node that is cordoned just now": {func(h *history) {
			h.write(user1, "patch", "nodes", "n0", fields{"spec": fields{"unschedulable": true}})
			h.comes("n0")
		}, ""},
		"a taint":                   {func(h *history) { h.becomes("n0", taints("lockstep.dev/quarantine", "NoSchedule")); h.comes("n0") }, "Admits"},
		"a taint that is tolerated": {func(h *history) { h.becomes("n0", taints("dedicated", "NoSchedule")); h.comes("n0") }, ""},
		"a hold of another job, on a node that its own does not hold": {func(h *history) {
			h.becomes("n0", taints("hold.lockstep.dev/other-uid", "NoSchedule"))
			h.comes("n0")
		}, "Admits"},
		"a hold of another job beside one that the pod may pass": {func(h *history) {
			h.becomes("n0", fields{"taints": []any{fields{"key": "hold.lockstep.dev/other-uid", "effect": "NoSchedule"}, fields{"key": "hold.lockstep.dev/passed-uid", "effect": "NoSchedule"}}})
			h.comes("n0")
		}, "Admits"},
		"a hold of another job beside its own": {func(h *history) {
			h.becomes("n0", fields{"taints": []any{fields{"key": "hold.lockstep.dev/other-uid", "effect": "NoSchedule"}, fields{"key": "hold.lockstep.dev/llama-uid", "effect": "NoSchedule"}}})
			h.comes("n0")
		}, ""},
		"a taint that is a preference":                {func(h *history) { h.becomes("n0", taints("slow", "PreferNoSchedule")); h.comes("n0") }, ""},
		"Volcano binds a replacement to another rack": {func(h *history) { h.racks(); h.after(time.Minute); h.pod("llama-1-worker-1", "n1") }, "Home"},
		"Volcano binds a replacement to another spine": {func(h *history) {
			h.racks()
			h.write(user1, "create", "nodes", "n2", fields{})
			h.home("spine")
			h.after(time.Minute)
			h.pod("llama-1-worker-1", "n2")
		}, "Home"},
		"Volcano binds within the spine":             {func(h *history) { h.racks(); h.home("spine"); h.after(time.Minute); h.pod("llama-1-worker-1", "n1") }, ""},
		"Volcano binds where home was not yet found": {func(h *history) { h.racks(); h.pod("llama-1-worker-1", "n1") }, ""},
		"Volcano binds once home has moved": {func(h *history) {
			h.racks()
			h.after(time.Minute)
			h.gated("llama-1-worker-1")
			h.lifts("llama-1-worker-1")
			h.home("r1")
			h.bind(volcano, "llama-1-worker-1", "n1")
		}, ""},
		"Volcano binds once the rack has lost a node": {func(h *history) {
			h.racks()
			h.after(time.Minute)
			h.gated("llama-1-worker-1")
			h.lifts("llama-1-worker-1")
			h.hyperNode("r0", "Node", fields{"exactMatch": fields{"name": "n2"}})
			h.bind(volcano, "llama-1-worker-1", "n0")
		}, ""},
	})
}
