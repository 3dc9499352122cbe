package supervisors

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/testing/protocmp"

	"k8s.io/apimachinery/pkg/types"

	"github.com/lockstep-dev/lockstep/supervisor/wire"
	"github.com/lockstep-dev/lockstep/test/check"
)

const (
	rank0 = types.UID("llm-1-worker-0-uid")
	rank1 = types.UID("llm-1-worker-1-uid")
)

func sameOrder(t testing.TB, what string, want, got *wire.Order) {
	t.Helper()
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestWaitsThatAreImpossible(t *testing.T) {
	for _, w := range []*wire.Waits{nil, {LeastPercent: -1}, {MostPercent: 101}, {LeastPercent: math.MaxInt32, MostPercent: math.MinInt32}} {
		r, err := reportOf(&wire.Report{State: wire.State_STATE_RUNNING, Waits: w}, t0)
		must(t, err)
		check.Equal(t, fmt.Sprint(w), true, r.Waits == nil)
	}
	r, err := reportOf(&wire.Report{State: wire.State_STATE_RUNNING, Waits: &wire.Waits{MostPercent: 100}}, t0)
	must(t, err)
	check.Equal(t, "possible", &Waits{0, 100}, r.Waits)
}

// When a program moved is not known by a clock that is ahead.
func TestWhenAProgramMoved(t *testing.T) {
	for moved, want := range map[int64]int64{
		0: 0, -1: 0, t0.UnixMicro(): t0.UnixMicro(), t0.Add(maxSkew).UnixMicro(): t0.Add(maxSkew).UnixMicro(), t0.Add(maxSkew).UnixMicro() + 1: 0, math.MaxInt64: 0,
	} {
		r, err := reportOf(&wire.Report{State: wire.State_STATE_RUNNING, Progress: &wire.Progress{MovedMicros: moved}}, t0)
		must(t, err)
		check.Equal(t, fmt.Sprint(moved), want, r.Progress.GetMovedMicros())
	}
}

// What no program can mean would be refused by the API server, with all else that the status says.
func TestProgressThatTheAPITakes(t *testing.T) {
	for name, tc := range map[string]struct {
		said  *wire.Progress
		taken bool
	}{
		"nothing":            {&wire.Progress{}, true},
		"all":                {&wire.Progress{Phase: 99, Step: new(int64(math.MaxInt64)), FirstStep: new(int64(1)), Percent: new(int32(100)), StepMicros: longestStep.Microseconds(), FirstStepMicros: 1e6}, true},
		"a step":             {&wire.Progress{Step: new(int64(-1))}, false},
		"a first step":       {&wire.Progress{FirstStep: new(int64(-1))}, false},
		"a total":            {&wire.Progress{TotalSteps: new(int64(-1))}, false},
		"a checkpoint":       {&wire.Progress{CheckpointStep: new(int64(-1))}, false},
		"less than 0":        {&wire.Progress{Percent: new(int32(-1))}, false},
		"more than all":      {&wire.Progress{Percent: new(int32(101))}, false},
		"an age":             {&wire.Progress{StepMicros: longestStep.Microseconds() + 1}, false},
		"overdue in time":    {&wire.Progress{OverdueMicros: 1}, true},
		"overdue before":     {&wire.Progress{OverdueMicros: -1}, false},
		"overdue in an age":  {&wire.Progress{OverdueMicros: longestStep.Microseconds() + 1}, false},
		"a restore of less":  {&wire.Progress{FirstStepMicros: -1}, false},
		"a restore of ages":  {&wire.Progress{FirstStepMicros: longestStep.Microseconds() + 1}, false},
		"before":             {&wire.Progress{StepMicros: -1}, false},
		"expected too soon":  {&wire.Progress{ExpectedMicros: 1}, true},
		"expected before":    {&wire.Progress{ExpectedMicros: -1}, false},
		"expected in an age": {&wire.Progress{ExpectedMicros: longestStep.Microseconds() + 1}, false},
	} {
		r, err := reportOf(&wire.Report{State: wire.State_STATE_RUNNING, Progress: tc.said}, t0)
		must(t, err)
		check.Equal(t, name, tc.taken, r.Progress != nil)
		check.Equal(t, name+": first step", tc.taken && tc.said.FirstStep != nil, r.Progress.GetFirstStep() == 1)
		check.Equal(t, name+": restore", name == "all", r.Progress.GetFirstStepMicros() == 1e6)
		if n := r.Progress.GetOverdueMicros(); n != 0 && n != soonestOverdue.Microseconds() {
			t.Errorf("%s: overdue after %d µs", name, n)
		}
		if n := r.Progress.GetExpectedMicros(); n != 0 && n != soonestExpected.Microseconds() {
			t.Errorf("%s: expected within %d µs", name, n)
		}
	}
}

// Of many steps the last are kept, and no step is below zero.
func TestCheckpointsThatAreTooMany(t *testing.T) {
	steps := make([]int64, 1000)
	for i := range steps {
		steps[i] = int64(i)
	}
	r, err := reportOf(&wire.Report{State: wire.State_STATE_WAITING, Checkpoints: &wire.Checkpoints{Own: steps, Shared: steps[:2]}, ResumeStep: -1}, t0)
	must(t, err)
	check.Equal(t, "kept", &Checkpoints{Own: steps[1000-mostSteps:], Shared: steps[:2]}, r.Checkpoints)
	check.Equal(t, "step", int64(0), r.ResumeStep)
	r, err = reportOf(&wire.Report{State: wire.State_STATE_WAITING, Checkpoints: &wire.Checkpoints{Own: []int64{7, 5, 7}}}, t0)
	must(t, err)
	check.Equal(t, "one that is said twice", []int64{5, 7}, r.Checkpoints.Own) // two ranks would seem to have it
}

func TestReportsAndOrders(t *testing.T) {
	w := newWorld(t)
	first := w.connect(w.token("llm-1-worker-0"))
	first.reports(3, wire.State_STATE_RUNNING)
	w.awaitState(rank0, wire.State_STATE_RUNNING)
	w.hub.Order(theJob, Order{Epoch: 4, Resume: true, RestartReason: "PodFailed", HyperNode: "rack-a"}, nil)
	sameOrder(t, "order", &wire.Order{
		Epoch: 4, Resume: true, RestartReason: "PodFailed", HyperNode: "rack-a", Authorities: w.certificates.Bundle(),
	}, first.ordered())

	must(t, first.Send(&wire.Report{Epoch: 3, State: wire.State_STATE_FAILED, Exit: &wire.Exit{
		Code: 137, Signal: 9, StartedMicros: t0.UnixMicro(), EndedMicros: t0.UnixMicro() + 5, Message: "out of memory",
	}}))
	w.awaitState(rank0, wire.State_STATE_FAILED)
	check.Equal(t, "reports", map[types.UID]Report{rank0: {Epoch: 3, State: wire.State_STATE_FAILED, HeardSince: w.clock.Now(), Exit: &Exit{
		Code: 137, Signal: 9, Started: t0, Ended: t0.Add(5000), Message: "out of memory",
	}}}, w.hub.Reports(theJob))

	late := w.connect(w.token("llm-1-worker-1"))
	late.reports(0, wire.State_STATE_RUNNING)
	check.Equal(t, "epoch of who connects late", int64(4), late.ordered().GetEpoch())
	w.hub.Order(theJob, Order{Epoch: 4, Resume: true, RestartReason: "PodFailed", HyperNode: "rack-a"}, nil) // as before: sent to nobody
	w.hub.Order(theJob, Order{Epoch: 4, Start: true, ResumeStep: 1200}, nil)
	for _, p := range []*peer{first, late} {
		sameOrder(t, "start", &wire.Order{Epoch: 4, Start: true, ResumeStep: 1200}, p.ordered())
	}
}

// An order that came, went and came again before a stream looked is not sent again.
func TestAnOrderIsSentOnce(t *testing.T) {
	w := newWorld(t)
	w.hub.Order(theJob, Order{Epoch: 1}, nil)
	p := w.connect(w.token("llm-1-worker-0"))
	p.ordered()
	w.hub.mu.Lock()
	s := w.hub.jobs[theJob].pods[rank0].session
	w.hub.mu.Unlock()
	for epoch := int64(2); epoch < 10; epoch++ {
		for s.wake(); len(s.changed) > 0; { // until the stream has looked
			runtime.Gosched()
		}
		w.hub.Order(theJob, Order{Epoch: epoch}, nil)
		check.Equal(t, "epoch of the next order", epoch, p.ordered().GetEpoch())
	}
}

func TestAnOrderOfEpoch0IsSent(t *testing.T) {
	w := newWorld(t)
	w.hub.Order(theJob, Order{}, nil)
	sameOrder(t, "order", &wire.Order{Authorities: w.certificates.Bundle()}, w.connect(w.token("llm-1-worker-0")).ordered())
}

func TestMessagesThatMeanNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		report *wire.Report
		code   codes.Code
		says   string
	}{
		"no state":          {&wire.Report{Epoch: 1}, codes.InvalidArgument, "state STATE_UNSPECIFIED"},
		"a state to come":   {&wire.Report{State: 99}, codes.InvalidArgument, "state 99"},
		"an epoch below 0":  {&wire.Report{Epoch: -1, State: wire.State_STATE_RUNNING}, codes.InvalidArgument, "epoch -1"},
		"more than 16 KiB":  {&wire.Report{State: wire.State_STATE_RUNNING, Token: strings.Repeat("x", maxReport)}, codes.ResourceExhausted, "larger than max"},
		"not a newer token": {&wire.Report{State: wire.State_STATE_RUNNING, Token: "x"}, codes.Unauthenticated, "malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			p := w.connect(w.token("llm-1-worker-0"))
			must(t, p.Send(tc.report))
			p.failsWith(tc.code, tc.says)
			check.Equal(t, "reports", nil, w.hub.Reports(theJob))
		})
	}
}

