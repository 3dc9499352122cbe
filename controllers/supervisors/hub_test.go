package supervisors

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/supervisor/wire"
	"github.com/lockstep-dev/lockstep/test/check"
)

// aMoment is when a report comes.
var aMoment = time.Unix(1, 0)

// reporting is a session of a pod of a job, without a stream.
func reporting(h *Hub, job Job, pod types.UID) *session {
	s := newSession(job, identity{pod: pod})
	h.connect(s, aMoment)
	return s
}

func jobNamed(name string) Job {
	return Job{types.NamespacedName{Namespace: namespace, Name: name}, types.UID(name + "-uid")}
}

// However much is reported of a job, the reconciler is told of it once until it looks.
func TestWakesAreCoalesced(t *testing.T) {
	h := NewHub()
	for pod := range 1000 {
		h.note(reporting(h, jobNamed("a"), types.UID(fmt.Sprint(pod))), Report{State: wire.State_STATE_RUNNING}, aMoment)
	}
	h.note(reporting(h, jobNamed("b"), "0"), Report{State: wire.State_STATE_RUNNING}, aMoment)
	check.Equal(t, "jobs to tell of", []string{"a", "b"}, waiting(h))
}

// waiting are the jobs that a hub, which does not run, has to tell of.
func waiting(h *Hub) []string {
	var names []string
	for h.reported.Len() > 0 {
		name, _ := h.reported.Get()
		h.reported.Done(name)
		names = append(names, name.Name)
	}
	return names
}

func TestWhatWakes(t *testing.T) {
	running := Report{Epoch: 1, State: wire.State_STATE_RUNNING}
	failed := Report{Epoch: 1, State: wire.State_STATE_FAILED, Exit: &Exit{Code: 1}}
	for name, tc := range map[string]struct {
		then func(*Hub, *session)
		want []string
	}{
		"the same report":     {func(h *Hub, s *session) { h.note(s, running, aMoment) }, nil},
		"another epoch":       {func(h *Hub, s *session) { h.note(s, Report{Epoch: 2, State: running.State}, aMoment) }, []string{"a"}},
		"another state":       {func(h *Hub, s *session) { h.note(s, failed, aMoment) }, []string{"a"}},
		"the end of a stream": {func(h *Hub, s *session) { h.disconnect(s, aMoment) }, []string{"a"}},
		"the same report of a new stream": {func(h *Hub, _ *session) {
			h.note(reporting(h, jobNamed("a"), "0"), running, aMoment)
		}, []string{"a"}},
		"a new stream":              {func(h *Hub, _ *session) { reporting(h, jobNamed("a"), "0") }, nil},
		"the end of an earlier one": {func(h *Hub, s *session) { reporting(h, jobNamed("a"), "0"); h.disconnect(s, aMoment) }, nil},
		"a report by an earlier one": {func(h *Hub, s *session) {
			reporting(h, jobNamed("a"), "0")
			h.note(s, failed, aMoment)
		}, nil},
		"a step": {func(h *Hub, s *session) {
			of := running
			of.Progress = &wire.Progress{Step: new(int64(7))}
			h.note(s, of, aMoment)
			waiting(h) // the first word wakes
			of.Progress = &wire.Progress{Step: new(int64(8))}
			h.note(s, of, aMoment)
			check.Equal(t, "step", 8, h.Reports(jobNamed("a"))["0"].Progress.GetStep())
		}, nil},
		"a phase": {func(h *Hub, s *session) {
			of := running
			of.Progress = &wire.Progress{Phase: wire.Phase_PHASE_TRAIN}
			h.note(s, of, aMoment)
		}, []string{"a"}},
		"when a step is overdue": {func(h *Hub, s *session) {
			of := running
			of.Progress = &wire.Progress{OverdueMicros: 1}
			h.note(s, of, aMoment)
			waiting(h)
			of.Progress = &wire.Progress{OverdueMicros: 2}
			h.note(s, of, aMoment)
		}, []string{"a"}},
		"within how long one is expected": {func(h *Hub, s *session) {
			of := running
			of.Progress = &wire.Progress{ExpectedMicros: 1}
			h.note(s, of, aMoment)
			waiting(h)
			of.Progress = &wire.Progress{ExpectedMicros: 2}
			h.note(s, of, aMoment)
		}, []string{"a"}},
		"a step after a long silence": {func(h *Hub, s *session) {
			of := running
			of.Progress = &wire.Progress{Step: new(int64(7))}
			h.note(s, of, aMoment)
			waiting(h)
			of.Progress = &wire.Progress{Step: new(int64(8))}
			h.note(s, of, aMoment.Add(longSilence))
		}, []string{"a"}},
		"collectives that stand still": {func(h *Hub, s *session) {
			of := running
			of.Hosts, of.StillTime = 2, aMoment
			h.note(s, of, aMoment)
			waiting(h)
			h.note(s, of, aMoment.Add(time.Minute))
			check.Equal(t, "jobs to tell of while they do", nil, waiting(h))
			of.Behind = []netip.Addr{netip.MustParseAddr("10.0.0.1")}
			h.note(s, of, aMoment.Add(time.Minute))
			check.Equal(t, "jobs to tell of with another rank behind", []string{"a"}, waiting(h))
			h.note(s, running, aMoment)
		}, []string{"a"}},
		"an order":   {func(h *Hub, _ *session) { h.Order(jobNamed("a"), Order{Epoch: 2}, nil) }, nil},
		"forgetting": {func(h *Hub, s *session) { h.Forget(jobNamed("a").NamespacedName); h.note(s, failed, aMoment) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			h := NewHub()
			s := reporting(h, jobNamed("a"), "0")
			h.note(s, running, aMoment)
			check.Equal(t, "jobs to tell of at first", []string{"a"}, waiting(h))
			tc.then(h, s)
			check.Equal(t, "jobs to tell of", tc.want, waiting(h))
		})
	}
}

