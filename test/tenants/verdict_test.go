// What is flat, and how late the latest are. Pure.

package tenants

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/test/check"
)

// The minutes of an attack that are compared: what is kept in the second to the fourth is what an attack costs, and more in its last half
// is a leak.
const (
	earlyFrom, earlyTo = 2, 4
	lateFrom           = 6
	minutes            = 10
)

// growth compares the last half of an attack with its beginning.
type growth struct {
	What string `json:"what"`
	// Early and Late are the most in minutes 2 to 4 and in minutes 6 to 10. Late may be 1.2 times Early, and Slack more.
	Early int `json:"early"`
	Late  int `json:"late"`
	Slack int `json:"slack"`
	// PerMinute is the slope of a straight line through minutes 3 to 10, by least squares.
	PerMinute float64 `json:"perMinute"`
}

// growthOf computes the growth of a number by its value in each minute.
func growthOf(what string, slack int, byMinute []int) growth {
	return growth{
		What: what, Slack: slack, Early: slices.Max(byMinute[earlyFrom-1 : earlyTo]), Late: slices.Max(byMinute[lateFrom-1:]),
		PerMinute: math.Round(slope(byMinute[2:])*100) / 100,
	}
}

// flat returns an error for what has grown.
func (g growth) flat() error {
	if most := float64(g.Early)*1.2 + float64(g.Slack); float64(g.Late) > most {
		return fmt.Errorf("%s: %d in the last half of the attack, %d in minutes %d to %d: it may be %.0f", g.What, g.Late, g.Early, earlyFrom, earlyTo, most)
	}
	return nil
}

// slope is that of the straight line with the least squares of distances.
func slope(y []int) float64 {
	n, sumX, sumY, sumXY, sumXX := float64(len(y)), 0.0, 0.0, 0.0, 0.0
	for i, v := range y {
		x, v := float64(i), float64(v)
		sumX, sumY, sumXY, sumXX = sumX+x, sumY+v, sumXY+x*v, sumXX+x*x
	}
	return (n*sumXY - sumX*sumY) / (n*sumXX - sumX*sumX)
}

// lateness is how long something took after each failure.
type lateness struct {
	Failures     int     `json:"failures"`
	MedianMillis float64 `json:"medianMillis"`
	P99Millis    float64 `json:"p99Millis"`
	MaxMillis    float64 `json:"maxMillis"`
}

// latenessOf sums times up. The percentile is the smallest time that 99 of 100 do not exceed.
func latenessOf(late []time.Duration) lateness {
	if len(late) == 0 {
		return lateness{}
	}
	sorted := slices.Sorted(slices.Values(late))
	at := func(share float64) float64 {
		return float64(sorted[max(0, int(math.Ceil(share*float64(len(sorted))))-1)].Microseconds()) / 1000
	}
	return lateness{Failures: len(sorted), MedianMillis: at(0.5), P99Millis: at(0.99), MaxMillis: at(1)}
}

func TestGrowth(t *testing.T) {
	for name, tc := range map[string]struct {
		byMinute []int
		slack    int
		want     growth
		flat     bool
	}{
		"nothing grows":                 {[]int{1, 9, 9, 9, 9, 9, 9, 9, 9, 9}, 0, growth{Early: 9, Late: 9}, true},
		"it settles in two minutes":     {[]int{1, 50, 100, 100, 100, 100, 100, 100, 100, 100}, 0, growth{Early: 100, Late: 100}, true},
		"up to a fifth is noise":        {[]int{0, 100, 100, 100, 100, 120, 100, 100, 100, 100}, 0, growth{Early: 100, Late: 120, PerMinute: -0.24}, true},
		"more is not":                   {[]int{0, 100, 100, 100, 100, 121, 100, 100, 100, 100}, 0, growth{Early: 100, Late: 121, PerMinute: -0.25}, false},
		"unless it is within the slack": {[]int{0, 0, 0, 0, 0, 0, 0, 0, 0, 5}, 5, growth{Late: 5, Slack: 5, PerMinute: 0.42}, true},
		"a leak of 100 a minute":        {[]int{100, 200, 300, 400, 500, 600, 700, 800, 900, 1000}, 100, growth{Early: 400, Late: 1000, Slack: 100, PerMinute: 100}, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := growthOf("", tc.slack, tc.byMinute)
			check.Equal(t, "growth", tc.want, got)
			check.Equal(t, "flat", tc.flat, got.flat() == nil)
		})
	}
}

func TestLateness(t *testing.T) {
	var late []time.Duration
	for i := range 200 {
		late = append(late, time.Duration(200-i)*time.Millisecond)
	}
	check.Equal(t, "of 1 to 200 ms", lateness{Failures: 200, MedianMillis: 100, P99Millis: 198, MaxMillis: 200}, latenessOf(late))
	check.Equal(t, "of one", lateness{Failures: 1, MedianMillis: 1, P99Millis: 1, MaxMillis: 1}, latenessOf(late[199:]))
	check.Equal(t, "of none", lateness{}, latenessOf(nil))
}

func TestHistogram(t *testing.T) {
	text := func(n int) string {
		return fmt.Sprintf("h_bucket{a=\"x\",le=\"0.1\"} %d\nh_bucket{a=\"x\",le=\"1\"} %d\nh_bucket{a=\"x\",le=\"+Inf\"} %d\nh_sum{a=\"x\"} %d\nh_bucket{a=\"y\",le=\"0.1\"} 7\n", n, 100*n, 100*n, 20*n)
	}
	h := parse(text(3)).histogram("h", "a", "x").plus(parse(text(1)).histogram("h", "a", "x"), -1)
	check.Equal(t, "values", 200.0, h.atMost[math.Inf(1)])
	check.Equal(t, "up to 0.1", 2.0, h.atMost[0.1])
	check.Equal(t, "mean", 200.0, h.meanMillis())
	check.Equal(t, "99 of 100", 1000.0, h.p99Millis())
}

func TestParse(t *testing.T) {
	m := parse("# HELP a b 1\n# TYPE a counter\na{namespace=\"attackers\",queue=\"q\"} 2\nb 1.5e+06\n")
	check.Equal(t, "metrics", metrics{`a{namespace="attackers",queue="q"}`: 2, "b": 1.5e6}, m)
	check.Equal(t, "series of the attackers", 1, m.of("namespace", attackers))
}
