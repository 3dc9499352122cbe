// Random histories: the real decisions and plans against a fake world in which
// everything may happen, in any order, with a crash between any two writes. The
// invariants of the design are checked after every move. A failing history prints
// its seed; -seed replays it.

package policies

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

var (
	histories = flag.Int("histories", 2000, "random histories to run")
	from      = flag.Uint64("from", 1, "seed of the first; 0 draws one")
	seed      = flag.Uint64("seed", 0, "replay the history of this seed")
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
	t.Logf("histories %d to %d", first, first+uint64(*histories)-1)
	failed := 0
	for i := range uint64(*histories) {
		if c := runHistory(first + i); c.broken != "" {
			t.Errorf("replay with -seed=%d: %s", first+i, c.broken)
			if failed++; failed == 10 {
				t.Fatal("too many")
			}
		}
	}
}

func replay(t *testing.T, seed uint64) {
	c := runHistory(seed)
	t.Log(strings.Join(c.log, "\n"))
	if c.broken != "" {
		t.Error(c.broken)
	}
}

// A seed tells a whole history: two runs of it are the same to the letter.
func TestHistoriesAreReproducible(t *testing.T) {
	for seed := range uint64(20) {
		a, b := runHistory(seed), runHistory(seed)
		if x, y := strings.Join(a.log, "\n"), strings.Join(b.log, "\n"); x != y {
			t.Fatalf("seed %d tells two stories:\n%s\n\n%s", seed, x, y)
		}
	}
}

// broken is how a check ends a history.
type broken string

// runHistory runs one history: trouble, then calm, then the end of the job.
func runHistory(seed uint64) (c *cluster) {
	c = newCluster(rand.New(rand.NewPCG(seed, 0)))
	defer func() {
		if p := recover(); p != nil {
			b, ok := p.(broken)
			if !ok {
				b = broken(fmt.Sprintf("panic: %v\n%s", p, debug.Stack()))
			}
			c.broken = string(b)
		}
	}()
	for range 20 + c.rng.IntN(180) {
		c.move()
		c.checkWorld()
	}
	c.calm()
	c.finish()
	return c
}

// move lets one thing happen.
func (c *cluster) move() {
	total := 0
	for _, m := range moves {
		total += m.weight
	}
	at := c.rng.IntN(total)
	for _, m := range moves {
		if at -= m.weight; at < 0 {
			m.do(c)
			return
		}
	}
}

// moves are what may happen, and how often it does. What a healthy cluster does by
// itself comes often, so that trouble meets every stage of a recovery.
var moves = []struct {
	weight int
	do     func(*cluster)
}{
	{60, func(c *cluster) { c.manager.pass(c) }},
	{40, (*cluster).syncVolcano},
	{40, (*cluster).schedule},
	{60, (*cluster).runKubelets},
	{25, (*cluster).wait},
	{5, (*cluster).crashRank},
	{3, (*cluster).abortAll},
	{3, (*cluster).disruptPod},
	{4, (*cluster).breakNode},
	{5, (*cluster).mendNode},
	{2, (*cluster).deleteNode},
	{2, (*cluster).cordonNode},
	{1, (*cluster).evictByTaint},
	{2, (*cluster).proveNodeDead},
	{4, (*cluster).deletePod},
	{1, (*cluster).deleteVolcanoJob},
	{1, (*cluster).toggleSuspend},
	{20, (*cluster).grabNode},
	{6, (*cluster).leaveNode},
	{2, (*cluster).toggleQueue},
}

// wait lets time pass: mostly seconds, sometimes minutes.
func (c *cluster) wait() {
	d := time.Duration(c.rng.IntN(8000)) * time.Millisecond
	switch c.rng.IntN(10) {
	case 0:
		d *= 10
	case 1:
		d *= 60
	}
	c.now = c.now.Add(d)
	c.say("%s pass", d)
}

// calm ends all trouble and gives the job its time to recover.
func (c *cluster) calm() {
	c.say("calm")
	c.mendAll()
	if c.job.Spec.Suspend {
		c.toggleSuspend()
	}
	for range 600 {
		c.settle()
		if c.well() || Finished(&c.job.Status) {
			c.say("%s", c.job.Status.State)
			return
		}
		c.now = c.nextLook()
		c.remakeSurplus()
	}
	panic(broken("the job did not recover: " + c.sum()))
}

// nextLook is when the manager wants to look again, at most a minute from now.
func (c *cluster) nextLook() time.Time {
	at := c.now.Add(time.Minute)
	if next := Decide(c.observe()).Next; !next.IsZero() && next.Before(at) && next.After(c.now) {
		return next
	}
	return at
}

// settle lets the world and the manager take turns until nothing moves any more.
func (c *cluster) settle() {
	for range 40 {
		before := c.writes
		c.syncVolcano()
		c.schedule()
		c.runKubelets()
		c.manager.fresh(c)
		c.checkWorld()
		if c.writes == before {
			c.checkFixpoint()
			return
		}
	}
	panic(broken("nothing settles: " + c.sum()))
}

// well is true for a job that runs as if nothing had happened.
func (c *cluster) well() bool {
	s := &c.job.Status
	return s.State == v1alpha1.StateRunning && s.Ready == fmt.Sprintf("%d/%d", Replicas(c.job), Replicas(c.job))
}

// remakeSurplus is a user who deletes the pods beyond the gang that found no room where
// they were let go to: a job that runs has no incident that would give them another place.
func (c *cluster) remakeSurplus() {
	if c.job.Status.State != v1alpha1.StateRunning {
		return
	}
	for _, p := range slices.Clone(c.pods) {
		if p.Node == "" && !p.Gated && rankNode(c.job.Status.Placement, p.rank()) == "" {
			c.remove(p)
		}
	}
}

// finish lets a healthy job come to its end, and looks at what it leaves behind.
func (c *cluster) finish() {
	if !Finished(&c.job.Status) {
		c.done = true
		c.settle()
		c.now = c.now.Add(time.Minute)
		c.settle()
	}
	s := &c.job.Status
	c.require(Finished(s), "the program has ended and the job has not: %s", c.sum())
	for _, p := range c.pods {
		c.require(p.finished(), "8: pod %s of a finished job still runs", p.Name)
	}
	for _, name := range c.names {
		c.require(c.nodes[name].Hold == "", "11: node %s is still held for a finished job", name)
	}
	c.job.Spec.TTLSecondsAfterFinished = ptr.To[int32](7200)
	c.now = s.CompletionTime.Add(7199 * time.Second)
	c.require(!Decide(c.observe()).Delete, "the job is deleted before its time")
	c.now = c.now.Add(time.Second)
	c.require(Decide(c.observe()).Delete, "the job is not deleted after its time")
}
