package main

import (
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/test/readme"
)

func TestTakeOverPage(t *testing.T) {
	loss := func(millis int64, statuses int) *takenOver {
		return &takenOver{
			programRestart{failed: time.UnixMilli(1000), running: time.UnixMilli(1000 + millis), processor: time.Second, supervisors: 500 * time.Millisecond},
			map[string]int{statusWrite: statuses, "delete pods": 8},
		}
	}
	r := &results{takeOver: []*takeOverResults{
		{ranks: 100, connecting: time.Second, alone: 60, connected: 74, losses: []*takenOver{loss(100, 1), loss(200, 1), loss(300, 1)}, heard: 2 * time.Second},
		{ranks: 1000, connecting: time.Second, alone: 60, connected: 160, losses: []*takenOver{loss(400, 1), loss(500, 1), loss(2400, 2)}, heard: 2 * time.Second},
	}}
	page := renderTakeOver(r, readme.Versions{Kubernetes: "v1"})
	for _, want := range []string{
		"|100|200 (120–280) ms|300 ms|≤ 2s||1|≤ 1|1.00 s|0.50 s|102 KiB|1.00 s|2.00 s|",
		"|1000|500 (420–2020) ms|2400 ms|≤ 2s **misses: 2.4s**|2.5×|2|≤ 1 **misses: 2**|1.00 s|0.50 s|98 KiB|1.00 s|2.00 s|",
		"- 1000 ranks, node deleted → all ranks run: 2.4s, and not ≤ 2s",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	if len(r.misses) != 2 {
		t.Errorf("the limits exceeded are %q", r.misses)
	}
}

// No node has a rank and a spare, and every node that is lost is full of ranks.
func TestNodesOfATakeOver(t *testing.T) {
	for _, size := range []int{100, 1000, 10_000} {
		b := &takeOverBench{results: &takeOverResults{ranks: size}, pool: takeOverPools(counts{size})[0]}
		nodes, most := map[string]bool{}, map[string]int{}
		for _, name := range b.pool.NodeNames() {
			nodes[name] = true
		}
		for i := range size + takeOverSpares {
			node := b.node(i)
			if most[node]++; !nodes[node] || most[node] > fleetGPUs {
				t.Errorf("%d ranks: pod %d is on %s, with %d pods", size, i, node, most[node])
			}
		}
		if b.node(size-1) == b.node(size) {
			t.Errorf("%d ranks: %s has a rank and a spare", size, b.node(size))
		}
		for i := range takeOverLosses {
			if lost := b.lost(i); b.node(lost[0]) != b.node(lost[fleetGPUs-1]) || most[b.node(lost[0])] != fleetGPUs {
				t.Errorf("%d ranks: loss %d is of ranks %v", size, i, lost)
			}
		}
	}
}