// Of all that a gang reports, only what a decision waits for is urgent.
func TestWhatIsUrgent(t *testing.T) {
	h, job := NewHub(), jobNamed("a")
	first, last, over, spare := reporting(h, job, "first"), reporting(h, job, "last"), reporting(h, job, "over"), reporting(h, job, "spare")
	for _, s := range []*session{first, last, over, spare} {
		h.note(s, Report{Epoch: 1, State: wire.State_STATE_RUNNING}, aMoment)
	}
	waiting(h)
	isUrgent := func(s *session, epoch int64, state wire.State) bool {
		h.note(s, Report{Epoch: epoch, State: state}, aMoment)
		check.Equal(t, "jobs to tell of", []string{"a"}, waiting(h))
		return h.wake(job.NamespacedName).Urgent
	}
	roles := map[types.UID]Role{"over": {Superseded: true}, "spare": {Spare: true}}
	h.Order(job, Order{Epoch: 2}, roles)
	check.Equal(t, "a failure", true, isUrgent(first, 1, wire.State_STATE_FAILED))
	check.Equal(t, "the same event again", false, h.wake(job.NamespacedName).Urgent)
	check.Equal(t, "the second failure", false, isUrgent(last, 1, wire.State_STATE_FAILED))
	check.Equal(t, "one that waits", false, isUrgent(first, 2, wire.State_STATE_WAITING))
	check.Equal(t, "a spare", false, isUrgent(spare, 2, wire.State_STATE_WAITING))
	check.Equal(t, "the last rank, which stops", false, isUrgent(last, 2, wire.State_STATE_STOPPING))
	check.Equal(t, "the last rank, beside a pod of before", false, isUrgent(last, 2, wire.State_STATE_WAITING))
	check.Equal(t, "a pod of before, which has stopped", true, isUrgent(over, 2, wire.State_STATE_WAITING))
	check.Equal(t, "a failure of a run that is none", false, isUrgent(over, 1<<60, wire.State_STATE_FAILED))
	check.Equal(t, "a pod that is new", true, isUrgent(reporting(h, job, "new"), 2, wire.State_STATE_WAITING))
	h.Order(job, Order{Epoch: 2, Start: true}, roles)
	check.Equal(t, "one that runs", false, isUrgent(first, 2, wire.State_STATE_RUNNING))
	check.Equal(t, "another", false, isUrgent(last, 2, wire.State_STATE_RUNNING))
	check.Equal(t, "one that connects again", false, isUrgent(reporting(h, job, "last"), 2, wire.State_STATE_RUNNING))
	check.Equal(t, "the last", true, isUrgent(h.jobs[job].pods["new"].session, 2, wire.State_STATE_RUNNING))
	check.Equal(t, "a failure of the next run", true, isUrgent(first, 2, wire.State_STATE_FAILED))

	h.Order(job, Order{Epoch: 3}, roles)
	for _, s := range []*session{first, over, h.jobs[job].pods["new"].session, h.jobs[job].pods["last"].session} {
		check.Equal(t, "before the last stream ends", false, h.wake(job.NamespacedName).Urgent)
		h.disconnect(s, aMoment)
	}
	check.Equal(t, "the end of the last stream of a program that runs", true, h.wake(job.NamespacedName).Urgent)
}

