package stream

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/supervisor/wire"
)

func TestDelay(t *testing.T) {
	c := New(Options{})
	for failures, seconds := range []int{1, 2, 4, 8, 16, 30, 30} {
		most := time.Duration(seconds) * time.Second
		for range 1000 {
			if d := c.delay(failures); d < most/2 || d > most {
				t.Fatalf("after %d failures the delay is %s, want %s to %s", failures, d, most/2, most)
			}
		}
	}
	if d := c.delay(1_000_000); d > 30*time.Second {
		t.Errorf("after a week the delay is %s", d)
	}
}

// Who has something new to say does not wait as long as who has not reached a manager for a day.
func TestAReportShortensTheDelay(t *testing.T) {
	c := New(Options{FirstDelay: time.Millisecond, MaxDelay: 10 * time.Second})
	c.Report(&wire.Report{State: wire.State_STATE_FAILED})
	if failures := c.pause(t.Context(), 1000); failures != 1 {
		t.Errorf("after a report the delay is that of %d failures", failures)
	}
	c.Report(&wire.Report{State: wire.State_STATE_RUNNING})
	c.last() // it is sent, and no news when the stream is lost
	<-c.changed
	c.Update(&wire.Report{State: wire.State_STATE_RUNNING, Progress: &wire.Progress{Step: new(int64(7))}})
	soon, cancelSoon := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancelSoon()
	if failures := c.pause(soon, 1000); failures != 1000 {
		t.Errorf("after a step the delay is that of %d failures", failures)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if failures := c.pause(ctx, 1000); failures != 1000 {
		t.Errorf("without a report the delay is that of %d failures", failures)
	}
}

// sentReports are those that a client has sent.
type sentReports struct {
	wire.Supervision_SuperviseClient
	states []wire.State
}

func (s *sentReports) Send(r *wire.Report) error {
	s.states = append(s.states, r.GetState())
	return nil
}

// Ten thousand supervisors that are woken twice for one report send it once.
func TestAReportIsSentOnce(t *testing.T) {
	c, s := New(Options{}), &sentReports{}
	sent := c.sendLast(s, "", 0)
	c.Report(&wire.Report{State: wire.State_STATE_STOPPING})
	c.Report(&wire.Report{State: wire.State_STATE_WAITING})
	for range 2 {
		sent = c.sendLast(s, "", sent)
	}
	c.sendLast(s, "a newer token", 0)
	if want := []wire.State{wire.State_STATE_WAITING, wire.State_STATE_WAITING}; !slices.Equal(s.states, want) {
		t.Errorf("sent: %v; want %v, with the token twice", s.states, want)
	}
}
