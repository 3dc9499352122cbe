package process

import (
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lockstep-dev/lockstep/test/check"
)

func TestActivity(t *testing.T) {
	at := func(seconds int) time.Time { return time.Unix(int64(seconds), 0) }
	uses := func(used time.Duration) map[identity]time.Duration { return map[identity]time.Duration{{1, "1"}: used} }
	for name, tc := range map[string]struct {
		of   []sample
		want Activity
	}{
		"too few samples":  {[]sample{{at: at(0), used: uses(0)}, {at: at(10), used: uses(time.Second)}}, Unknown},
		"busy":             {[]sample{{at: at(0), used: uses(0)}, {at: at(10)}, {at: at(20), used: uses(400 * time.Millisecond)}}, Busy},
		"idle":             {[]sample{{at: at(0), used: uses(time.Hour)}, {at: at(10)}, {at: at(20), used: uses(time.Hour + 399*time.Millisecond)}}, Idle},
		"a new process":    {[]sample{{at: at(0)}, {at: at(10)}, {at: at(20), used: uses(time.Second)}}, Busy},
		"stopped":          {[]sample{{at: at(0), stopped: true}, {at: at(10), stopped: true}, {at: at(20), stopped: true}}, Stopped},
		"stopped for once": {[]sample{{at: at(0), stopped: true}, {at: at(10)}, {at: at(20), stopped: true}}, Idle},
		"blocked":          {[]sample{{at: at(0), blocked: true}, {at: at(10), blocked: true}, {at: at(20), blocked: true}}, Blocked},
		"busy beside one that is blocked": {
			[]sample{{at: at(0), blocked: true}, {at: at(10), blocked: true}, {at: at(20), blocked: true, used: uses(time.Second)}}, Busy,
		},
	} {
		t.Run(name, func(t *testing.T) { check.Equal(t, "activity", tc.want, activity(tc.of)) })
	}
}

// each has processes want a processor for a part of each of 30 times of 10 s. One that wants a negative part is not there.
func each(wants ...func(i int) float64) []sample {
	sum, all := make([]time.Duration, len(wants)), []sample(nil)
	for i := range waitSamples {
		now := sample{at: time.Unix(int64(10*i), 0), wanted: map[identity]time.Duration{}}
		for p, part := range wants {
			if w := part(i); w >= 0 {
				sum[p] += time.Duration(w * float64(10*time.Second))
				now.wanted[identity{p + 1, "1"}] = sum[p]
			}
		}
		all = append(all, now)
	}
	return all
}

func TestWaits(t *testing.T) {
	always := func(part float64) func(int) float64 { return func(int) float64 { return part } }
	for name, tc := range map[string]struct {
		of   []sample
		want *Waits
	}{
		"too few samples":           {each(always(0))[1:], nil},
		"one that computes":         {each(always(0.98)), &Waits{Least: 2, Most: 2}},
		"of two the one that does":  {each(always(0), always(0.4)), &Waits{Least: 60, Most: 60}},
		"all wait":                  {each(always(0), always(0)), &Waits{Least: 100, Most: 100}},
		"more than there was":       {each(always(3)), &Waits{}},
		"a pause of two minutes":    {each(func(i int) float64 { return map[bool]float64{true: 0, false: 0.9}[i > 9 && i <= 21] }), &Waits{Least: 10, Most: 55}},
		"steps of a minute":         {each(func(i int) float64 { return map[bool]float64{true: 1, false: 0}[i%6 < 4] }), &Waits{Least: 33, Most: 33}},
		"one that has just begun":   {each(always(0), func(i int) float64 { return float64(min(i, 2)) - 1 }), &Waits{Least: 100, Most: 100}},
		"none that was there first": {each(func(i int) float64 { return float64(min(i, 2)) - 1 }), nil},
		"one that has ended":        {each(func(i int) float64 { return 0.5 - float64(i/30) }), nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := waits(tc.of)
			if tc.want != nil {
				tc.want.Since = time.Unix(0, 0)
			}
			check.Equal(t, "waits", tc.want, got)
		})
	}
	n, known := wanted(os.Getpid())
	check.Equal(t, "known of a real one", true, known && n > 0)
}

// becomeSubreaper has orphans become children of the test, until its end, when no child is left.
func becomeSubreaper(t *testing.T) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
		for err := error(nil); err == nil || errors.Is(err, unix.EINTR); {
			_, err = unix.Wait4(-1, nil, 0, nil)
		}
	})
}

