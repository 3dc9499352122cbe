package process

import (
	"log/slog"
	"os"
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

// A program that has used a processor up to the moment from which on it waits for a device is blocked by the third sample after that, as one that is stopped is: a job may say
// then that it has stalled, and says so once.
func TestAProgramThatHasComputedBefore(t *testing.T) {
	for state, want := range map[string]Activity{"D": Blocked, "T": Stopped, "S": Idle} {
		s, now, does := NewSampler(nil), time.Unix(0, 0), Unknown
		p := process{identity: identity{-1, "1"}, state: "R"}
		take := func(used time.Duration) {
			now, p.used = now.Add(samplePeriod), p.used+used
			does = s.take(now, []process{p})
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
	after := func(n int) (a Activity) {
		for range n {
			now = now.Add(samplePeriod)
			a = s.sample(now)
		}
		return a
	}
	check.Equal(t, "while it sleeps", Idle, after(samples))
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
