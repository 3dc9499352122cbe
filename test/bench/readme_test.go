package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/test/readme"
)

// The page that is written is the one that its program knows how to write.
func TestREADMEHasMarks(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "docs", "benchmarks.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []readme.Section{gangSection, healthSection, supervisedSection, fleetSection, takeOverSection} {
		if _, err := readme.With(string(raw), s, ""); err != nil {
			t.Errorf("docs/benchmarks.md: %v", err)
		}
	}
}

func TestRender(t *testing.T) {
	took := func(side *contender, f figure, d time.Duration) *sample {
		return &sample{pods: 1000, side: side.name, figure: f, came: true, took: d}
	}
	ours := took(&lockstep, restartPod, time.Second)
	ours.calls = calls{writes: 4, holds: 5}
	r := &results{
		samples: []*sample{
			took(&lockstep, start, 30*time.Second), took(&volcano, start, 20*time.Second),
			ours, took(&volcano, restartPod, 2*time.Second), took(&volcano, restartJob, 100*time.Second),
			took(&lockstep, restartJob, 20*time.Second),
		},
		kept: []*tries{{who: "Lockstep", of: 20, kept: 20, must: true}, {who: "Volcano", whole: true, of: 12, lost: 12}},
	}
	o := &options{sizes: counts{1000}, rounds: counts{3}, recoveries: 5}
	page := render(r, o, readme.Versions{Kubernetes: "v1", Volcano: "v2", KWOK: "v3"})
	for _, want := range []string{
		"Kubernetes v1, Volcano v2, KWOK v3",
		"| 1000 | gang applied → all its pods run | 30.00 s (30.00–30.00) | 20.00 s (20.00–20.00) | 1.50 | ≤ 1.05 **misses: 1.5** |",
		"| 1000 | one pod failed → its replacement runs, by RestartPod | 1.00 s (1.00–1.00) | 2.00 s (2.00–2.00) | 0.50 | ≤ 0.5 |",
		"| 1000 | the same, theirs by RestartJob | 1.00 s (1.00–1.00) | 100.00 s (100.00–100.00) | 0.01 | ≤ 0.02 |",
		"| Lockstep | one pod | 20 of 20 | 0 | 0 | all |",
		"| Volcano | all pods at once | 0 of 12 | 12 | 0 |  |",
		"- 1000 pods, RestartPod of Lockstep, writes for the hold: 5, and not ≤ 4",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
}
