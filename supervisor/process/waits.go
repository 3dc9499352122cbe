// Waits: for how much of their time the programs of a gang wait for each other, which tells the one that the others wait for.

package process

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// waitSamples is how many samples a share of waiting is of.
const waitSamples = 6

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

// waits is for how much of the time between the samples the first thread that waited least did: that of a process that was there all the time. It returns
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
