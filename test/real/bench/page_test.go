package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/test/readme"
)

// contains checks that a page has each of some texts.
func contains(t *testing.T, page string, want ...string) {
	t.Helper()
	for _, text := range want {
		if !strings.Contains(page, text) {
			t.Errorf("the page lacks %q:\n%s", text, page)
		}
	}
}

func TestRender(t *testing.T) {
	sides := []*side{
		{who: "Lockstep", policy: "the default rules", results: []result{
			{recovered: true, silent: 8 * time.Second, took: 4 * time.Second},
			{recovered: true, silent: 8 * time.Second, took: time.Second},
			{recovered: true, silent: 9 * time.Second, took: 3 * time.Second, replaced: 1},
		}},
		{who: "Volcano", policy: "RestartPod", results: []result{{took: time.Minute, left: "stuck", away: 1}}},
	}
	contains(t, render(sides, &options{ranks: 3, bound: 3 * time.Minute}, readme.Versions{Kubernetes: "v1", Volcano: "v2"}),
		"Kubernetes v1, Volcano v2, on ", "does not train 3m after NotReady",
		"| Lockstep | the default rules | 3 | 3 | 3.0 s (1.0–4.0) | 12.0 s (9.0–12.0) | 1 | 0 |  |\n",
		"| Volcano | RestartPod | 1 | 0 | – | – | 0 | 1 | stuck |\n",
	)
}

func TestRenderKills(t *testing.T) {
	began := time.UnixMilli(0)
	killed := func(stopped, started, trained int) kill {
		at := func(millis int) time.Time { return began.Add(time.Duration(millis) * time.Millisecond) }
		return kill{killed: began, stopped: at(stopped), started: at(started), trained: at(trained)}
	}
	told, later := killed(800, 1200, 21200), killed(900, 2400, 22400)
	told.told, later.told = began.Add(300*time.Millisecond), began.Add(500*time.Millisecond)
	all := []*series{
		{program: "the trainer", supervised: true, ranks: 24, kills: []kill{killed(100, 200, 400), killed(100, 220, 500)}},
		{program: "the trainer", ranks: 24, kills: []kill{killed(0, 2000, 2500), killed(0, 17000, 17600)}, restarted: 48},
		{
			program: "torchrun", supervised: true, ranks: 12, kills: []kill{told, later},
			phases: []string{"Restarting"}, replaced: 1, losses: "step 3 differs",
		},
	}
	page := renderKills(all, &options{busy: true}, readme.Versions{Kubernetes: "v1"})
	contains(t, page,
		"Kubernetes v1, on ", "The machine ran other work beside.",
		"| the trainer, with supervisors | 24 | 2 | 0.45 s (0.40–0.50) | 0.21 s (0.20–0.22) | ≤ 1s | 0.10 s (0.10–0.10) | – | 0.24 s (0.20–0.28) |\n",
		"| the trainer, without | 24 | 2 | 10.05 s (2.50–17.60) | 9.50 s (2.00–17.00) |  | – | – | 0.55 s (0.50–0.60) |\n",
		"| 1.80 s (1.20–2.40) | ≤ 1s **misses: 1.80 s** | 0.85 s (0.80–0.90) | 0.40 s (0.30–0.50) |",
		"| the trainer, with supervisors | 0.20 s | – | 0.22 s | 0.20 s, 0.22 s | ≤ 1.5 × | 0 | 0 | the same bits |\n",
		"| the trainer, without | 2.00 s | – | 17.00 s | 2.00 s, 17.00 s |  | 0 | 48 | the same bits |\n",
		"| torchrun, with supervisors | 1.20 s | – | 2.40 s | 1.20 s, 2.40 s | ≤ 1.5 **misses: 2.00** × | 1 | 0 | step 3 differs |\n",
		"- torchrun, with supervisors, pods replaced: 1, and not 0\n",
		"- torchrun, with supervisors, phases that changed: 1, and not 0\n",
		"- torchrun, with supervisors, losses: step 3 differs, and not the same bits\n",
	)
	if page := renderKills(all[:2], &options{}, readme.Versions{}); !strings.Contains(page, "No goal is missed.") || strings.Contains(page, "beside") {
		t.Errorf("a page on which all is well:\n%s", page)
	}
}

