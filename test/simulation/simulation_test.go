// Random histories: the real decisions and plans against a simulated world in which everything may happen, in any
// order, with a crash between any two writes. A failing history prints its seed; -seed replays it.

package simulation

import (
	"flag"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

var (
	histories = flag.Int("histories", 5000, "random histories to run")
	from      = flag.Uint64("from", 1, "seed of the first; 0 draws one")
	seed      = flag.Uint64("seed", 0, "replay the history of this seed")
)

const (
	// mostHappens and allHappens are how many histories it takes for what can happen to happen in some: most of it,
	// and the rare things too.
	mostHappens, allHappens = 5000, 50000
	// maxFailed is after how many failures the rest is not run.
	maxFailed = 10
)

func TestHistories(t *testing.T) {
	if *seed != 0 {
		replay(t, *seed)
		return
	}
	first := *from
	if first == 0 {
		first = rand.Uint64() >> 1
	}
	defer recordPart(t, thisPart(t))
	t.Logf("histories %d to %d", first, first+uint64(*histories)-1)
	failed := 0
	worlds, sum := playAll(first, *histories)
	for i, w := range worlds {
		if w == nil {
			continue // not run any more, after too many have failed
		}
		if w.broken != "" && failed < maxFailed {
			failed++
			t.Errorf("replay with -seed=%d: %s", first+uint64(i), w.broken)
		}
	}
	writeDecisions(t, first, worlds)
	t.Logf("what happened in them:\n%s", sum)
	if failed > 0 {
		return
	}
	for _, what := range sum.missing() {
		if *histories >= allHappens || (*histories >= mostHappens && !slices.Contains(rare, what) && !slices.Contains(supervisedRare, what)) {
			t.Errorf("no history shows %s", what)
		}
	}
}

// playAll plays histories on all processors, and counts what happened in them. What each tells depends on its seed alone.
func playAll(first uint64, n int) ([]*world, census) {
	defer debug.SetGCPercent(debug.SetGCPercent(800)) // what a history leaves is small: the collector need not come often
	out, sum := make([]*world, n), census{}
	var next, failed atomic.Int64
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(n) && failed.Load() < maxFailed; i = next.Add(1) - 1 {
				w := playAsAsked(first+uint64(i), false)
				if w.broken != "" {
					failed.Add(1)
				}
				out[i] = &world{broken: w.broken, decided: w.decided}
				mu.Lock()
				sum.add(w.census)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return out, sum
}

func replay(t *testing.T, seed uint64) {
	w := playAsAsked(seed, true)
	writeDecisions(t, seed, []*world{w})
	t.Logf("kinds %q\n%s", w.kinds, strings.Join(w.log, "\n"))
	for _, job := range w.tenants {
		t.Logf("%s, spec %s", job.String(), asJSON(job.job.Spec))
	}
	if w.broken != "" {
		t.Error(w.broken)
	}
}

// A seed tells a whole history: two runs of it are the same to the letter.
func TestHistoriesAreReproducible(t *testing.T) {
	for seed := range uint64(30) {
		a, b := play(seed, true), play(seed, true)
		if x, y := strings.Join(a.log, "\n"), strings.Join(b.log, "\n"); x != y {
			t.Fatalf("seed %d tells two stories:\n%s\n\n%s", seed, x, y)
		}
	}
}
