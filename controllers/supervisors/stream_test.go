package supervisors

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"k8s.io/apimachinery/pkg/types"

	"github.com/lockstep-dev/lockstep/supervisor/wire"
	"github.com/lockstep-dev/lockstep/test/check"
)

const (
	rank0 = types.UID("llm-1-worker-0-uid")
	rank1 = types.UID("llm-1-worker-1-uid")
)

func sameOrder(t *testing.T, what string, want, got *wire.Order) {
	t.Helper()
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestReportsAndOrders(t *testing.T) {
	w := newWorld(t)
	first := w.connect(w.token("llm-1-worker-0"))
	first.reports(3, wire.State_STATE_RUNNING)
	w.awaitState(rank0, wire.State_STATE_RUNNING)
	w.hub.Order(theJob, Order{Epoch: 4, Resume: true, RestartReason: "PodFailed", HyperNode: "rack-a"})
	sameOrder(t, "order", &wire.Order{Epoch: 4, Resume: true, RestartReason: "PodFailed", HyperNode: "rack-a"}, first.ordered())

	must(t, first.Send(&wire.Report{Epoch: 3, State: wire.State_STATE_FAILED, Exit: &wire.Exit{
		Code: 137, Signal: 9, StartedMicros: t0.UnixMicro(), EndedMicros: t0.UnixMicro() + 5, Message: "out of memory",
	}}))
	w.awaitState(rank0, wire.State_STATE_FAILED)
	check.Equal(t, "reports", map[types.UID]Report{rank0: {Epoch: 3, State: wire.State_STATE_FAILED, Connected: true, Exit: &Exit{
		Code: 137, Signal: 9, Started: t0, Ended: t0.Add(5000), Message: "out of memory",
	}}}, w.hub.Reports(theJob))

	late := w.connect(w.token("llm-1-worker-1"))
	late.reports(0, wire.State_STATE_RUNNING)
	check.Equal(t, "epoch of who connects late", int64(4), late.ordered().GetEpoch())
	w.hub.Order(theJob, Order{Epoch: 4, Resume: true, RestartReason: "PodFailed", HyperNode: "rack-a"}) // as before: sent to nobody
	w.hub.Order(theJob, Order{Epoch: 4, Start: true})
	for _, p := range []*peer{first, late} {
		sameOrder(t, "start", &wire.Order{Epoch: 4, Start: true}, p.ordered())
	}
}
