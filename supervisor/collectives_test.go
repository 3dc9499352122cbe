package supervisor

import (
	"testing"

	"github.com/lockstep-dev/lockstep/supervisor/epoch"
	"github.com/lockstep-dev/lockstep/supervisor/wire"
	"github.com/lockstep-dev/lockstep/test/check"
)

// NCCL is not asked where no manager could say that the gang trains again: some versions crash by that.
func TestNCCLIsAskedWhileAManagerSaysThatTheGangStalls(t *testing.T) {
	for name, tc := range map[string]struct {
		event         epoch.Event
		stalled, told bool
	}{
		"an order of a gang that stalls": {epoch.Ordered{Order: &wire.Order{Stalled: true}}, true, true},
		"an order of one that trains":    {epoch.Ordered{Order: &wire.Order{}}, false, true},
		"no manager":                     {epoch.Disconnected{}, false, true},
		"a stream":                       {epoch.Connected{}, false, false},
	} {
		stalled, told := tellsOfStall(tc.event)
		check.Equal(t, name, []bool{tc.stalled, tc.told}, []bool{stalled, told})
	}
}
