package main

import (
	"testing"
	"time"
)

func TestQuantile(t *testing.T) {
	s := func(seconds ...float64) []time.Duration {
		var out []time.Duration
		for _, x := range seconds {
			out = append(out, time.Duration(x*float64(time.Second)))
		}
		return out
	}
	tests := map[string]struct {
		times []time.Duration
		q     float64
		want  time.Duration
	}{
		"none":                    {nil, 0.5, 0},
		"one":                     {s(3), 0.9, 3 * time.Second},
		"the middle":              {s(5, 1, 3), 0.5, 3 * time.Second},
		"between two":             {s(4, 1, 2, 3), 0.5, 2500 * time.Millisecond},
		"the least":               {s(4, 1, 2, 3), 0, time.Second},
		"the greatest":            {s(4, 1, 2, 3), 1, 4 * time.Second},
		"the tenth of eleven":     {s(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10), 0.1, time.Second},
		"the ninetieth of eleven": {s(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10), 0.9, 9 * time.Second},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := quantile(tc.times, tc.q); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestQuantileLeavesTheTimesInOrder(t *testing.T) {
	times := []time.Duration{3, 1, 2}
	median(times)
	if times[0] != 3 || times[1] != 1 || times[2] != 2 {
		t.Errorf("the times are %v now", times)
	}
}

func TestRatio(t *testing.T) {
	if got := ratio([]time.Duration{1, 2, 3}, []time.Duration{4}); got != 0.5 {
		t.Errorf("got %g, want 0.5", got)
	}
	if got := ratio(nil, []time.Duration{4}); got != 0 {
		t.Errorf("without ours: got %g, want 0", got)
	}
	if got := ratio([]time.Duration{4}, nil); got != 0 {
		t.Errorf("without theirs: got %g, want 0", got)
	}
}
