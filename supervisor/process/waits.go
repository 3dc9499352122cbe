// Waits: for how much of their time the programs of a gang wait for each other, which tells the one that the others wait for.

package process

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"time"
)

// waitSamples is how many samples a share of waiting is of.
const waitSamples = 6

// trainers are the processes that wait for those of other ranks: the workers that torchrun has started, which it gives LOCAL_RANK, or else the program itself. What they start, as to
// load data, inherits that.
func trainers(all []process) (out []identity) {
	worker := map[int]bool{}
	for _, p := range all {
		worker[p.pid] = hasLocalRank(p.pid)
	}
	var programs []identity
	for _, p := range all {
		if p.parent == os.Getpid() {
			programs = append(programs, p.identity)
		}
		if worker[p.pid] && !worker[p.parent] {
			out = append(out, p.identity)
		}
	}
	if len(out) == 0 {
		return programs
	}
	return out
}

// hasLocalRank reports whether a process was started with LOCAL_RANK.
func hasLocalRank(pid int) bool {
	environ, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	return err == nil && bytes.Contains(append([]byte{0}, environ...), []byte("\x00LOCAL_RANK="))
}

// wanted is for how long the first thread of a process has used a processor or waited for one. Ranks that share
// processors wait for these, too, which is not for another rank. It returns false where the kernel does not say.
func wanted(pid int) (sum time.Duration, known bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/task/" + strconv.Itoa(pid) + "/schedstat")
	fields := strings.Fields(string(text)) // in nanoseconds on a processor and on its queue, and a count
	if err != nil || len(fields) < 2 {
		return 0, false
	}
	for _, field := range fields[:2] {
		n, _ := strconv.ParseInt(field, 10, 64)
		sum += time.Duration(n)
	}
	return sum, sum > 0
}

// waits is for how much of the time between the samples the first thread that waited least did: that of a trainer that was there all the time. It returns
// false where none was, or the samples are too few.
func waits(of []sample) (percent int, known bool) {
	if len(of) < waitSamples {
		return 0, false
	}
	first, last := of[0], of[len(of)-1]
	busiest := time.Duration(-1)
	for p, n := range last.wanted {
		if before, was := first.wanted[p]; was {
			busiest = max(busiest, n-before)
		}
	}
	if busiest < 0 {
		return 0, false
	}
	took := last.at.Sub(first.at)
	return int(100 * max(0, took-busiest) / took), true
}