// Streams of ten thousand pods are not woken for nothing.
func TestTheSameOrderWakesNoStream(t *testing.T) {
	h, job := NewHub(), jobNamed("a")
	s := reporting(h, job, "0")
	<-s.changed
	for _, order := range []struct {
		epoch int64
		woken int
	}{{1, 1}, {1, 0}, {2, 1}} {
		h.Order(job, Order{Epoch: order.epoch}, nil)
		check.Equal(t, fmt.Sprintf("woken for epoch %d", order.epoch), order.woken, len(s.changed))
		for len(s.changed) > 0 {
			<-s.changed
		}
	}
}

func TestExitsAreCompared(t *testing.T) {
	one := Report{State: wire.State_STATE_FAILED, Exit: &Exit{Code: 1}}
	for name, other := range map[string]Report{
		"no exit": {State: one.State}, "another code": {State: one.State, Exit: &Exit{Code: 2}},
	} {
		if one.equal(other) || other.equal(one) {
			t.Errorf("%s: equal", name)
		}
	}
	if !one.equal(Report{State: one.State, Exit: &Exit{Code: 1}}) {
		t.Error("the same: not equal")
	}
}

// All ranks of an epoch start from the same step, whatever is known later.
func TestTheStepOfAStartStays(t *testing.T) {
	h, job := NewHub(), jobNamed("a")
	for _, order := range []struct {
		epoch, step, want int64
		start             bool
	}{{1, 0, 0, true}, {2, 0, 0, false}, {2, 8, 8, true}, {2, 0, 8, true}, {2, 9, 8, true}, {3, 9, 9, true}} {
		h.Order(job, Order{Epoch: order.epoch, Start: order.start, ResumeStep: order.step}, nil)
		check.Equal(t, fmt.Sprintf("told in epoch %d", order.epoch), order.want, h.jobs[job].order.ResumeStep)
	}
}

func TestCheckpointsAreCompared(t *testing.T) {
	one := Report{Checkpoints: &Checkpoints{Own: []int64{1}, Shared: []int64{2}}}
	for name, other := range map[string]Report{
		"none": {}, "other own": {Checkpoints: &Checkpoints{Own: []int64{3}, Shared: []int64{2}}}, "fewer shared": {Checkpoints: &Checkpoints{Own: []int64{1}}},
		"another step": {Checkpoints: one.Checkpoints, ResumeStep: 1}, "another folder": {Checkpoints: one.Checkpoints, ResumeScope: wire.CheckpointScope_CHECKPOINT_SCOPE_NODE},
	} {
		if one.equal(other) || other.equal(one) {
			t.Errorf("%s: equal", name)
		}
	}
	if !one.equal(Report{Checkpoints: &Checkpoints{Own: []int64{1}, Shared: []int64{2}}}) {
		t.Error("the same: not equal")
	}
}

// The first word of how long a program waits is looked at soon, and no other.
func TestWaitsThatAreNew(t *testing.T) {
	none, some, more := Report{}, Report{Waits: &Waits{1, 2}}, Report{Waits: &Waits{50, 60}}
	check.Equal(t, "the first", false, none.equal(some))
	check.Equal(t, "others", true, some.equal(more))
	check.Equal(t, "no more", true, some.equal(none))
}