func TestOfAMessageTheEndIsKept(t *testing.T) {
	report, err := reportOf(&wire.Report{State: wire.State_STATE_FAILED, Exit: &wire.Exit{Message: "é" + strings.Repeat("x", maxMessage-1)}}, t0)
	must(t, err)
	check.Equal(t, "message", strings.Repeat("x", maxMessage-1), report.Exit.Message)
}

// A time that the manager's clock has not reached is not known: written to a status it would be refused, or an exit would stay the last one.
func TestTimesThatCannotBe(t *testing.T) {
	for name, tc := range map[string]struct {
		micros int64
		want   time.Time
	}{
		"none":                        {0, time.Time{}},
		"now":                         {t0.UnixMicro(), t0},
		"a clock a bit ahead":         {t0.Add(maxSkew).UnixMicro(), t0.Add(maxSkew)},
		"a clock that is off":         {t0.Add(maxSkew).UnixMicro() + 1, time.Time{}},
		"beyond the year 9999":        {math.MaxInt64, time.Time{}},
		"before there were computers": {math.MinInt64, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			exit := &wire.Exit{Code: 1, StartedMicros: tc.micros, EndedMicros: tc.micros}
			got, err := reportOf(&wire.Report{
				State: wire.State_STATE_FAILED, Exit: exit, LastExit: exit, StoppedMicros: tc.micros, BarrierMicros: tc.micros, StartedMicros: tc.micros,
			}, t0)
			must(t, err)
			ended := &Exit{Code: 1, Started: tc.want, Ended: tc.want}
			check.Equal(t, "report", Report{
				State: wire.State_STATE_FAILED, Exit: ended, LastExit: ended, Stopped: tc.want, AtBarrier: tc.want, Started: tc.want,
			}, got)
		})
	}
}

