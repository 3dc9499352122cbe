package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestChecker(t *testing.T) {
	tests := map[string]struct {
		judge  func(*checker) string
		want   string
		misses []string
	}{
		"ratio without a goal": {func(c *checker) string { return c.ratio("start", 9, 0) }, "", nil},
		"ratio at its goal":    {func(c *checker) string { return c.ratio("start", 1, 1) }, "≤ 1", nil},
		"ratio above its goal": {
			func(c *checker) string { return c.ratio("start", 1.214, 1.05) },
			"≤ 1.05 **misses: 1.21**", []string{"start: 1.21, and not ≤ 1.05"},
		},
		"ratio that could not be taken": {
			func(c *checker) string { return c.ratio("start", 0, 1) },
			"≤ 1 **misses: no figure**", []string{"start: no figure, and not ≤ 1"},
		},
		"count at its goal": {func(c *checker) string { return c.most("writes", 4, 4) }, "≤ 4", nil},
		"count above its goal": {
			func(c *checker) string { return c.most("writes", 5, 4) },
			"≤ 4 **misses: 5**", []string{"writes: 5, and not ≤ 4"},
		},
		"time at its goal": {func(c *checker) string { return c.within("decision", time.Second, time.Second, 1) }, "≤ 1s", nil},
		"time above its goal": {
			func(c *checker) string { return c.within("decision", 1100*time.Millisecond, time.Second, 1) },
			"≤ 1s **misses: 1.1s**", []string{"decision: 1.1s, and not ≤ 1s"},
		},
		"time of nothing": {
			func(c *checker) string { return c.within("decision", 0, time.Second, 0) },
			"≤ 1s **misses: no figure**", []string{"decision: no figure, and not ≤ 1s"},
		},
		"all of them": {func(c *checker) string { return c.all("kept", 20, 20) }, "all", nil},
		"not all": {
			func(c *checker) string { return c.all("kept", 19, 20) },
			"all **misses: 19 of 20**", []string{"kept: 19 of 20, and not all"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := &checker{}
			if got := tc.judge(c); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			if diff := cmp.Diff(tc.misses, c.misses); diff != "" {
				t.Errorf("misses (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLimits(t *testing.T) {
	all := readLimits()
	for pods, want := range map[int]float64{4: 0.8, 63: 0.8, 64: 0.5, 5000: 0.5} {
		if got := limitOf(all, restartPod, restartPod, pods).Ratio; got != want {
			t.Errorf("one of %d pods: %g, want %g", pods, got, want)
		}
	}
	for pods, want := range map[int]int{4: 20, 64: 200} {
		if got := limitOf(all, restartJob, restartJob, pods).Writes.of(pods); got != want {
			t.Errorf("writes of a whole job of %d pods: %d, want %d", pods, got, want)
		}
	}
	if got := limitOf(all, start, start, 64); got != (limit{}) {
		t.Errorf("the start of 64 pods: %+v, want no limit", got)
	}
}