func TestKeep(t *testing.T) {
	h, job := NewHub(), jobNamed("a")
	for _, pod := range []types.UID{"gone", "kept", "connected"} {
		s := reporting(h, job, pod)
		h.note(s, Report{State: wire.State_STATE_RUNNING}, aMoment)
		if pod != "connected" {
			h.disconnect(s, aMoment)
		}
	}
	h.Keep(job, map[types.UID]bool{"kept": true})
	check.Equal(t, "reports", map[types.UID]Report{
		"kept": {State: wire.State_STATE_RUNNING, HeardUntil: aMoment}, "connected": {State: wire.State_STATE_RUNNING, HeardSince: aMoment},
	}, h.Reports(job))
}

// Nothing stays of a job that is forgotten, and who is still connected has to come again.
func TestForget(t *testing.T) {
	w := newWorld(t)
	p := w.connect(w.token("llm-1-worker-0"))
	p.reports(0, wire.State_STATE_RUNNING)
	w.awaitState(rank0, wire.State_STATE_RUNNING)
	w.hub.Order(theJob, Order{Epoch: 1}, nil)
	w.hub.Order(jobNamed("other"), Order{Epoch: 2}, nil)
	w.hub.Forget(theJob.NamespacedName)
	p.failsWith(codes.Aborted, "TrainingJob is gone")
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	check.Equal(t, "jobs", 1, len(w.hub.jobs))
}

// A newer token that comes after the pod and its job are gone brings nothing of the job back.
func TestAForgottenJobStaysForgotten(t *testing.T) {
	w := newWorld(t)
	s := reporting(w.hub, theJob, rank0)
	w.hub.Forget(theJob.NamespacedName)
	for _, c := range []client.Client{w.live, w.cache} {
		must(t, c.Delete(t.Context(), pod("llm-1-worker-0")))
	}
	must(t, w.server.renew(t.Context(), w.token("llm-1-worker-0"), s))
	check.Equal(t, "jobs", 0, len(w.hub.jobs))
}

// A step, or a phase, that is said again has not moved, whatever else is said and by whatever stream.
func TestWhatHasMoved(t *testing.T) {
	h, job := NewHub(), jobNamed("a")
	said := func(step int64, phase wire.Phase) Report {
		r, err := reportOf(&wire.Report{Epoch: 1, State: wire.State_STATE_RUNNING, Progress: &wire.Progress{Step: &step, Phase: phase}}, aMoment)
		must(t, err)
		return r
	}
	s := reporting(h, job, "0")
	for i, tc := range []struct {
		report Report
		moved  time.Duration
	}{
		{said(7, wire.Phase_PHASE_TRAIN), 0},
		{said(7, wire.Phase_PHASE_TRAIN), 0},
		{said(8, wire.Phase_PHASE_TRAIN), 2},
		{said(8, wire.Phase_PHASE_CHECKPOINT), 3},
		{said(8, wire.Phase_PHASE_TRAIN), 4},
		{said(8, wire.Phase_PHASE_TRAIN), 4},
	} {
		if i == 5 {
			s = reporting(h, job, "0")
		}
		h.note(s, tc.report, aMoment.Add(time.Duration(i)))
		check.Equal(t, "moved", aMoment.Add(tc.moved), h.Reports(job)["0"].MovedTime)
	}
}

// Collectives stand still since the first report that says so, in its epoch.
func TestSinceWhenCollectivesStandStill(t *testing.T) {
	h, job := NewHub(), jobNamed("a")
	s := reporting(h, job, "0")
	for i, tc := range []struct {
		epoch int64
		still bool
		since time.Duration // none where it is negative
	}{{1, false, -1}, {1, true, 1}, {1, true, 1}, {1, false, -1}, {1, true, 4}, {2, true, 5}} {
		now := aMoment.Add(time.Duration(i))
		r, err := reportOf(&wire.Report{Epoch: tc.epoch, State: wire.State_STATE_RUNNING, Collectives: &wire.Collectives{Still: tc.still, Hosts: 1}}, now)
		must(t, err)
		h.note(s, r, now)
		want := aMoment.Add(tc.since)
		if tc.since < 0 {
			want = time.Time{}
		}
		check.Equal(t, fmt.Sprint("report ", i), want, h.Reports(job)["0"].StillTime)
	}
}

