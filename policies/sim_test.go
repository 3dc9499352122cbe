// Random histories: the real decisions and plans against a fake world in which
// everything may happen, in any order, with a crash between any two writes. The
// invariants of the design are checked after every move. A failing history prints
// its seed; -seed replays it.

package policies

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

var (
	histories = flag.Int("histories", 5000, "random histories to run")
	from      = flag.Uint64("from", 1, "seed of the first; 0 draws one")
	seed      = flag.Uint64("seed", 0, "replay the history of this seed")
)

// tellsMost and tellsAll are how many histories it takes for what can happen to happen in some:
// most of it, and the rare things, too.
const tellsMost, tellsAll = 5000, 50000

func TestHistories(t *testing.T) {
	if *seed != 0 {
		replay(t, *seed)
		return
	}
	first := *from
	if first == 0 {
		first = rand.Uint64() >> 1
	}
	t.Logf("histories %d to %d", first, first+uint64(*histories)-1)
	sum := census{}
	failed := 0
	for i, c := range runHistories(first, *histories) {
		if c == nil {
			continue // not run any more, after too many have failed
		}
		sum.add(c.tally)
		if c.broken != "" && failed < maxFailed {
			failed++
			t.Errorf("replay with -seed=%d: %s", first+uint64(i), c.broken)
		}
	}
	t.Logf("what happened in them:\n%s", sum)
	for _, what := range sum.missing() {
		if failed == 0 && (*histories >= tellsAll || (*histories >= tellsMost && !slices.Contains(rare, what))) {
			t.Errorf("no history tells of %s", what)
		}
	}
}

// maxFailed is after how many failures the rest is not run.
const maxFailed = 10

// runHistories runs histories on all processors. What each tells depends on its seed alone.
func runHistories(first uint64, n int) []*cluster {
	out := make([]*cluster, n)
	var next, failed atomic.Int64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(n) && failed.Load() < maxFailed; i = next.Add(1) - 1 {
				c := runHistory(first+uint64(i), false)
				if c.broken != "" {
					failed.Add(1)
				}
				out[i] = &cluster{tally: c.tally, broken: c.broken}
			}
		})
	}
	wg.Wait()
	return out
}

func replay(t *testing.T, seed uint64) {
	c := runHistory(seed, true)
	t.Log(strings.Join(c.log, "\n"))
	t.Logf("%s, spec %s", c.sum(), spec(c.job))
	if c.broken != "" {
		t.Error(c.broken)
	}
}

// spec is what the user asks for, for people.
func spec(job *v1alpha1.TrainingJob) []byte {
	out, err := json.Marshal(job.Spec)
	if err != nil {
		return []byte(err.Error())
	}
	return out
}

// A seed tells a whole history: two runs of it are the same to the letter.
func TestHistoriesAreReproducible(t *testing.T) {
	for seed := range uint64(20) {
		a, b := runHistory(seed, true), runHistory(seed, true)
		if x, y := strings.Join(a.log, "\n"), strings.Join(b.log, "\n"); x != y {
			t.Fatalf("seed %d tells two stories:\n%s\n\n%s", seed, x, y)
		}
	}
}

// broken is how a check ends a history.
type broken string

// runHistory runs one history: trouble, then calm, then the end of the job.
func runHistory(seed uint64, told bool) (c *cluster) {
	c = newCluster(rand.New(rand.NewPCG(seed, 0)), told)
	defer func() {
		if p := recover(); p != nil {
			b, ok := p.(broken)
			if !ok {
				b = broken(fmt.Sprintf("panic: %v\n%s", p, debug.Stack()))
			}
			c.broken = string(b)
		}
	}()
	if c.one(3) {
		c.start()
	}
	for range 20 + c.rng.IntN(180) {
		c.move()
		c.checkWorld()
	}
	c.calm()
	c.finish()
	return c
}

// start lets the job start before the trouble does.
func (c *cluster) start() {
	for range 20 {
		c.syncVolcano()
		c.schedule()
		c.runKubelets()
		c.manager.fresh(c)
		c.checkWorld()
	}
}

// move lets one thing happen.
func (c *cluster) move() {
	at := c.rng.IntN(allMoves)
	for _, m := range moves {
		if at -= m.weight; at < 0 {
			m.do(c)
			return
		}
	}
}

type move struct {
	weight int
	do     func(*cluster)
}

// moves are what may happen, and how often it does. What a healthy cluster does by
// itself comes often, so that trouble meets every stage of a recovery.
var moves = []move{
	{70, func(c *cluster) { c.manager.pass(c) }},
	{45, (*cluster).syncVolcano},
	{45, (*cluster).schedule},
	{70, (*cluster).runKubelets},
	{30, (*cluster).wait},
	{40, (*cluster).programsAnswer},
	{1, (*cluster).stepClock},
	{2, (*cluster).changeLeader},
	{4, (*cluster).formerLeaderActs},

	{5, (*cluster).crashRank},
	{3, (*cluster).abortAll},
	{2, (*cluster).abortAroundDeadNode},
	{3, (*cluster).disruptPod},
	{4, (*cluster).breakNode},
	{5, (*cluster).mendNode},
	{2, (*cluster).deleteNode},
	{2, (*cluster).cordonNode},
	{1, (*cluster).evictByTaint},
	{2, (*cluster).proveNodeDead},
	{4, (*cluster).signalNode},
	{2, (*cluster).signalPod},
	{4, (*cluster).degradePod},
	{4, (*cluster).clearSignals},

	{4, (*cluster).deletePod},
	{1, (*cluster).deleteVolcanoJob},
	{1, (*cluster).toggleSuspend},
	{2, (*cluster).acknowledge},
	{2, (*cluster).changePolicy},
	{1, (*cluster).changeCheckpoint},
	{3, (*cluster).changeReplicas},
	{3, (*cluster).changeSpares},
	{1, (*cluster).toggleDryRun},
	{20, (*cluster).grabNode},
	{2, (*cluster).fillRack},
	{8, (*cluster).leaveNode},
	{2, (*cluster).toggleQueue},
}

var allMoves = func() int {
	sum := 0
	for _, m := range moves {
		sum += m.weight
	}
	return sum
}()
