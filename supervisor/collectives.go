// What NCCL says of the collectives of all ranks of a gang that has stalled, which the manager hears from the first ranks of each task.

package supervisor

import (
	"context"
	"net"
	"net/netip"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/lockstep-dev/lockstep/supervisor/epoch"
	"github.com/lockstep-dev/lockstep/supervisor/ras"
	"github.com/lockstep-dev/lockstep/supervisor/wire"
)

// tellsOfStall is whether the gang makes no steps any more, by an event that tells.
func tellsOfStall(e epoch.Event) (stalled, told bool) {
	switch e := e.(type) {
	case epoch.Ordered:
		return e.GetStalled(), true
	case epoch.Disconnected: // no manager would say that it makes steps again
		return false, true
	}
	return false, false
}

// watchCollectives polls NCCL while the gang makes no steps, where this rank is one that does.
func (s *supervisor) watchCollectives(ctx context.Context, stalled bool) {
	if stalled == (s.endPolls != nil) || !ras.Chosen(s.Environ) {
		return
	}
	if !stalled {
		s.endPolls()
		s.endPolls = nil
		s.tell(nil)
		return
	}
	ctx, s.endPolls = context.WithCancel(ctx)
	go s.poll(ctx, ras.NewWatcher(s.Environ, ownAddresses(), s.keeper.PIDs))
}

func (s *supervisor) poll(ctx context.Context, watcher *ras.Watcher) {
	ticker := time.NewTicker(ras.Period)
	defer ticker.Stop()
	for {
		select {
		case s.told <- watcher.Poll():
		case <-ctx.Done():
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// tell has the manager hear of collectives, where it has not. One that is not asked any more may have answered.
func (s *supervisor) tell(c *ras.Collectives) {
	if s.endPolls == nil {
		c = nil
	}
	s.standstill = ""
	if c != nil {
		s.standstill = c.Report
	}
	if now := collectivesOf(c); !proto.Equal(now, s.collectives) {
		s.collectives = now
		s.client.Update(s.reportNow(time.Now()))
	}
}

// collectivesOf are those on the wire.
func collectivesOf(c *ras.Collectives) *wire.Collectives {
	if c == nil {
		return nil
	}
	return &wire.Collectives{Still: c.Still, Behind: asBytes(c.Behind), Hosts: int32(c.Hosts)} //nolint:gosec // of at most 131,072 members
}

// asBytes are addresses on the wire.
func asBytes(addresses []netip.Addr) (out [][]byte) {
	for _, address := range addresses {
		out = append(out, address.AsSlice())
	}
	return out
}

// mostAddresses is how many of its addresses a pod tells, as many as a manager keeps. On its host's network it may have one for each Service.
const mostAddresses = 16

// ownAddresses are those of the pod, without those of its own loopback.
func ownAddresses() (out []netip.Addr) {
	addresses, _ := net.InterfaceAddrs()
	for _, a := range addresses {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil && !prefix.Addr().IsLoopback() && !prefix.Addr().IsLinkLocalUnicast() {
			out = append(out, prefix.Addr().Unmap())
		}
	}
	return out[:min(len(out), mostAddresses)]
}