// What a supervisor says of addresses is bounded, and what is none is left out.
func TestAddresses(t *testing.T) {
	var many [][]byte
	for i := range 100 {
		many = append(many, []byte{10, 0, 0, byte(i)}, []byte("none"[:i%4]))
	}
	r, err := reportOf(&wire.Report{State: wire.State_STATE_RUNNING, Addresses: many, Collectives: &wire.Collectives{Still: true, Behind: many}}, aMoment)
	must(t, err)
	check.Equal(t, "addresses", 8, len(r.Addresses))
	check.Equal(t, "behind", 8, len(r.Behind))
	mapped := netip.MustParseAddr("::ffff:10.0.0.1")
	check.Equal(t, "of IPv4 as IPv6", "[10.0.0.1]", fmt.Sprint(addressesOf([][]byte{mapped.AsSlice()}, 1)))
}

// A stream is heard since its first report, and not since that of the stream before.
func TestHeardSince(t *testing.T) {
	h, job := NewHub(), jobNamed("a")
	running := Report{State: wire.State_STATE_RUNNING}
	heard := func() time.Time { return h.Reports(job)["0"].HeardSince }
	first := reporting(h, job, "0")
	check.Equal(t, "before a report", time.Time{}, heard())
	h.note(first, running, aMoment)
	h.note(first, Report{State: wire.State_STATE_FAILED}, aMoment.Add(time.Second))
	check.Equal(t, "after two reports", aMoment, heard())
	h.disconnect(first, aMoment.Add(2*time.Second))
	check.Equal(t, "without a stream", time.Time{}, heard())
	second := reporting(h, job, "0")
	check.Equal(t, "before a report on the second stream", time.Time{}, heard())
	check.Equal(t, "until then", aMoment.Add(2*time.Second), h.Reports(job)["0"].HeardUntil)
	h.note(second, running, aMoment.Add(time.Minute))
	check.Equal(t, "on the second stream", aMoment.Add(time.Minute), heard())
	check.Equal(t, "until, while it is up", time.Time{}, h.Reports(job)["0"].HeardUntil)
	h.connect(newSession(job, identity{pod: "0"}), aMoment.Add(time.Hour))
	check.Equal(t, "until another one took its place", aMoment.Add(time.Hour), h.Reports(job)["0"].HeardUntil)
}

// A pod of an earlier attempt hears all but that programs start, also where it connects later.
func TestAPodThatIsSuperseded(t *testing.T) {
	h := NewHub()
	job := jobNamed("a")
	order := Order{Epoch: 2, Start: true, Resume: true, Release: true, Keep: true}
	h.Order(job, order, map[types.UID]Role{"earlier": {Superseded: true}})
	earlier, present := reporting(h, job, "earlier"), reporting(h, job, "present")
	of, _ := h.target(earlier)
	check.Equal(t, "of an earlier attempt", Order{Epoch: 2, Resume: true}, of.Order)
	of, _ = h.target(present)
	check.Equal(t, "of the present attempt", order, of.Order)
}

// A pod that has a rank by no name hears which one with each order, also where it connects later, and no more once it has it no more.
func TestAPodThatIsPlaced(t *testing.T) {
	h := NewHub()
	job := jobNamed("a")
	h.Order(job, Order{Epoch: 2, Start: true}, map[types.UID]Role{"spare": {Place: "RANK=3\nLOCKSTEP_TASK_INDEX=2"}})
	spare, other := reporting(h, job, "spare"), reporting(h, job, "other")
	of, _ := h.target(spare)
	check.Equal(t, "of the spare", []string{"RANK=3", "LOCKSTEP_TASK_INDEX=2"}, of.message(nil).GetPlace().GetEnvironment())
	of, _ = h.target(other)
	check.Equal(t, "of another pod", true, of.message(nil).Place == nil)
	h.Order(job, Order{Epoch: 2, Start: true}, nil)
	of, _ = h.target(spare)
	check.Equal(t, "of a pod that is a spare again", true, of.message(nil).Place == nil)
}