// What torchrun starts is looked at, or else the program itself, and not what these start.
func TestTrainers(t *testing.T) {
	becomeSubreaper(t)
	script := filepath.Join(t.TempDir(), "train.sh")
	if err := os.WriteFile(script, []byte("#!/bin/sh\nsleep 2000\ntrue\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		program string
		want    string
	}{
		"a program that loads data": {`sleep 1000 & exec sleep 2000`, "sleep 2000"},
		"a script that starts one":  {`sh -c 'sleep 1000 & exec sleep 2000'; true`, "sleep 2000"},
		"a script that starts two":  {`sleep 1000 & sleep 2000; true`, ""},
		"a script with a name":      {script + `; true`, "sleep 2000"},
		"output that is copied":     {`sh -c 'LOCAL_RANK=0 sleep 2000; true' | cat`, "sleep 2000"},
		"workers of torchrun":       {`for i in 1 2; do LOCAL_RANK=$i sh -c 'sleep 1000 & exec sleep 2000' & done; wait`, "sleep 2000, sleep 2000"},
		"a container with a rank":   {`export LOCAL_RANK=0; exec sh -c 'sleep 1000 & exec sleep 2000'`, "sleep 2000"},
		"a daemon":                  {`(LOCAL_RANK=0 sleep 1000 &); exec sleep 2000`, "sleep 2000"},
	} {
		t.Run(name, func(t *testing.T) {
			program := exec.Command("sh", "-c", tc.program)
			program.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			if err := program.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				_ = syscall.Kill(-program.Process.Pid, syscall.SIGKILL)
				_ = program.Wait()
			}()
			got := "not yet"
			for awaited := time.Now().Add(time.Minute); got != tc.want && time.Now().Before(awaited); time.Sleep(time.Millisecond) {
				s, all := NewSampler(nil), (&Keeper{}).descendants()
				s.take(time.Now(), program.Process.Pid, all)
				if found := s.trainers(program.Process.Pid, all); len(found) > 0 || len(all) > 2 {
					got = strings.Join(commands(found), ", ")
				}
			}
			check.Equal(t, "trainers", tc.want, got)
		})
	}
}

// commands are the first two words of what processes execute.
func commands(all []identity) (out []string) {
	for _, p := range all {
		text, _ := os.ReadFile("/proc/" + strconv.Itoa(p.pid) + "/cmdline")
		words := append(strings.Split(string(text), "\x00"), "", "")
		out = append(out, words[0]+" "+words[1])
	}
	return out
}

// A program that has used a processor up to the moment from which on it waits for a device is blocked by the third sample after that, as one that is stopped is: a job may say
// then that it has stalled, and says so once.
func TestAProgramThatHasComputedBefore(t *testing.T) {
	for state, want := range map[string]Activity{"D": Blocked, "T": Stopped, "S": Idle} {
		s, now, does := NewSampler(nil), time.Unix(0, 0), Unknown
		p := process{identity: identity{-1, "1"}, state: "R"}
		take := func(used time.Duration) {
			now, p.used = now.Add(samplePeriod), p.used+used
			does = s.take(now, p.pid, []process{p}).Activity
		}
		for range samples {
			take(time.Second)
		}
		check.Equal(t, "while it computes", Busy, does)
		p.state = state
		take(time.Second)
		for range samples - 1 {
			take(0)
		}
		check.Equal(t, "20 s after the first sample of state "+state, want, does)
	}
}

// A real process: one that sleeps, and then is stopped.
func TestTheActivityOfAProcess(t *testing.T) {
	k, err := NewKeeper(Options{Ended: func(Exit) {}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Start([]string{"sleep", "1000"}, os.Environ(), 1, 2); err != nil {
		t.Fatal(err)
	}
	defer k.Stop()
	s, now := NewSampler(k), time.Unix(0, 0)
	var waited *Waits
	after := func(n int) (a Activity) {
		for range n {
			now = now.Add(samplePeriod)
			shown := s.sample(now)
			a, waited = shown.Activity, shown.Waits
		}
		return a
	}
	check.Equal(t, "while it sleeps", Idle, after(samples))
	check.Equal(t, "waits by too few samples", true, waited == nil)
	after(waitSamples - samples)
	check.Equal(t, "waits by enough", true, waited != nil && waited.Least >= 99 && waited.Most >= 99)
	k.Forward(syscall.SIGSTOP)
	for awaited := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		k.mu.Lock()
		all := k.descendants()
		k.mu.Unlock()
		if len(all) == 1 && all[0].state == "T" {
			break
		}
		if time.Now().After(awaited) {
			t.Fatal("it does not stop")
		}
	}
	check.Equal(t, "before all samples show it", Idle, after(samples-1))
	check.Equal(t, "when it is stopped", Stopped, after(1))
	k.Forward(syscall.SIGCONT)
}
