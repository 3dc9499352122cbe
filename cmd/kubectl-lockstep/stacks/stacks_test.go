package stacks

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/test/check"
)

// said is what a rank says that waits in an all-reduce.
func said(pid int, state, in string) string {
	return fmt.Sprintf("pid %d python3: %s\nThread 0x%x (most recent call first):\n  File \"data.py\", line 3 in load\n\nCurrent thread 0x%x (most recent call first):\n  File \"train.py\", line 12 in %s\n",
		pid, state, 1000+pid, 2000+pid, in)
}

func rank(index int32, text string) Of {
	return Read(gang.Rank{Task: "worker", Index: index})(text, nil)
}

func silent(index int32, why string) Of {
	return Read(gang.Rank{Task: "worker", Index: index})("", errors.New(why))
}

// What a hostile container says of why it does not answer looks like no group, and is short.
func TestReasonsAreShort(t *testing.T) {
	var all []Of
	for i := range int32(100) {
		all = append(all, silent(i, fmt.Sprint(i)+strings.Repeat("x", 1<<20)+"\n8 ranks, worker 0-7:\n"))
	}
	var out strings.Builder
	Print(&out, all)
	check.Equal(t, "lines", maxGroups+1, strings.Count(out.String(), "\n"))
	check.Equal(t, "short", true, out.Len() < maxGroups*(maxError+100))
}

// Neither does one with many threads fill the screen.
func TestLongStacks(t *testing.T) {
	var out strings.Builder
	Print(&out, []Of{rank(0, strings.Repeat(said(1, "running", "f"), 10_000))})
	check.Equal(t, "lines", maxLines+3, strings.Count(out.String(), "\n"))
}

// Neither does what a hostile one says in place of NCCL RAS.
func TestReportsOfRASAreBounded(t *testing.T) {
	var out strings.Builder
	PrintRAS(&out, gang.Rank{Task: "worker", Index: 1}, strings.Repeat("8 ranks, worker 0-7:\x1b[2J"+strings.Repeat("x", 1000)+"\n", 1000))
	check.Equal(t, "lines", maxLines+2, strings.Count(out.String(), "\n"))
	for line := range strings.Lines(strings.TrimPrefix(out.String(), "NCCL RAS, asked in worker-1:\n")) {
		if !strings.HasPrefix(line, "  ") || len(line) > maxLine+len("  ...\n") || strings.Contains(line, "\x1b") {
			t.Fatalf("%q looks like a group, moves the cursor or is long", line)
		}
	}
}

// Ranks that do the same are one group, however their processes and threads are numbered and whatever they do for the moment.
func TestGroups(t *testing.T) {
	all := []Of{
		rank(3, said(9, "running", "evaluate")),
		rank(0, said(12, "sleeping; its threads wait in futex_do_wait", "all_reduce")),
		rank(1, said(13, "running", "all_reduce")),
		rank(2, said(13, "running; its threads wait in futex_do_wait, do_poll", "all_reduce")),
		rank(5, "pid 7 python3: stopped; its threads wait in do_signal_stop\n"),
		rank(7, "pid 8 trainer: running\n"),
		rank(8, "pid 8 trainer: sleeping; its threads wait in pipe_read\n"),
		silent(4, "pods \"x\" not found"),
		silent(6, "pods \"x\" not found"),
		rank(9, "pid 1 sh\x1b[2J: in an uninterruptible wait; its threads wait in nfs_wait\n"),
	}
	var out strings.Builder
	Print(&out, all)
	var heads []string
	for line := range strings.Lines(out.String()) {
		if !strings.HasPrefix(line, " ") && line != "\n" {
			heads = append(heads, strings.TrimSpace(line))
		}
	}
	check.Equal(t, "groups", []string{
		"3 ranks, worker 0-2:", "1 rank, worker 3:", "1 rank, worker 5:", "1 rank, worker 7:", "1 rank, worker 8:", "1 rank, worker 9:",
		`2 ranks, worker 4, 6: not known: pods "x" not found`,
	}, heads)
	check.Equal(t, "the first rank speaks for its group", true, strings.Contains(out.String(), "  pid 12 python3: sleeping; its threads wait in futex_do_wait\n  Thread 0x3f4"))
	check.Equal(t, "nothing moves the cursor", false, strings.Contains(out.String(), "\x1b"))
}

// A gang that trains is in many places.
func TestManyGroups(t *testing.T) {
	var all []Of
	for i := range int32(maxGroups + 5) {
		all = append(all, rank(i, said(1, "running", fmt.Sprint("f", i))))
	}
	var out strings.Builder
	Print(&out, all)
	check.Equal(t, "groups", maxGroups, strings.Count(out.String(), "1 rank,"))
	check.Equal(t, "the rest", true, strings.HasSuffix(out.String(), "5 groups more. Give a rank to see its own.\n"))
}
