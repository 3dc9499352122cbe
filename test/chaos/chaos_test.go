// Every API call of a recovery goes wrong, once, in every way: the end is the same.

package chaos

import (
	"context"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// maxCalls bounds the calls of one recovery: more than that is a loop.
const maxCalls = 60

// inTurns are the faults in the order in which each begins with another call. The last leaves some calls as they are, and shares those that it strikes with two others.
var inTurns = []string{"answerlost", "crashafter", "crashbefore", "delayed", "edited", refused, "overtaken"}

// stride is from one call that a fault strikes to the next: each goes wrong in two of the ways at least, and in every way where the contract's table is asked for.
func stride() int {
	if *contractTable != "" {
		return 1
	}
	return 3
}

func TestEveryCallGoesWrongOnce(t *testing.T) {
	if len(inTurns) != len(faults) {
		t.Fatalf("%d faults have a turn, of %d", len(inTurns), len(faults))
	}
	for scenario, r := range recoveries {
		for i, name := range inTurns {
			f := faults[name]
			t.Run(scenario+"/"+name, func(t *testing.T) {
				l := newLane(t, scenario+"-"+name, 2, 4, r.lane...)
				l.run(l.trainingJob(r.replicas, func(j *v1alpha1.TrainingJob) {
					if r.job != nil {
						r.job(j)
					}
				}))
				for k := 1 + i%stride(); ; k += stride() {
					calls := l.recover(r, target{k: k}, f)
					if t.Failed() {
						t.Fatalf("with call %d of these: %v", k, calls)
					}
					if len(calls) < k {
						t.Logf("%d calls: %v", len(calls), calls)
						l.eachRight(calls, contract.hasStruck, f, func(right string, f fault) { l.recover(r, target{right: right}, f) })
						break
					}
					if k > maxCalls {
						t.Fatalf("%d calls and no end: %v", len(calls), calls)
					}
				}
				l.writesNothing()
			})
		}
	}
}

// recover goes through one recovery of which a call breaks, and returns its calls.
func (l *lane) recover(r recovery, at target, f fault) []call {
	l.t.Helper()
	before := l.before()
	l.wire.arm(at, f)
	l.strikes++
	r.strike(l, l.strikes)
	l.recovered(before)
	calls := l.wire.seen()
	want := r.want
	want.State = v1alpha1.StateRunning
	if diff := cmp.Diff(want, l.outcome(before)); diff != "" {
		l.t.Errorf("the outcome differs (-want +got):\n%s", diff)
	}
	l.wire.arm(target{}, fault{})
	l.replay()
	if w := l.wire.writes(); len(w) > 0 {
		l.t.Errorf("all was done, and these were written: %v", w)
	}
	l.judge()
	return calls
}

// recovered waits until a new incident is over, and nothing more is done about it.
func (l *lane) recovered(b before) {
	l.t.Helper()
	var last int32
	for _, inc := range b.status.Incidents {
		last = max(last, inc.ID)
	}
	l.await("the job has recovered", func() bool {
		s := &l.job.Status
		n := len(s.Incidents)
		return n > 0 && s.Incidents[n-1].ID > last && s.Incidents[n-1].Outcome != "" && s.State == v1alpha1.StateRunning
	})
	l.idle()
}

// A pod that returns to its node is bound there by the manager, or by the scheduler where that is faster. Here it stands still, and
// every other lane waits, until a binding has gone wrong.
func TestABindingGoesWrong(t *testing.T) {
	l := openLane(t, "binding", 1, 4)
	l.run(l.trainingJob(3, func(j *v1alpha1.TrainingJob) {
		j.Spec.MinAvailable = new(int32(2))
		j.Spec.Hold = &v1alpha1.Hold{Policy: v1alpha1.HoldAlways}
	}))
	r := recovery{want: restartedAlone, strike: func(l *lane, _ int) {
		scheduler := testCluster.Component(cluster.VolcanoScheduler)
		l.must(scheduler.Signal(syscall.SIGSTOP), "stop the scheduler")
		defer func() { l.must(scheduler.Signal(syscall.SIGCONT), "let the scheduler go on") }()
		l.must(testCluster.FailPod(l.ctx, keyOf(l.ranks()[1]), 1), "fail a pod")
		l.awaitAny("a binding has gone wrong", func(context.Context) (bool, error) { return l.wire.broke(), nil })
	}}
	r.want.Holds, r.want.Taints = []int{0, 1, 2}, []int{0, 1, 2}
	for name, f := range faults {
		for _, f := range f.each() {
			l.recover(r, target{right: "create pods/binding"}, f)
			if t.Failed() {
				t.Fatalf("with fault %s", name)
			}
		}
	}
	l.writesNothing()
}
