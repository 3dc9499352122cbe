package simulation

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// stopwatch is what the checks measure of a job from one record to the next.
type stopwatch struct {
	started, ended bool
	// stopped is since when the gang is not ready or suspended, and zero while it is ready.
	stopped   time.Time
	suspended bool
	// resumed reports whether the gang is not ready yet after a suspension, which counts as one.
	resumed          bool
	down, suspension int64 // in milliseconds, of what is over
}

// checkAvailability checks that the time that a job is said to have lost is that in which its gang was not ready.
func (t *tenant) checkAvailability(o *gang.Observation, s *v1alpha1.TrainingJobStatus) {
	r := &record{tenant: t, o: o, old: &t.job.Status, s: s}
	w := &r.ledger.watch
	suspended := r.o.Job.Spec.Suspend
	ready := !isFinished(r.s) && !suspended && r.gangIsReady()
	switch {
	case w.ended:
	case isFinished(r.s):
		w.stop(r.o.Now)
		w.ended = true
	case ready:
		w.stop(r.o.Now)
		w.started = true
	case w.started && (w.stopped.IsZero() || w.suspended != suspended):
		resumed := w.suspended && !suspended
		w.stop(r.o.Now)
		w.stopped, w.suspended, w.resumed = r.o.Now.Truncate(time.Microsecond), suspended, resumed
	}
	a := r.s.Availability
	r.require(Lost, (a != nil) == w.started, "availability is %s, and the gang was ready: %v", asJSON(a), w.started)
	if a == nil {
		return
	}
	var down int64
	for _, l := range a.LostTime {
		down += l.Milliseconds
	}
	r.require(Lost, down == w.down && a.SuspendedMilliseconds == w.suspension, "%d ms are said to be lost and %d ms suspended, and these are %d and %d",
		down, a.SuspendedMilliseconds, w.down, w.suspension)
	r.require(Lost, (a.EndTime != nil) == w.ended, "availability ends: %v, and the job has: %v", a.EndTime, w.ended)
	r.require(Lost, (a.Interruption != nil) == !w.stopped.IsZero(), "the interruption is %s, and the gang is not ready since %s", asJSON(a.Interruption), w.stopped)
	if i := a.Interruption; i != nil {
		r.require(Lost, i.StartTime.Truncate(time.Microsecond).Equal(w.stopped), "the interruption began at %s, and the gang stopped at %s", i.StartTime, w.stopped)
		r.checkCauseOf(i)
	}
	r.countLost(a)
}

// stop ends what was measured last.
func (w *stopwatch) stop(now time.Time) {
	if w.stopped.IsZero() || !w.started {
		return
	}
	took := max(0, now.Sub(w.stopped)).Milliseconds()
	if w.suspended || w.resumed {
		w.suspension += took
	} else {
		w.down += took
	}
	w.stopped, w.suspended, w.resumed = time.Time{}, false, false
}

// gangIsReady reports whether as many ranks as the gang needs were seen to be ready, or have succeeded.
func (r *record) gangIsReady() bool {
	ready, ranks := int32(0), ranksOf(r.o.Job, r.s)
	for _, of := range ranks {
		if r.isReady(of) {
			ready++
		}
	}
	return ready >= ptr.Deref(r.o.Job.Spec.MinAvailable, int32(len(ranks)))
}

// isReady reports whether the pod that a rank should have was seen to be ready, or has succeeded.
func (r *record) isReady(of rank) bool {
	for i := range r.o.Pods {
		p := &r.o.Pods[i]
		if rankOf(p) != of || p.Attempt != r.s.Attempt {
			continue
		}
		if p.Gated || p.Deleting || replaced(r.s, p) {
			return false
		}
		return p.Phase == corev1.PodSucceeded || (!r.isAway(r.s, p) && p.Phase == corev1.PodRunning && p.Ready && p.Disrupted == "" && r.o.Nodes[p.Node].Ready)
	}
	return false
}

// checkCauseOf checks that what interrupts the gang is an open incident, where one is named for the first time.
func (r *record) checkCauseOf(i *v1alpha1.Interruption) {
	var before int32
	if a := r.old.Availability; a != nil && a.Interruption != nil && a.Interruption.StartTime.Truncate(time.Microsecond).Equal(i.StartTime.Truncate(time.Microsecond)) {
		before = a.Interruption.Incident
	}
	inc := incidentOf(r.s, i.Incident)
	if i.Incident == 0 {
		return
	}
	r.require(Lost, before == 0 || before == i.Incident, "what interrupts the gang was incident %d, and is incident %d", before, i.Incident)
	r.require(Lost, before != 0 || (inc.ID != 0 && inc.Outcome == ""), "what interrupts the gang is incident %d, which is not open", i.Incident)
	r.require(Lost, inc.ID == 0 || string(inc.Trigger) == string(i.Cause), "the cause %s is incident %d, of %s", i.Cause, i.Incident, inc.Trigger)
}

// countLost counts the interruptions that are over, by cause.
func (r *record) countLost(a *v1alpha1.Availability) {
	before := map[v1alpha1.InterruptionCause]int32{}
	if was := r.old.Availability; was != nil {
		for _, l := range was.LostTime {
			before[l.Cause] = l.Interruptions
		}
	}
	for _, l := range a.LostTime {
		r.require(Lost, l.Interruptions-before[l.Cause] >= 0, "interruptions by %s are forgotten", l.Cause)
		if l.Interruptions > before[l.Cause] {
			r.census["time lost to "+string(l.Cause)]++
		}
	}
}
