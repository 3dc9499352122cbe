package process

import (
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

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

func TestWaits(t *testing.T) {
	one, other, late := identity{1, "1"}, identity{2, "1"}, identity{3, "9"}
	at := func(n int, wanted map[identity]time.Duration) sample {
		return sample{at: time.Unix(int64(10*n), 0), wanted: wanted}
	}
	between := func(first, last map[identity]time.Duration) []sample {
		return []sample{at(0, first), at(1, nil), at(2, nil), at(3, nil), at(4, nil), at(5, last)}
	}
	for name, tc := range map[string]struct {
		of   []sample
		want int
	}{
		"too few samples":            {between(map[identity]time.Duration{one: 0}, map[identity]time.Duration{one: 0})[1:], -1},
		"one that computes":          {between(map[identity]time.Duration{one: time.Hour}, map[identity]time.Duration{one: time.Hour + 49*time.Second}), 2},
		"of two the one that does":   {between(map[identity]time.Duration{one: 0, other: 0}, map[identity]time.Duration{one: 0, other: 20 * time.Second}), 60},
		"all wait":                   {between(map[identity]time.Duration{one: 7}, map[identity]time.Duration{one: 7}), 100},
		"one that has just begun":    {between(map[identity]time.Duration{one: 0}, map[identity]time.Duration{one: 0, late: 50 * time.Second}), 100},
		"none that was there before": {between(nil, map[identity]time.Duration{late: 50 * time.Second}), -1},
		"more than there was":        {between(map[identity]time.Duration{one: 0}, map[identity]time.Duration{one: time.Hour}), 0},
	} {
		t.Run(name, func(t *testing.T) {
			percent, known := waits(tc.of)
			if !known {
				percent = -1
			}
			check.Equal(t, "percent", tc.want, percent)
		})
	}
	n, known := wanted(os.Getpid())
	check.Equal(t, "known of a real one", true, known && n > 0)
}

// What torchrun starts is looked at, or else the program itself, and not what these start.
func TestTrainers(t *testing.T) {
	for name, tc := range map[string]struct {
		program string
		want    string
	}{
		"a program that loads data": {`sleep 1000 & exec sleep 2000`, "sleep 2000"},
		"a script":                  {`sleep 1000 & wait`, "sh -c"},
		"workers of torchrun":       {`for i in 1 2; do LOCAL_RANK=$i sh -c 'sleep 1000 & exec sleep 2000' & done; wait`, "sleep 2000, sleep 2000"},
		"a container with a rank":   {`export LOCAL_RANK=0; exec sh -c 'sleep 1000 & exec sleep 2000'`, "sleep 2000"},
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
			var got []string
			for awaited := time.Now().Add(time.Minute); strings.Join(got, ", ") != tc.want && time.Now().Before(awaited); time.Sleep(time.Millisecond) {
				got = nil
				for _, p := range trainers((&Keeper{}).descendants()) {
					text, _ := os.ReadFile("/proc/" + strconv.Itoa(p.pid) + "/cmdline")
					words := append(strings.Split(string(text), "\x00"), "", "")
					got = append(got, words[0]+" "+words[1])
				}
			}
			check.Equal(t, "trainers", tc.want, strings.Join(got, ", "))
		})
	}
}

// A program that has used a processor up to the moment from which on it waits for a device is blocked by the third sample after that, as one that is stopped is: a job may say
// then that it has stalled, and says so once.
func TestAProgramThatHasComputedBefore(t *testing.T) {
	for state, want := range map[string]Activity{"D": Blocked, "T": Stopped, "S": Idle} {
		s, now, does := NewSampler(nil), time.Unix(0, 0), Unknown
		p := process{identity: identity{-1, "1"}, state: "R"}
		take := func(used time.Duration) {
			now, p.used = now.Add(samplePeriod), p.used+used
			does = s.take(now, []process{p}).Activity
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
	waited := 0
	after := func(n int) (a Activity) {
		for range n {
			now = now.Add(samplePeriod)
			shown := s.sample(now)
			a, waited = shown.Activity, shown.Waits
		}
		return a
	}
	check.Equal(t, "while it sleeps", Idle, after(samples))
	check.Equal(t, "waits by too few samples", -1, waited)
	after(waitSamples - samples)
	check.Equal(t, "waits by enough", true, waited >= 99)
	k.Forward(syscall.SIGSTOP)
	for awaited := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if all := k.descendants(); len(all) == 1 && all[0].state == "T" {
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
