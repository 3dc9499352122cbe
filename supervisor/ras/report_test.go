package ras

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-dev/lockstep/test/check"
	"github.com/lockstep-dev/lockstep/test/fakeras"
)

const (
	ask2  = "The counts of ranks that run differ for moments: ask again. Counts that grow are no hang."
	blind = "Ranks that do not differ wait in the same operation, or have none outstanding: RAS cannot tell which, and does not see a hang of all ranks in one operation."
)

// processes are n of them, eight on a host.
func processes(n int) (out []fakeras.Process) {
	for i := range n {
		out = append(out, fakeras.Process{Host: fmt.Sprint("10.0.0.", i/8), PID: 41 + i%8})
	}
	return out
}

// The report says which ranks are behind or missing, and calls none healthy where they do not differ.
func TestWhereRanksDiffer(t *testing.T) {
	all := processes(1000)
	for name, tc := range map[string]struct {
		mesh func(m *fakeras.Mesh)
		want []string
	}{
		"no communicator": {func(*fakeras.Mesh) {}, []string{"NCCL 2.28.9 at 2026-01-02 03:04:05: 0 communicators"}},
		"a rank behind": {func(m *fakeras.Mesh) {
			c := m.Communicator(all[:8]...)
			c.Launch("AllReduce")
			c.Launch("AllReduce", 0, 1, 2, 3, 5, 6, 7)
		}, []string{
			"NCCL 2.28.9 at 2026-01-02 03:04:05: 1 communicator",
			"communicator 0xae94423cfbb2ef00: 8 ranks, 8 heard",
			"  AllReduce: 2 launched by 7 ranks; 1 by rank 4 (10.0.0.0, pid 45)",
			ask2,
		}},
		"missing ranks, of a version with all commas": {func(m *fakeras.Mesh) {
			m.Version = "2.29.2"
			m.Communicator(all[:9]...)
			m.Silence(all[8], true)
			m.Silence(all[1], false)
		}, []string{
			"NCCL 2.29.2 at 2026-01-02 03:04:05: 1 communicator",
			"communicator 0xae94423cfbb2ef00: 9 ranks, 7 heard",
			"  missing, considered dead: rank 8 (10.0.0.1, pid 41)",
			"  missing, unresponsive: rank 1 (10.0.0.0, pid 42)",
		}},
		"two communicators, of which one is symmetric": {func(m *fakeras.Mesh) {
			m.Communicator(all[:4]...).Launch("Broadcast")
			c := m.Communicator(all[:2]...)
			c.Launch("AllGather", 0)
		}, []string{
			"NCCL 2.28.9 at 2026-01-02 03:04:05: 2 communicators",
			"communicator 0xae94423cfbb2ef01: 2 ranks, 2 heard",
			"  AllGather: 1 launched by rank 0 (10.0.0.0, pid 41); 0 by rank 1 (10.0.0.0, pid 42)",
			ask2,
			"1 communicator of 4 ranks: each has launched Broadcast 1",
			blind,
		}},
		"all symmetric": {func(m *fakeras.Mesh) {
			for i := range 3 {
				c := m.Communicator(all[8*i : 8*i+8]...)
				c.Launch("AllReduce")
				c.Launch("Reduce")
			}
			m.Communicator(all[0])
		}, []string{
			"NCCL 2.28.9 at 2026-01-02 03:04:05: 4 communicators",
			"3 communicators of 8 ranks: each has launched AllReduce 1, Reduce 1",
			"1 communicator of 1 rank: each has launched no operation",
			blind,
		}},
		"a subset": {func(m *fakeras.Mesh) {
			c := m.Communicator(all[:8]...)
			c.Leave(2)
			c.Leave(3)
		}, []string{
			"NCCL 2.28.9 at 2026-01-02 03:04:05: 1 communicator",
			"communicator 0xae94423cfbb2ef00: 8 ranks, 6 heard",
			"  not mentioned: 2 ranks, as where they have left the communicator",
		}},
		"a thousand ranks": {func(m *fakeras.Mesh) {
			c := m.Communicator(all...)
			for i := range 1000 {
				for range map[bool]int{true: 9, false: i % 6}[i >= 16] {
					c.Launch("AllReduce", i)
				}
				if i%2 == 0 {
					c.Launch("Broadcast", i)
				}
			}
			for i := 96; i < 104; i++ {
				m.Silence(all[i], false)
			}
		}, []string{
			"NCCL 2.28.9 at 2026-01-02 03:04:05: 1 communicator",
			"communicator 0xae94423cfbb2ef00: 1000 ranks, 992 heard",
			"  missing, unresponsive: ranks 96-103 (all of 10.0.0.12)",
			"  AllReduce: 9 launched by 976 ranks; 0 by rank 0 (10.0.0.0, pid 41), rank 6 (10.0.0.0, pid 47), rank 12 (10.0.0.1, pid 45); 1 by rank 1 (10.0.0.0, pid 42), rank 7 (10.0.0.0, pid 48), rank 13 (10.0.0.1, pid 46); up to 5 by others",
			"  Broadcast: 1 launched by 496 ranks; 0 by ranks 1, 3, 5, 7, 9, 11, 13, 15, 488 more",
			ask2,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			m := fakeras.New()
			tc.mesh(m)
			if diff := cmp.Diff(tc.want, strings.Split(strings.TrimSuffix(asJSON([]byte(m.JSON()), nil), "\n"), "\n")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A report is short, however many communicators differ and however they do.
func TestReportsAreShort(t *testing.T) {
	m := fakeras.New()
	all := processes(64)
	for i := range 40 {
		c := m.Communicator(all...)
		for range i + 1 {
			c.Launch("AllReduce")
			if i%2 == 0 {
				c.Launch("AllReduce", i)
			}
		}
	}
	out := asJSON([]byte(m.JSON()), nil)
	for _, want := range []string{"\n10 communicators more whose ranks differ\n", "\nand communicators with 10 other counts, whose ranks do not differ\n"} {
		check.Equal(t, want, 1, strings.Count(out, want))
	}
	check.Equal(t, "lines", 10*2+10+5, strings.Count(out, "\n"))
	operations := make([]string, 20_000)
	for i := range operations {
		operations[i] = fmt.Sprintf(`"%d%s": 1`, i, strings.Repeat("o", 100))
	}
	text := fmt.Sprintf(`{"communicators": [{"size": 9, "ranks": [{"collective_counts": {%s}}, {"host": %q, "collective_counts": {%s}}]}]}`,
		strings.Join(operations, ","), strings.Repeat("h", 1<<20), strings.ReplaceAll(strings.Join(operations, ","), ": 1", ": 2"))
	bounded(t, asJSON([]byte(text), nil))
	bounded(t, asText([]byte(strings.Repeat(strings.Repeat("x", 1000)+"\n", 10_000)), nil))
}

// bounded checks what holds of every report.
func bounded(t *testing.T, report string) {
	t.Helper()
	if n := strings.Count(report, "\n"); n > maxLines || n == 0 {
		t.Errorf("%d lines", n)
	}
	for line := range strings.Lines(report) {
		line = strings.TrimSuffix(line, "\n")
		if n := len([]rune(line)); n > maxLine {
			t.Errorf("a line has %d characters", n)
		}
		if i := strings.IndexFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
			t.Errorf("%q may move the cursor", line)
		}
	}
}

// Whatever an answer lacks, has too much or has of another type, what can be read of it is reported.
func TestAnswersThatAreNotAsTheyShouldBe(t *testing.T) {
	recorded, err := os.ReadFile("testdata/status-2.28.9.json")
	if err != nil {
		t.Fatal(err)
	}
	one := `{"hash": "0x1", "size": 2, "ranks": [{"rank": 0}, {"rank": 1}]}`
	same := "1 communicator of 2 ranks: each has launched no operation\n" + blind + "\n"
	for name, tc := range map[string]struct {
		answer string
		err    error
		want   string
	}{
		"2.28.9, which forgets a comma": {string(recorded), nil, "NCCL 2.28.9 at 2025-11-20 10:11:12: 1 communicator\n" +
			"communicator 0x27a079b828ff1a75: 3 ranks, 2 heard\n" +
			"  missing, unresponsive: rank 2 (10.0.0.6, pid 41)\n" +
			"  abort_flag: true on rank 0 (10.0.0.5, pid 41); false on rank 1 (10.0.0.5, pid 42)\n" +
			"  async_error: 6 (remote error) on rank 0 (10.0.0.5, pid 41); 0 (success) on rank 1 (10.0.0.5, pid 42)\n" +
			"  AllReduce: 1204 launched by rank 0 (10.0.0.5, pid 41); 1203 by rank 1 (10.0.0.5, pid 42)\n" + ask2 + "\n"},
		"half of two":    {`{"communicators": [` + one + `,` + one[:20], nil, "NCCL ? at ?: 1 communicator\nThe answer is not whole: unexpected EOF\n" + same},
		"cut":            {`{"communicators": [` + one + `]}`, errors.New("i/o timeout"), "NCCL ? at ?: 1 communicator\nThe answer is not whole: i/o timeout\n" + same},
		"unknown fields": {`{"later": {"x": [1]}, "communicators": [` + one + `], "more": null}`, nil, "NCCL ? at ?: 1 communicator\n" + same},
		"no field":       {`{}`, nil, "NCCL ? at ?: 0 communicators\n"},
		"null":           {`{"communicators": null}`, nil, "NCCL ? at ?: 0 communicators\n"},
		"no list":        {`{"communicators": {}}`, nil, "NCCL ? at ?: 0 communicators\nThe answer is not whole: its communicators are no list\n"},
		"no JSON":        {"Job summary", nil, "NCCL ? at ?: 0 communicators\nThe answer is not whole: it is no JSON object\n"},
		"other types": {`{"nccl_version": [7], "communicators": [{"hash": 7, "size": "x", "ranks": [{"rank": "y", "pid": 1e99, "status": {"init_state": 7, "x": "z"}, "collective_counts": {"A": 1.5, "B": 3}}]}]}`, nil,
			"NCCL ? at ?: 1 communicator\ncommunicator : 0 ranks, 1 heard\n  init_state: 7 (in progress) on rank 0 (, pid 0)\n"},
		"a flag that a later version may have": {`{"communicators": [{"hash": "0x1", "size": 2, "ranks": [{"rank": 0, "status": {"revoke_flag": true}}, {"rank": 1, "host": "h", "status": {"revoke_flag": false}}]}]}`, nil,
			"NCCL ? at ?: 1 communicator\ncommunicator 0x1: 2 ranks, 2 heard\n  revoke_flag: true on rank 0 (, pid 0); false on rank 1 (h, pid 0)\n"},
		"a rank that states nothing": {`{"communicators": [{"hash": "0x1", "size": 3, "ranks": [{"collective_counts": {"AllReduce": 1}}, {"collective_counts": {"AllReduce": 1}}, {}]}]}`, nil,
			"NCCL ? at ?: 1 communicator\ncommunicator 0x1: 3 ranks, 3 heard\n  AllReduce: 1 launched by 2 ranks; unknown of 1 rank\n" + ask2 + "\n"},
		"too many communicators": {`{"communicators": [` + strings.Repeat(`{},`, most) + `{}]}`, nil,
			fmt.Sprintf("NCCL ? at ?: %d communicators\nThe answer is not whole: it has more than %d communicators\n%d communicators of 0 ranks: each has launched no operation\n%s\n", most, most, most, blind)},
		"commas in strings":  {`{"nccl_version": "a\" \"b{\\" "timestamp": "[" "communicators": []}`, nil, `NCCL a" "b{\ at [: 0 communicators` + "\n"},
		"control characters": {`{"nccl_version": "\u001b[2J\n8 ranks", "communicators": []}`, nil, "NCCL ?[2J?8 ranks at ?: 0 communicators\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, asJSON([]byte(tc.answer), tc.err)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Of an answer of many short entries, each of which takes much more memory, the first ones are read.
func TestListsThatAreTooLong(t *testing.T) {
	var c communicator
	text := `{"ranks": [` + strings.Repeat(`{},`, most) + `{}], "missing_ranks": [{"status": {` + strings.Repeat(`"a": 0, `, 9) + `"b": [` + strings.Repeat("0,", 200) + `0]}}]}`
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		t.Fatal(err)
	}
	check.Equal(t, "ranks", most, len(c.Ranks))
	check.Equal(t, "figures", 2, len(c.Missing[0].Status))
	check.Equal(t, "a list for a figure", nil, c.Missing[0].Status["b"])
	var names []string
	for i := range mostFigures + 1 {
		names = append(names, fmt.Sprintf(`"%d": 0`, i))
	}
	var f figures
	if err := json.Unmarshal([]byte("{"+strings.Join(names, ",")+"}"), &f); err != nil {
		t.Fatal(err)
	}
	check.Equal(t, "the first figures", mostFigures, len(f))
}

func FuzzReport(f *testing.F) {
	for _, file := range []string{"testdata/status-2.28.9.json", "testdata/status-2.24.3.txt"} {
		answer, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(answer)
		f.Add(answer[:len(answer)/2])
	}
	f.Add([]byte(`{"communicators": [{"size": -9223372036854775808, "ranks": [null, {"collective_counts": {"\u001b": 9223372036854775807}}]}]}`))
	f.Fuzz(func(t *testing.T, answer []byte) {
		bounded(t, asJSON(answer, nil))
		look, _ := NewWatcher(nil, nil, func() map[int]bool { return nil }).read(answer)
		if len(look.behind()) > mostBehind || len(look.counts) > mostMembers {
			t.Errorf("%d ranks are behind of %d", len(look.behind()), len(look.counts))
		}
		if len(answer) > 0 {
			bounded(t, asText(answer, io.ErrUnexpectedEOF))
		}
	})
}

// A hostile answer takes some times its size, be it of names or of communicators that all differ.
func TestAHostileAnswerTakesLittle(t *testing.T) {
	const size = 2 << 20 // of the 16 MiB that are read
	var names strings.Builder
	names.WriteString(`{"communicators":[{"size":9,"ranks":[`)
	for n := 0; names.Len() < size-1000; {
		names.WriteString(`{"status":{"x":1`)
		for range mostFigures - 1 {
			fmt.Fprintf(&names, `,"%x":1`, n)
			n++
		}
		names.WriteString(`}},`)
	}
	names.WriteString(`{}]}]}`)
	of := func(value int) (text string) {
		for i := range 19 {
			text += fmt.Sprintf(`,"%c":%d`, 'a'+i, value)
		}
		return fmt.Sprintf(`{"host":"%s","status":{%s}}`, strings.Repeat("h", 64), text[1:])
	}
	one := fmt.Sprintf(`{"ranks":[%s,%s]},`, of(1), of(2))
	communicators := `{"communicators":[` + strings.Repeat(one, size/len(one)) + `{}]}`
	for _, of := range []struct {
		what, answer string
		times        uint64
	}{{"names", names.String(), 40}, {"communicators", communicators, 10}} {
		if kept := keptBy(func() { _ = asJSON([]byte(of.answer), nil) }); kept > of.times*size {
			t.Errorf("%s: an answer of %d bytes takes %d", of.what, len(of.answer), kept)
		}
	}
}

// keptBy is how much the heap grows at most while f runs, as far as is seen. Garbage is collected early, so that little of that is seen.
func keptBy(f func()) uint64 {
	defer debug.SetGCPercent(debug.SetGCPercent(20))
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	before, most, done, ended := m.HeapAlloc, m.HeapAlloc, make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			case <-time.After(10 * time.Millisecond):
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				most = max(most, m.HeapAlloc)
			}
		}
	}()
	f()
	close(done)
	<-ended
	return most - before
}
