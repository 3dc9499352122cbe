// The streams of supervisors are cut, late or blocked, and the leader changes while the gang is at the barrier.

package chaos

import (
	"context"
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/controllers/supervisors"
	protocol "github.com/lockstep-dev/lockstep/supervisor/wire"
	"github.com/lockstep-dev/lockstep/test/supervision"
	"github.com/lockstep-dev/lockstep/test/supervision/simulated"
)

// late is how late a message of a stream may be.
var late = flag.Duration("late", 10*time.Second, "how late a message between a supervisor and the manager may be")

// networked is for a lane whose supervisors reach the operator through a proxy, and a second operator at another address.
func networked(l *lane) {
	supervised(l)
	proxy, err := supervision.NewProxy(l.supervisors.BindAddress, l.freeAddress())
	l.must(err, "start a proxy")
	l.t.Cleanup(proxy.Close)
	l.proxy, l.supervisors.Address = proxy, proxy.Address
}

// meanwhile does something again and again, after random times up to a limit, until stop is called.
func meanwhile(limit time.Duration, do func()) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			do()
			sleep(ctx, rand.N(limit))
		}
	}()
	return func() { cancel(); <-done }
}

func TestStreamsAreCut(t *testing.T) {
	l := newLane(t, "cut", 2, 4, networked)
	r := recoveries["programs"]
	l.run(l.trainingJob(r.replicas, r.job))
	// Each connection lives for half a second in the mean, and a recovery takes as long.
	stop := meanwhile(300*time.Millisecond, func() { l.proxy.Cut(0.3) })
	for range 8 {
		l.recover(r, target{}, fault{})
	}
	stop()
	l.writesNothing()
}

// Steps of the ladder may be due before the late messages are there. Whatever they do, no two epochs meet.
func TestMessagesAreLate(t *testing.T) {
	l := newLane(t, "late", 2, 8, networked) // a rank that is late for long gets another node
	l.timeout += 30 * *late
	l.run(l.trainingJob(3, supervise))
	l.proxy.Delay(*late)
	for i := range 3 {
		before := l.before()
		l.kubelet.fail(l.job.Status.Epoch, l.ranks()[i])
		l.await("the gang trains in another epoch", func() bool { return l.job.Status.Epoch > before.status.Epoch && l.trains() })
		t.Logf("epoch %d, %d incidents", l.job.Status.Epoch, len(l.job.Status.Incidents))
	}
	l.proxy.Delay(0)
	l.await("nothing is left to do", func() bool { return l.job.Status.State == v1alpha1.StateRunning && l.trains() })
	l.idle()
	l.judge()
}

// trains reports whether the programs of all ranks run in the epoch of the job.
func (l *lane) trains() bool {
	return cmp.Equal(l.epochs(), l.kubelet.oracle.Running())
}

func TestTheLeaderChangesAtTheBarrier(t *testing.T) {
	release := make(chan struct{})
	l := newLane(t, "leader", 2, 4, networked, func(l *lane) {
		l.elected = true
		l.kubelet.stopping = func(ctx context.Context, rank string) {
			sleep(ctx, stopTime)
			if rank == "worker-2" {
				select {
				case <-release:
				case <-ctx.Done():
				}
			}
		}
	})
	r := recoveries["program"]
	l.run(l.trainingJob(r.replicas, r.job))
	next := l.successor()

	before := l.before()
	r.strike(l, 1)
	barrier := map[string]protocol.State{
		"worker-0": protocol.State_STATE_WAITING, "worker-1": protocol.State_STATE_WAITING, "worker-2": protocol.State_STATE_STOPPING,
	}
	l.await("two ranks wait for the third", func() bool { return cmp.Equal(barrier, states(l.kubelet.states())) })
	l.must(l.life.end(), "kill the leader")
	l.life = next
	l.await("a next leader hears all supervisors", func() bool {
		heard := 0
		for _, report := range l.life.jobs.Supervision.Hub.Reports(supervisors.JobOf(l.job)) {
			if !report.HeardSince.IsZero() && report.Epoch == before.status.Epoch+1 {
				heard++
			}
		}
		return heard == len(barrier) && l.life.clock.looks.Load() > 0
	})
	time.Sleep(silence) // nothing happens: the third rank stops its program
	if diff := cmp.Diff(barrier, states(l.kubelet.states())); diff != "" {
		t.Errorf("the ranks at the barrier of the next leader (-want +got):\n%s", diff)
	}
	close(release)
	l.recovered(before)
	want := r.want
	want.State = v1alpha1.StateRunning
	if diff := cmp.Diff(want, l.outcome(before)); diff != "" {
		t.Errorf("the outcome differs (-want +got):\n%s", diff)
	}
	l.judge()
}

// successor starts a second operator, at the address that the proxy tries when the first does not listen.
func (l *lane) successor() *life {
	l.t.Helper()
	s := l.setting()
	s.supervisors.BindAddress = l.proxy.Managers[1]
	next, err := begin(s)
	l.must(err, "start a second operator")
	l.t.Cleanup(next.crash)
	return next
}

func states(of map[string]simulated.Status) map[string]protocol.State {
	out := map[string]protocol.State{}
	for rank, s := range of {
		out[rank] = s.State
	}
	return out
}

// The programs start without a manager, and run. One that fails waits for managerTimeoutSeconds; then its container ends with the
// program's code, and starts again. Once the manager can be reached, nothing has to be done.
func TestSupervisorsThatReachNoManager(t *testing.T) {
	const managerTimeout = 2 * time.Second
	l := newLane(t, "blocked", 2, 4, networked, func(l *lane) {
		l.proxy.Block()
		l.kubelet.managerTimeout, l.kubelet.restarts = managerTimeout, true
	})
	l.job = l.trainingJob(3, supervise)
	l.must(testCluster.Client().Create(l.ctx, l.job), "create the job")
	l.await("the gang trains without the manager", func() bool { return l.job.Status.State == v1alpha1.StateRunning && l.trains() })

	failed := time.Now()
	l.kubelet.fail(1, l.ranks()[1])
	l.await("the container has ended", func() bool { return len(l.kubelet.ended()) == 1 })
	e := l.kubelet.ended()[0]
	if e.rank != "worker-1" || e.code != 1 || e.at.Sub(failed) < managerTimeout {
		t.Errorf("the container of %s ended with %d after %s, want worker-1, 1 and %s at least", e.rank, e.code, e.at.Sub(failed), managerTimeout)
	}
	l.await("the program runs again", l.trains)
	if after := time.Since(e.at); after < managerTimeout {
		t.Errorf("it started %s after its container, want %s at least", after, managerTimeout)
	}

	l.wire.arm(target{}, fault{})
	l.proxy.Unblock()
	l.await("all supervisors are connected", l.kubelet.connected)
	l.idle()
	if got := l.job.Status; got.Epoch != 1 || len(got.Incidents) > 0 || len(l.wire.writes()) > 0 {
		t.Errorf("epoch %d, incidents %v, writes %v: nothing was to be done", got.Epoch, got.Incidents, l.wire.writes())
	}
	l.judge()
}