func TestAStreamEndsWithItsToken(t *testing.T) {
	w := newWorld(t)
	p := w.connect(w.token("llm-1-worker-0"))
	p.reports(0, wire.State_STATE_RUNNING)
	w.awaitState(rank0, wire.State_STATE_RUNNING)
	w.clock.Step(time.Hour - time.Second)
	p.reports(1, wire.State_STATE_RUNNING)
	w.await("the report of a token that still holds", func(r map[types.UID]Report) bool { return r[rank0].Epoch == 1 })
	w.clock.Step(time.Second)
	p.failsWith(codes.Unauthenticated, "has expired")
}

func TestANewerTokenProlongsAStream(t *testing.T) {
	w := newWorld(t)
	p := w.connect(w.token("llm-1-worker-0"))
	p.reports(0, wire.State_STATE_RUNNING)
	w.awaitState(rank0, wire.State_STATE_RUNNING)
	w.clock.Step(50 * time.Minute)
	must(t, p.Send(&wire.Report{State: wire.State_STATE_WAITING, Token: w.token("llm-1-worker-0")}))
	w.awaitState(rank0, wire.State_STATE_WAITING)
	w.clock.Step(20 * time.Minute) // past the first token
	p.reports(1, wire.State_STATE_RUNNING)
	w.await("a report by the newer token", func(r map[types.UID]Report) bool { return r[rank0].Epoch == 1 })
	for w.clock.Waiters() == 0 { // until the stream waits for the newer token's end
		runtime.Gosched()
	}
	w.clock.Step(40 * time.Minute)
	p.failsWith(codes.Unauthenticated, "has expired")
}

