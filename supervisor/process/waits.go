// Waits: for how much of their time the programs of a gang wait for each other, which tells the one that the others wait for.

package process

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Waits are of five rounds of a minute: waitSamples begin and end them.
const (
	rounds      = 5
	round       = 6 // samples
	waitSamples = rounds*round + 1
)

// Waits is for how much of four of the last five minutes a program has waited: its first thread, or that of the worker of torchrun's which waited least. A pause of a minute or two
// is not in all of them.
type Waits struct {
	// Since is when the five minutes began.
	Since time.Time
	// Least and Most are the percentages that it waited at least, and at most, in four of them.
	Least, Most int
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

// waits are those of the trainer that was there all the time and waited least; nil where none was, or the samples are too few.
func waits(of []sample) *Waits {
	if len(of) < waitSamples {
		return nil
	}
	var least *Waits
	for p := range of[0].wanted {
		if w, known := waitsOf(p, of); known && (least == nil || w.Most < least.Most) {
			least = &w
		}
	}
	return least
}

// waitsOf are those of one process. It returns false where that was not there all the time.
func waitsOf(p identity, of []sample) (w Waits, known bool) {
	var each []int
	for i := 0; i+round < len(of); i += round {
		first, last := of[i], of[i+round]
		before, was := first.wanted[p]
		now, is := last.wanted[p]
		if !was || !is {
			return w, false
		}
		each = append(each, share(now-before, last.at.Sub(first.at)))
	}
	slices.Sort(each)
	return Waits{Since: of[0].at, Least: each[1], Most: each[rounds-2]}, true
}

// share is the percentage of some time in which a process did not want a processor.
func share(wanted, of time.Duration) int { return int(100 * max(0, of-wanted) / max(1, of)) }

// starters are programs that may start the one that matters, and wait for it.
var starters = []string{"sh", "bash", "dash", "ash", "zsh", "busybox", "tini", "dumb-init", "docker-init", "uv"}

// starts reports whether a process is one of the starters: a script has a name of its own.
func starts(p process) bool {
	executes, _ := os.Readlink("/proc/" + strconv.Itoa(p.pid) + "/exe")
	return slices.Contains(starters, p.name) || slices.Contains(starters, filepath.Base(executes))
}

// trainers are the processes that wait for those of other ranks: the workers which torchrun starts, with LOCAL_RANK, or else the program itself; none where one of these is a
// starter with other processes than one. What trainers start, as to load data, is left out, and so is what became an orphan.
func (s *Sampler) trainers(program int, all []process) (found []identity) {
	children := map[int][]process{}
	for _, p := range all {
		children[p.parent] = append(children[p.parent], p)
	}
	i := slices.IndexFunc(all, func(p process) bool { return p.pid == program })
	if i < 0 {
		return nil
	}
	workers := s.workersFrom(all[i], children)
	if len(workers) == 0 {
		workers = all[i : i+1]
	}
	for _, p := range workers {
		for starts(p) {
			if len(children[p.pid]) != 1 {
				return nil
			}
			p = children[p.pid][0]
		}
		found = append(found, p.identity)
	}
	return found
}

// workersFrom are the outermost workers of a program and what it has started.
func (s *Sampler) workersFrom(program process, children map[int][]process) (workers []process) {
	for queue := []process{program}; len(queue) > 0; queue = queue[1:] {
		if s.isWorker(queue[0].identity) {
			workers = append(workers, queue[0])
		} else {
			queue = append(queue, children[queue[0].pid]...)
		}
	}
	return workers
}

// isWorker reports whether a process was started with LOCAL_RANK. That is looked for once, and not before the sample after the first, when it executes what it is to: to read this may wait for
// a lock of the process, which one that hangs may hold, and programs overwrite it with their titles.
func (s *Sampler) isWorker(p identity) bool {
	is, known := s.workers[p]
	if n := len(s.last); !known && n > 0 {
		if _, before := s.last[n-1].used[p]; before {
			is = hasLocalRank(p.pid)
			s.workers[p] = is
		}
	}
	return is
}

// environLimit is how much is read of the variables of a process.
const environLimit = 256 << 10

func hasLocalRank(pid int) bool {
	file, err := os.Open("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false
	}
	defer file.Close()
	environ, _ := io.ReadAll(io.LimitReader(file, environLimit))
	const name = "LOCAL_RANK="
	return bytes.HasPrefix(environ, []byte(name)) || bytes.Contains(environ, []byte("\x00"+name))
}
