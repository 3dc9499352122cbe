// GPUs, engines and answers that are lost, and that come back.

//go:build linux && cgo && !nodcgm

package dcgm

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/health"
	"github.com/lockstep-dev/lockstep/test/dcgmsim"
)

// state of a GPU in a sample, and what its field reads.
func state(s health.Sample, gpu string) string {
	return reads(s, health.KindGPU, gpu, health.FieldGPUStatus) + " " + reads(s, health.KindGPU, gpu, 202)
}

func TestAGPUIsLost(t *testing.T) {
	r := aRig(t)
	r.engine.SetField(dcgmsim.GPU, 0, 202, 1)
	r.engine.SetField(dcgmsim.GPU, 1, 202, 2)
	r.equal("well", "1 2", state(r.sample(), "GPU-b"))

	r.engine.AddGPU(1, "GPU-b", dcgmsim.StatusLost)
	r.engine.XID(1, 79, time.Now())
	s := r.sample()
	r.equal("lost", "4 absent", state(s, "GPU-b"))
	r.equal("its links", "absent", reads(s, health.KindNVLink, "GPU-b/0", health.FieldLinkState))
	r.equal("its XIDs", 1, len(s.XIDs))
	r.equal("the other", "1 1", state(s, "GPU-a"))

	r.engine.AddGPU(1, "GPU-b", dcgmsim.StatusDetached)
	r.equal("detached", "7 absent", state(r.sample(), "GPU-b"))
	r.engine.AddGPU(1, "GPU-b", dcgmsim.StatusOK)
	r.equal("well again", "1 2", state(r.sample(), "GPU-b"))
}

func TestAGPUVanishes(t *testing.T) {
	r := aRig(t)
	r.sample()
	r.engine.Lose(1)
	r.equal("vanished", "absent absent", state(r.sample(), "GPU-b"))
	r.equal("the other", "1 blank", state(r.sample(), "GPU-a"))
	r.engine.AddGPU(2, "GPU-b", dcgmsim.StatusOK)
	r.engine.SetField(dcgmsim.GPU, 2, 202, 5)
	r.equal("back, under another number", "1 5", state(r.sample(), "GPU-b"))
}

// A GPU that is lost already when the agent connects spoils nothing of the others.
func TestAGPUIsLostFromTheStart(t *testing.T) {
	r := aRig(t)
	r.engine.SetField(dcgmsim.GPU, 0, 202, 1)
	r.engine.AddGPU(1, "GPU-b", dcgmsim.StatusLost)
	r.engine.UnwatchField(dcgmsim.GPU, 1, 202)
	r.engine.UnwatchField(dcgmsim.GPU, 1, int(fieldXID))
	r.engine.SetField(dcgmsim.GPU, 1, int(fieldUUID), "GPU-b")
	r.equal("the other", "1 1", state(r.sample(), "GPU-a"))
	r.equal("refused: its XIDs, and nothing that was tried with the other", 1, len(r.reader.Notes()))
}

// While it is read, a GPU begins to fail every reading of its group.
func TestAGPUSpoilsItsGroup(t *testing.T) {
	r := aRig(t)
	r.engine.SetField(dcgmsim.GPU, 0, 202, 1)
	r.sample()
	r.engine.UnwatchField(dcgmsim.GPU, 1, 202)
	s := r.after(10 * time.Second)
	r.equal("reachable, the moment it happens", false, s.Reachable)
	s = r.sample()
	r.equal("the other", "1 1", state(s, "GPU-a"))
	r.equal("itself", "1 blank", state(s, "GPU-b"))
}

// An engine that lost its driver serves no GPU: nothing is known then, and nothing is missing.
func TestNoGPUs(t *testing.T) {
	r := aRig(t)
	r.sample()
	r.engine.Lose(0)
	r.engine.Lose(1)
	s := r.after(10 * time.Second)
	r.equal("reachable", false, s.Reachable)
	r.equal("values", 0, len(s.Values))
	r.equal("says why", true, strings.Contains(s.Message, "manages no GPU"))
}

func TestTheEngineIsLostAndComesBack(t *testing.T) {
	r := aRig(t)
	r.engine.SetField(dcgmsim.GPU, 0, 202, 1)
	r.sample()
	seen := time.Now().Add(-time.Second)
	r.engine.XID(0, 31, seen)
	r.equal("XIDs", 1, len(r.sample().XIDs))

	r.engine.EngineDown()
	s := r.after(10 * time.Second)
	r.equal("reachable, down", false, s.Reachable)
	r.equal("values, down", 0, len(s.Values))
	r.engine.XID(0, 79, time.Now())
	r.equal("reachable, still down", false, r.after(10*time.Second).Reachable)

	r.engine.EngineUp()
	s = r.sample()
	r.equal("back", "1 1", state(s, "GPU-a"))
	r.equal("what came while it was away, and nothing twice", 1, len(s.XIDs))
	r.equal("its code", int64(79), s.XIDs[0].Code)
}

// An engine that was restarted between two samples knows nothing of the groups of before.
func TestTheEngineRestarts(t *testing.T) {
	r := aRig(t)
	r.sample()
	r.engine.EngineUp()
	r.equal("reachable, the moment it is noticed", false, r.after(10*time.Second).Reachable)
	r.equal("then", "1 blank", state(r.sample(), "GPU-a"))
}