func TestANewerTokenIsVerified(t *testing.T) {
	t.Run("of another pod", func(t *testing.T) {
		w := newWorld(t)
		p := w.connect(w.token("llm-1-worker-0"))
		must(t, p.Send(&wire.Report{State: wire.State_STATE_RUNNING, Token: w.token("llm-1-worker-1")}))
		p.failsWith(codes.Unauthenticated, "another pod")
	})
	t.Run("of a pod that is gone", func(t *testing.T) {
		w := newWorld(t)
		p := w.connect(w.token("llm-1-worker-0"))
		p.reports(0, wire.State_STATE_RUNNING)
		w.awaitState(rank0, wire.State_STATE_RUNNING)
		must(t, w.cache.Delete(t.Context(), pod("llm-1-worker-0")))
		must(t, w.live.Delete(t.Context(), pod("llm-1-worker-0")))
		must(t, p.Send(&wire.Report{State: wire.State_STATE_RUNNING, Token: w.token("llm-1-worker-0")}))
		p.isRefused("pod research/llm-1-worker-0 (UID llm-1-worker-0-uid) is gone")
	})
}

func TestAPodConnectsAgain(t *testing.T) {
	w := newWorld(t)
	first := w.connect(w.token("llm-1-worker-0"))
	first.reports(0, wire.State_STATE_RUNNING)
	w.awaitState(rank0, wire.State_STATE_RUNNING)
	second := w.connect(w.token("llm-1-worker-0"))
	first.failsWith(codes.Aborted, "connected again")
	if !w.hub.Reports(theJob)[rank0].HeardSince.IsZero() {
		t.Error("what the first stream reported counts as said by the second")
	}
	second.reports(0, wire.State_STATE_RUNNING)
	w.awaitState(rank0, wire.State_STATE_RUNNING)
	w.hub.Order(theJob, Order{Epoch: 1}, nil)
	check.Equal(t, "epoch", int64(1), second.ordered().GetEpoch())
	second.hangUp()
	w.await("the loss of the stream", func(r map[types.UID]Report) bool {
		return r[rank0].State == wire.State_STATE_RUNNING && r[rank0].HeardSince.IsZero()
	})
	third := w.connect(w.token("llm-1-worker-0"))
	check.Equal(t, "epoch of the order, again", int64(1), third.ordered().GetEpoch())
}

func TestAPodIsRefused(t *testing.T) {
	w := newWorld(t)
	p := w.connect(w.token("llm-1-worker-0"))
	p.reports(0, wire.State_STATE_RUNNING)
	w.awaitState(rank0, wire.State_STATE_RUNNING)
	w.hub.Order(theJob, Order{Epoch: 1}, nil)
	p.ordered()
	w.hub.Refuse(theJob, rank0, "a replacement of the pod was made")
	p.isRefused("a replacement of the pod was made")
	w.hub.Refuse(theJob, rank1, "too many")
	w.connect(w.token("llm-1-worker-1")).isRefused("too many")
}

// Nothing of the last leader's streams is needed.
func TestTheNextLeader(t *testing.T) {
	w := newWorld(t)
	p := w.connect(w.token("llm-1-worker-0"))
	p.reports(7, wire.State_STATE_FAILED)
	w.awaitState(rank0, wire.State_STATE_FAILED)
	w.stop()
	p.failsWith(codes.Unavailable, "")
	w.start()
	check.Equal(t, "reports", nil, w.hub.Reports(theJob))
	again := w.connect(w.token("llm-1-worker-0"))
	again.reports(7, wire.State_STATE_FAILED)
	w.awaitState(rank0, wire.State_STATE_FAILED)
	w.hub.Order(theJob, Order{Epoch: 8}, nil)
	check.Equal(t, "epoch", int64(8), again.ordered().GetEpoch())
}