func TestRenderNodes(t *testing.T) {
	run := func(took time.Duration) result {
		return result{
			recovered: true, silent: 8 * time.Second, took: took, lost: 8, made: 8, placed: 8,
			replacement: replacement{allowed: time.Second, bound: 2 * time.Second, started: 4 * time.Second, joined: 4250 * time.Millisecond},
		}
	}
	supervised := &side{who: "Lockstep", policy: "with supervisors", supervised: true, results: []result{run(4500 * time.Millisecond)}}
	volcano := &side{who: "Volcano", policy: "RestartJob", results: []result{{lost: 8, replaced: 16, left: "stuck"}}}
	o := &options{gang: 24, losses: 10, gangBound: time.Minute}
	page := renderNodes([]*side{takingOver(500*time.Millisecond, 0), supervised, volcano}, o, readme.Versions{Kubernetes: "v1", Volcano: "v2"})
	contains(t, page,
		"A gang of 24 ranks of the trainer has 3 nodes of 8 GPUs in a rack of 5", "loses 10 in turn", "replaced, 1 s after",
		"| Lockstep taking over | 2 | 2 | 9.80 s (9.80–9.80) | 0.50 s (0.50–0.50) | 0.80 s (0.80–0.80) | – | – | started ≤ 1s |\n",
		"| Lockstep with supervisors | 1 | 1 | 12.50 s (12.50–12.50) | 3.25 s (3.25–3.25) | 3.50 s (3.50–3.50) | 2.00 s (2.00–2.00) | 1.50 s (1.50–1.50) | beyond ≤ 2s |\n",
		"| Lockstep taking over | 8 | 0, 0 | 0 | 0 | the same bits |  |\n",
		"| Lockstep with supervisors | 8 | 8, 8 | 0 | 0 | the same bits |  |\n", "| Volcano RestartJob | 8 | 0, 0 | 16 | 0 | – | stuck |\n",
		"No policy of Volcano's brought the gang back within 1m.", "No goal is missed.",
	)
	if strings.Contains(page, "| Volcano RestartJob | 1 |") {
		t.Error("a policy by which no gang recovered has a row of times")
	}
	slow := run(14 * time.Second)
	slow.restarted = 2
	supervised.results, supervised.differ, volcano.results = []result{slow}, "step 3 differs", []result{run(21 * time.Second)}
	contains(t, renderNodes([]*side{takingOver(2*time.Second, 3), supervised, volcano}, o, readme.Versions{}),
		"is 0.65 of that of the best of Volcano's policies; the goal is ≤ 0.3 **misses: 0.65**.",
		"- beyond the replacements' own start: 11.00 s, and not ≤ 2s\n", "- Lockstep with supervisors, containers of other pods restarted: 2, and not 0\n",
		"- Lockstep with supervisors, losses: step 3 differs, and not the same bits\n", "- Lockstep taking over, pods made: 3, and not 0\n",
		"- until all programs are started, Lockstep taking over: 2.00 s, and not ≤ 1s\n",
	)
}

// takingOver is a side whose programs were started so long after the loss, and pods made.
func takingOver(started time.Duration, made int) *side {
	r := result{recovered: true, silent: 8 * time.Second, took: 1300*time.Millisecond + started, lost: 8, made: made}
	r.allowed, r.joined = time.Second, time.Second+started
	last := r
	last.node, last.first = "n2", true
	return &side{who: "Lockstep", policy: "taking over", supervised: true, takesOver: true, results: []result{r, last}}
}

func TestRecord(t *testing.T) {
	g := takingOver(504*time.Millisecond, 3).record()
	if g.Losses != sameBits || len(g.Nodes) != 2 {
		t.Fatalf("recorded %+v", g)
	}
	want := lossRecord{Node: "n2", First: true, Ranks: 8, Recovered: true, Silent: 8, Started: 0.5, Trained: 0.8, Made: 3}
	if g.Nodes[1] != want {
		t.Errorf("recorded %+v, want %+v", g.Nodes[1], want)
	}
}

// The gang's nodes take turns, and the second and each fifth loss after it is of rank 0's.
func TestVictim(t *testing.T) {
	pods := map[int]corev1.Pod{}
	for rank, node := range []string{"a", "a", "b", "b", "c", "c", "d"} {
		pods[rank] = corev1.Pod{Spec: corev1.PodSpec{NodeName: node}}
	}
	var lost strings.Builder
	for n := range 7 {
		node, err := victim(pods, n)
		if err != nil {
			t.Fatal(err)
		}
		lost.WriteString(node)
	}
	if lost.String() != "babcbca" {
		t.Errorf("lost %s", lost.String())
	}
	if node, err := victim(map[int]corev1.Pod{0: pods[0], 1: pods[1]}, 0); err == nil {
		t.Errorf("lost %s, which is rank 0's", node)
	}
}

func TestBound(t *testing.T) {
	for d, want := range map[time.Duration]string{3 * time.Minute: "3m", 90 * time.Second: "1m30s", 20 * time.Second: "20s"} {
		if got := bound(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}

func TestREADMEHasMarks(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "benchmarks.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []readme.Section{section, killsSection, nodesSection} {
		if _, err := readme.With(string(raw), s, ""); err != nil {
			t.Errorf("docs/benchmarks.md: %v", err)
		}
	}
}
