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
	m.Handle(now, Ended{exit})
	for _, event := range []Event{Ordered{&wire.Order{Epoch: 4}}, Gone{}, Cleaned{}, Ordered{&wire.Order{Epoch: 4, Start: true}}} {
		for _, action := range m.Handle(now, event) {
			report, is := action.(Report)
			if is && (!proto.Equal(report.LastExit, exit) || report.LastExitEpoch != 3 || report.Exit != nil) {
				t.Errorf("after %T: %v", event, report)
			}
		}
	}
}