// A pod that floods waits, and nobody else does.
func TestAFlood(t *testing.T) {
	w := newWorld(t)
	flood, calm := w.connect(w.token("llm-1-worker-0")), w.connect(w.token("llm-1-worker-1"))
	go func() {
		var err error
		for epoch := int64(1); err == nil; epoch++ {
			err = flood.Send(&wire.Report{Epoch: epoch, State: wire.State_STATE_RUNNING})
		}
	}()
	last := func(epoch int64) func(map[types.UID]Report) bool {
		return func(r map[types.UID]Report) bool { return r[rank0].Epoch == epoch }
	}
	w.await("as many reports as are taken at once, less the connection", last(atOnce-1))
	for epoch := range int64(atOnce - 1) {
		calm.reports(epoch, wire.State_STATE_RUNNING)
		w.await("a report of the other pod", func(r map[types.UID]Report) bool { return r[rank1].Epoch == epoch && !r[rank1].HeardSince.IsZero() })
	}
	for w.clock.Waiters() < 3 { // two tokens, and the pod that waits
		runtime.Gosched()
	}
	check.Equal(t, "reports taken", int64(atOnce-1), w.hub.Reports(theJob)[rank0].Epoch)
	w.clock.Step(time.Second / perSecond)
	w.await("one report more", last(atOnce))
	for w.clock.Waiters() < 3 {
		runtime.Gosched()
	}
	check.Equal(t, "reports taken", int64(atOnce), w.hub.Reports(theJob)[rank0].Epoch)
}

func TestAPodThatConnectsAgainAndAgain(t *testing.T) {
	w := newWorld(t)
	token := w.token("llm-1-worker-0")
	w.hub.Order(theJob, Order{}, nil)
	for range atOnce {
		w.connect(token).ordered()
	}
	w.connect(token).failsWith(codes.ResourceExhausted, "too often")
	w.connect(w.token("llm-1-worker-1")).ordered()
	w.clock.Step(time.Second / perSecond)
	w.connect(token).ordered()
}

// A supervisor that reads nothing blocks nobody, is sent the last order when it reads again, and does not outlive its token.
func TestASlowReader(t *testing.T) {
	w := newWorld(t)
	slow, other := w.connect(w.token("llm-1-worker-0")), w.connect(w.token("llm-1-worker-1"))
	slow.reports(0, wire.State_STATE_RUNNING)
	w.awaitState(rank0, wire.State_STATE_RUNNING)
	const last = 1000
	long := strings.Repeat("r", 1<<10) // a thousand of them are more than a window
	for epoch := int64(1); epoch <= last; epoch++ {
		w.hub.Order(theJob, Order{Epoch: epoch, RestartReason: long}, nil)
		other.reports(epoch, wire.State_STATE_RUNNING)
		w.clock.Step(time.Second / perSecond)
		for got := int64(0); got != epoch; {
			got = other.ordered().GetEpoch()
		}
	}
	orders := 0
	for epoch := int64(0); epoch != last; orders++ {
		epoch = slow.ordered().GetEpoch()
	}
	if orders >= last {
		t.Errorf("%d orders were sent to who reads nothing, and none left out", orders)
	}
}

func TestWhoReadsNothingEndsWithItsToken(t *testing.T) {
	w := newWorld(t)
	slow := w.connect(w.token("llm-1-worker-0"))
	slow.reports(0, wire.State_STATE_RUNNING)
	w.awaitState(rank0, wire.State_STATE_RUNNING)
	for epoch := range int64(100) { // the first that the sender sees blocks it
		w.hub.Order(theJob, Order{Epoch: epoch, RestartReason: strings.Repeat("r", 1<<20)}, nil)
	}
	w.clock.Step(time.Hour)
	w.await("the end of the stream", func(r map[types.UID]Report) bool { return r[rank0].HeardSince.IsZero() })
}

// A manager may lose its lease before its server has begun.
func TestAServerEndsBeforeItBegins(t *testing.T) {
	w := newWorld(t)
	ended, end := context.WithCancel(t.Context())
	end()
	for range 200 {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		must(t, w.server.serve(ended, listener))
	}
}

// slowStream is a stream whose last report takes a while to arrive, and whose pod is gone meanwhile.
type slowStream struct {
	stream
	context func() context.Context
	arrives chan struct{}
}

func (s *slowStream) Context() context.Context { return s.context() }

func (s *slowStream) Recv() (*wire.Report, error) {
	<-s.arrives
	return nil, io.EOF
}

// A manager that no longer leads takes no report: a server that has stopped reads no stream.
func TestNoStreamOutlivesTheServer(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	slow := &slowStream{context: func() context.Context { return ctx }, arrives: make(chan struct{})}
	cancel() // its sender ends, and with it the stream
	if err := w.server.converse(slow, newSession(theJob, identity{pod: rank0, expiry: t0.Add(time.Hour)})); !errors.Is(err, context.Canceled) {
		t.Errorf("the stream ends with %v", err)
	}
	var arrived atomic.Bool
	time.AfterFunc(100*time.Millisecond, func() { arrived.Store(true); close(slow.arrives) })
	w.stop()
	check.Equal(t, "whether the last report had arrived before the server stopped", true, arrived.Load())
}
