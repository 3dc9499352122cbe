package simulation

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

func TestOracleOfAvailability(t *testing.T) {
	at := metav1.NewMicroTime(start)
	broke := func(w *world) { w.tenants[0].crash(w.tenants[0].pods[0], 1) }
	tests := map[string]struct {
		want   Invariant
		change func(*world, *v1alpha1.Availability)
	}{
		"nothing happens": {"", func(*world, *v1alpha1.Availability) {}},
		"time is lost while the gang is ready": {Lost, func(_ *world, a *v1alpha1.Availability) {
			a.LostTime = []v1alpha1.LostTime{{Cause: "NodeGone", Milliseconds: 1}}
		}},
		"a job that runs was suspended": {Lost, func(_ *world, a *v1alpha1.Availability) { a.SuspendedMilliseconds = 1 }},
		"a job that goes on has ended":  {Lost, func(_ *world, a *v1alpha1.Availability) { a.EndTime = &at }},
		"a gang that is ready is interrupted": {Lost, func(_ *world, a *v1alpha1.Availability) {
			a.Interruption = &v1alpha1.Interruption{StartTime: at, Cause: v1alpha1.CauseNoIncident}
		}},
		"a gang that fails is not": {Lost, func(w *world, _ *v1alpha1.Availability) { broke(w) }},
		"a gang that fails is": {"", func(w *world, a *v1alpha1.Availability) {
			broke(w)
			a.Interruption = &v1alpha1.Interruption{StartTime: metav1.NewMicroTime(w.now), Cause: v1alpha1.CauseNoIncident}
		}},
		"a gang that fails failed before": {Lost, func(w *world, a *v1alpha1.Availability) {
			broke(w)
			a.Interruption = &v1alpha1.Interruption{StartTime: metav1.NewMicroTime(w.now.Add(-time.Millisecond)), Cause: v1alpha1.CauseNoIncident}
		}},
		"a gang fails by an incident that there is not": {Lost, func(w *world, a *v1alpha1.Availability) {
			broke(w)
			a.Interruption = &v1alpha1.Interruption{StartTime: metav1.NewMicroTime(w.now), Cause: "NodeGone", Incident: 7}
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := running(t)
			job := w.tenants[0]
			s := job.job.Status.DeepCopy()
			tc.change(w, s.Availability)
			if got := broken(func() { job.checkAvailability(job.observe(), s) }); got != string(tc.want) {
				t.Errorf("invariant %q is broken, want %q", got, tc.want)
			}
		})
	}
}

// A stopwatch measures what is over, and keeps suspensions apart.
func TestStopwatch(t *testing.T) {
	w := stopwatch{started: true, stopped: start}
	w.stop(start.Add(1500 * time.Microsecond))
	w.stop(start.Add(time.Hour)) // it has been stopped
	w.stopped = start
	w.stop(start.Add(-time.Hour)) // the clock stepped back
	w.stopped, w.suspended = start, true
	w.stop(start.Add(time.Second))
	w.stopped, w.resumed = start, true
	w.stop(start.Add(time.Second))
	if want := (stopwatch{started: true, down: 1, suspension: 2000}); w != want {
		t.Errorf("%+v, want %+v", w, want)
	}
}
