// What is counted of faults that are played again and again.

package real

import (
	"cmp"
	"flag"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/test/evidence"
)

var (
	hangs     = flag.Int("hangs", 1, "how often TestAStalledGang plays each kind of hang, and TestAStraggler a slow rank")
	hangsSeed = flag.Uint64("hangs.seed", 0, "what decides which ranks hang or are slow; 0 for the time")
	restores  = flag.Int("restores", 1, "how often TestRanksResumeFromTheirNearestCopy plays each fault")
	padMiB    = flag.Int("checkpoint.mib", 0, "how large the checkpoints are there, in MiB")
	record    = flag.String("record", "", "the folder into which they write what they have seen")
)

// plays are the faults of a test, drawn by a seed.
type plays struct {
	seed   uint64
	chance *rand.Rand
	counts map[string]*faultCounts
}

func newPlays(t *testing.T) *plays {
	t.Helper()
	seed := *hangsSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d", seed)
	return &plays{seed: seed, chance: rand.New(rand.NewPCG(seed, 0)), counts: map[string]*faultCounts{}}
}

// of returns what is counted of one kind.
func (p *plays) of(kind string) *faultCounts {
	if p.counts[kind] == nil {
		p.counts[kind] = &faultCounts{}
	}
	return p.counts[kind]
}

// faultCounts are of one kind: how often it was played, suspected, blamed on the right rank or rightly on none, restarted, and over. The times are from the fault, or the last
// step that was said, until it was suspected.
type faultCounts struct {
	Played         int `json:"played"`
	Suspected      int `json:"suspected,omitempty"`
	WithinAMinute  int `json:"suspectedWithinAMinute,omitempty"`
	Named          int `json:"rightRankNamed"`
	Restarted      int `json:"restarted,omitempty"`
	TrainsAgain    int `json:"trainsAgain,omitempty"`
	FastestSeconds int `json:"suspectedAfterSecondsAtLeast,omitempty"`
	SlowestSeconds int `json:"suspectedAfterSecondsAtMost,omitempty"`
}

func (c *faultCounts) suspected(after int) {
	c.Suspected++
	if after <= 60 {
		c.WithinAMinute++
	}
	c.FastestSeconds = min(cmp.Or(c.FastestSeconds, after), after)
	c.SlowestSeconds = max(c.SlowestSeconds, after)
}

// The files of -record.
const (
	hangsFile      = "hangs.json"
	stragglersFile = "stragglers.json"
	restoresFile   = "restores.json"
)

// record returns what writes the counts into a file of -record, with the commit that is tested.
func (p *plays) record(t *testing.T, file string) (write func()) {
	t.Helper()
	if *record == "" {
		return func() {}
	}
	path := filepath.Join(*record, file)
	tested, err := evidence.Of(t.Context(), "make test-full", filepath.Join(*record, hangsFile), filepath.Join(*record, stragglersFile))
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := evidence.Write(path, struct {
			evidence.Tested
			Rounds int                     `json:"rounds"`
			Seed   uint64                  `json:"seed"`
			Kinds  map[string]*faultCounts `json:"kinds"`
		}{tested, *hangs, p.seed, p.counts}); err != nil {
			t.Error(err)
		}
	}
}
