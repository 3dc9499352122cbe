package supervisors

import (
	"errors"
	"math"
	"net"
	"os"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/supervisor/wire"
	"github.com/lockstep-dev/lockstep/test/check"
)

// Connections without a token, of however many clients of an address, keep no other pod out, and end no stream that has one.
func TestACrowdWithoutTokens(t *testing.T) {
	w := newWorld(t)
	w.stop()
	w.maxUnknown = 8
	w.start()
	crowd := func(from string) (oldest net.Conn) {
		for range 4 * w.maxUnknown {
			c, err := dial(from, w.address)
			must(t, err)
			t.Cleanup(func() { _ = c.Close() })
			if oldest == nil {
				oldest = c
			}
		}
		return oldest
	}
	w.hub.Order(theJob, Order{Epoch: 1})
	oldest := crowd("127.0.0.2")
	must(t, oldest.SetReadDeadline(time.Now().Add(handshakeTimeout/2)))
	if _, err := oldest.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the oldest connection does not give way")
	}
	p := w.connect(w.token("llm-1-worker-0"))
	check.Equal(t, "epoch", int64(1), p.ordered().GetEpoch())
	crowd("127.0.0.1") // as of pods that share the network of a node
	crowd("127.0.0.3")
	p.reports(1, wire.State_STATE_RUNNING)
	w.awaitState(rank0, wire.State_STATE_RUNNING)
}

// Supervisors leave the manager files for its own connections, and no more of them are let in than its memory is enough for.
func TestRoomForSupervisors(t *testing.T) {
	for name, tc := range map[string]struct {
		files, memory uint64
		want          []int
	}{
		"a large machine": {math.MaxUint64, math.MaxUint64, []int{200_000, 4000}},
		"the chart's":     {1 << 20, 2 << 30, []int{16_384, 4000}},
		"few files":       {5000, math.MaxUint64, []int{4000, 1000}},
		"hardly any":      {256, 1, []int{1, 1}},
	} {
		streams, unknown := room(tc.files, tc.memory, maxUnknown)
		check.Equal(t, name, tc.want, []int{streams, unknown})
	}
	if files, memory := openFiles(), memoryLimit(); files < 16 || memory < 1<<20 {
		t.Errorf("this process may have %d files open and take %d bytes", files, memory)
	}
}
