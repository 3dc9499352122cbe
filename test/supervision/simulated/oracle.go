// The oracle: what no fault may lead to.

package simulated

import (
	"fmt"
	"slices"
	"sync"
)

// Oracle judges the programs of one gang, which it is told of. It may be told by several supervisors side by side.
type Oracle struct {
	mu sync.Mutex
	// running has the epochs of the programs that run, and seen the latest epoch that each rank has heard of.
	running map[string][]int64
	seen    map[string]int64
	broken  []string
}

// NewOracle returns an oracle of a gang without programs.
func NewOracle() *Oracle { return &Oracle{running: map[string][]int64{}, seen: map[string]int64{}} }

// Saw notes that a rank has heard of an epoch.
func (o *Oracle) Saw(rank string, epoch int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seen[rank] = max(o.seen[rank], epoch)
}

// Started judges a program that starts.
func (o *Oracle) Started(rank string, epoch int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.running[rank]) > 0 {
		o.breaks("%s starts a program in epoch %d, and has one that runs in epoch %d", rank, epoch, o.running[rank][0])
	}
	if seen := o.seen[rank]; epoch < seen {
		o.breaks("%s starts a program in epoch %d, and has heard of epoch %d", rank, epoch, seen)
	}
	for other, epochs := range o.running {
		if i := slices.IndexFunc(epochs, func(e int64) bool { return e != epoch }); i >= 0 && other != rank {
			o.breaks("%s starts a program in epoch %d, while that of %s runs in epoch %d", rank, epoch, other, epochs[i])
		}
	}
	o.running[rank] = append(o.running[rank], epoch)
}

// Stopped notes that nothing is left of the program of a rank that was started in an epoch.
func (o *Oracle) Stopped(rank string, epoch int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if i := slices.Index(o.running[rank], epoch); i >= 0 {
		o.running[rank] = slices.Delete(o.running[rank], i, i+1)
	}
}

// Running returns the epochs of the programs that run, by rank.
func (o *Oracle) Running() map[string]int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := map[string]int64{}
	for rank, epochs := range o.running {
		if len(epochs) > 0 {
			out[rank] = epochs[0]
		}
	}
	return out
}

// Broken returns what was wrong, in words.
func (o *Oracle) Broken() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.broken)
}

func (o *Oracle) breaks(format string, args ...any) {
	o.broken = append(o.broken, fmt.Sprintf(format, args...))
}