func TestAttemptsToConnectAreSpaced(t *testing.T) {
	r := aRig(t, func(o *Options) { o.MinBackoff, o.MaxBackoff = 2*time.Second, 5*time.Second })
	r.engine.EngineDown()
	r.engine.Trace()
	attempts := func() (n int) {
		for _, call := range r.engine.Calls() {
			if call == "dcgmConnect_v2" {
				n++
			}
		}
		return n
	}
	var counts []int
	said := map[string]bool{}
	for range 20 {
		said[r.after(time.Second).Message] = true
		counts = append(counts, attempts())
	}
	// At 1 s, 2 s later, 4 s later, and every 5 s from then on.
	r.equal("different messages", 1, len(said))
	r.equal("attempts", []int{1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 3, 4, 4, 4, 4, 4, 5, 5, 5, 5}, counts)
	r.engine.EngineUp()
	r.equal("reachable, once it is due", true, r.after(5*time.Second).Reachable)
	r.engine.EngineUp() // it restarts, and the count of failures begins again
	r.equal("reachable, lost again", false, r.after(time.Second).Reachable)
	r.equal("reachable, after the shortest wait", true, r.after(2*time.Second).Reachable)
}

// A connection can seem to be made where nobody answers on it.
func TestAConnectionThatIsNone(t *testing.T) {
	r := aRig(t)
	r.engine.Fail("dcgmHostengineVersionInfo", -21)
	s := r.after(time.Second)
	r.equal("reachable", false, s.Reachable)
	r.equal("says what", true, strings.Contains(s.Message, "asking for its version"))
	r.engine.Fail("dcgmHostengineVersionInfo", 0)
	r.sample()
}

func TestFunctionsThatFail(t *testing.T) {
	for _, function := range []string{"dcgmGetEntityGroupEntities", "dcgmGetValuesSince_v2", "dcgmGetNvLinkLinkStatus"} {
		t.Run(function, func(t *testing.T) {
			r := aRig(t)
			r.engine.SetField(dcgmsim.GPU, 0, 202, 1)
			r.sample()
			r.engine.Fail(function, -11)
			s := r.after(10 * time.Second)
			r.equal("reachable", false, s.Reachable)
			r.equal("values", 0, len(s.Values))
			r.engine.Fail(function, 0)
			r.equal("mended", "1 1", state(r.after(time.Minute), "GPU-a"))
		})
	}
}

func impatient(o *Options) { o.Timeout = time.Second }

// A call that blocks blocks nobody, no second one is made meanwhile, and nothing is lost.
func TestStall(t *testing.T) {
	r := aRig(t, impatient)
	r.engine.SetField(dcgmsim.GPU, 0, 202, 1)
	r.eventually("first sample", func() bool { return r.after(time.Second).Reachable })
	r.engine.XID(0, 79, time.Now())
	r.engine.Stall("dcgmGetNvLinkLinkStatus") // which comes after the XIDs were read
	r.engine.Trace()
	s := r.after(10 * time.Second)
	r.equal("reachable", false, s.Reachable)
	r.equal("says so", true, strings.Contains(s.Message, "did not answer in time"))
	calls, goroutines := r.engine.Calls(), runtime.NumGoroutine()
	for range 5 {
		s = r.after(10 * time.Second)
		r.equal("reachable", false, s.Reachable)
		r.equal("says so", true, strings.Contains(s.Message, "has not answered since"))
	}
	r.equal("calls since", calls, r.engine.Calls())
	r.eventually("nobody else waits for the blocked call", func() bool { return runtime.NumGoroutine() <= goroutines })

	r.engine.Resume()
	r.eventually("it answers again", func() bool { s = r.after(10 * time.Second); return s.Reachable })
	r.equal("as before", "1 1", state(s, "GPU-a"))
	r.equal("the XID that nobody was there for", 1, len(s.XIDs))
	r.equal("connected only once", false, slices.Contains(r.engine.Calls(), "dcgmConnect_v2"))
}

func TestStallWhileConnecting(t *testing.T) {
	r := aRig(t, impatient)
	r.engine.Stall("dcgmConnect_v2")
	r.equal("reachable", false, r.after(time.Second).Reachable)
	r.equal("reachable", false, r.after(time.Second).Reachable)
	r.equal("closing fails too", true, r.reader.Close(context.Background()) != nil)
	r.engine.Resume()
	r.eventually("connected", func() bool { return r.after(10 * time.Second).Reachable })
}

// Whoever stops the agent does not wait for DCGM.
func TestCancelled(t *testing.T) {
	r := aRig(t, func(o *Options) { o.Timeout = time.Hour })
	r.engine.Stall("*")
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(20*time.Millisecond, cancel)
	r.equal("reachable", false, r.reader.Sample(ctx, r.now).Reachable)
}

func TestCloseAndConnectAgain(t *testing.T) {
	r := aRig(t)
	r.engine.SetField(dcgmsim.GPU, 0, 202, 1)
	for range 5 {
		r.equal("connected", "1 1", state(r.sample(), "GPU-a"))
		if err := r.reader.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
}

// The engine stamps what it reads, and is asked for what is new: after its clock was set back it would
// have nothing new until that caught up.
func TestTheClockIsSetBack(t *testing.T) {
	r := aRig(t)
	r.engine.SetField(dcgmsim.GPU, 1, 202, 2)
	r.equal("before", "1 2", state(r.sample(), "GPU-b"))
	for _, by := range []time.Duration{50 * time.Millisecond, 2 * time.Hour} {
		r.engine.SetClock(-by)
		r.engine.SetField(dcgmsim.GPU, 1, 202, 3)
		r.engine.XID(1, 79, time.Now().Add(-by).Truncate(time.Microsecond))
		s := r.sample()
		r.equal("a field", "1 3", state(s, "GPU-b"))
		r.equal("XIDs", 1, len(s.XIDs))
		r.engine.SetField(dcgmsim.GPU, 1, 202, 2)
		s = r.sample()
		r.equal("the next time", "1 2", state(s, "GPU-b"))
		r.equal("XIDs of before", 0, len(s.XIDs))
	}
}
