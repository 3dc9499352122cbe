package epoch

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/lockstep-dev/lockstep/supervisor/wire"
)

// An exit that the manager hears of only after another one had raised the epoch is still reported.
func TestTheLastExitIsReportedInLaterEpochs(t *testing.T) {
	m := New(Options{Epoch: 3})
	exit := &wire.Exit{Code: 137, Signal: 9}
	now := time.Time{}
	m.Handle(now, Began{})
	m.Handle(now, Ended{Exit: exit})
	for _, event := range []Event{Ordered{&wire.Order{Epoch: 4}}, Gone{}, Cleaned{}, Ordered{&wire.Order{Epoch: 4, Start: true}}} {
		for _, action := range m.Handle(now, event) {
			report, is := action.(Report)
			if is && (!proto.Equal(report.LastExit, exit) || report.LastExitEpoch != 3 || report.Exit != nil) {
				t.Errorf("after %T: %v", event, report)
			}
		}
	}
}

// An exit that waits to be handled while an order stops the program is no answer to that: it may be why the others have failed.
func TestAnExitBeforeTheStopIsTheLastOne(t *testing.T) {
	exit := &wire.Exit{Code: 139, Signal: 11}
	for name, tc := range map[string]struct {
		ended Ended
		want  *wire.Exit
	}{
		"by itself":                {Ended{exit, true}, exit},
		"as it was stopped":        {Ended{exit, false}, nil},
		"by itself, with no error": {Ended{&wire.Exit{}, true}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			m, now := New(Options{Epoch: 1}), time.Time{}
			m.Handle(now, Began{})
			for _, event := range []Event{Ordered{&wire.Order{Epoch: 2}}, Ordered{&wire.Order{Epoch: 3}}, tc.ended, Gone{}, Cleaned{}} {
				for _, action := range m.Handle(now, event) {
					report, is := action.(Report)
					if _, ordered := event.(Ordered); is && !ordered && (!proto.Equal(report.LastExit, tc.want) || tc.want != nil && report.LastExitEpoch != 1) {
						t.Errorf("after %T: %v", event, report)
					}
				}
			}
		})
	}
}
