// Watch of health: when each report got its verdict and its decision, as a watch tells it.

package main

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// report is one fault, and what became of it.
type report struct {
	node string
	pod  string // that uses what is ill; empty where none does
	// state that is reported.
	state v1alpha1.HealthState

	// sent is just before the report was written, shown when the watch showed it, verdict when it
	// showed what is made of it.
	sent, shown, verdict time.Time
	// decided is when the manager opened the incident, by its own clock; recorded when the watch
	// showed that; moved when the API server was asked to delete the pod.
	decided, recorded, moved time.Time
	heldBack                 bool
}

// isIn reports whether a NodeHealth has the report.
func (r *report) isIn(h *v1alpha1.NodeHealth) bool {
	return slices.ContainsFunc(h.Status.Reports, func(in v1alpha1.HealthReport) bool { return in.State == r.state })
}

// The points of a report, from when it was sent.
func wasSent(r *report) time.Time    { return r.sent }
func toShown(r *report) time.Time    { return r.shown }
func toVerdict(r *report) time.Time  { return r.verdict }
func toDecision(r *report) time.Time { return r.decided }
func toRecord(r *report) time.Time   { return r.recorded }
func toMove(r *report) time.Time     { return r.moved }

type reports []*report

// took is how long after each report a point was reached; those that never were are left out.
func (rs reports) took(point func(*report) time.Time) []time.Duration {
	var out []time.Duration
	for _, r := range rs {
		if at := point(r); !at.IsZero() {
			out = append(out, at.Sub(r.sent))
		}
	}
	return out
}

// tookFrom is the same from another point.
func (rs reports) tookFrom(from, to func(*report) time.Time) []time.Duration {
	var out []time.Duration
	for _, r := range rs {
		if !from(r).IsZero() && !to(r).IsZero() {
			out = append(out, max(0, to(r).Sub(from(r)))) // this program's watch may be the later one
		}
	}
	return out
}

// last is when the last of the reports came to a point.
func (rs reports) last(point func(*report) time.Time) time.Time {
	var last time.Time
	for _, r := range rs {
		if at := point(r); at.After(last) {
			last = at
		}
	}
	return last
}

func (rs reports) number(is func(*report) bool) int {
	n := 0
	for _, r := range rs {
		if is(r) {
			n++
		}
	}
	return n
}

func (rs reports) nodes() []string {
	out := make([]string, 0, len(rs))
	for _, r := range rs {
		out = append(out, r.node)
	}
	return out
}

// join adds when the pods were deleted.
func (rs reports) join(w writes) {
	for _, r := range rs {
		if at, ok := w.deleted[r.pod]; ok && r.pod != "" {
			r.moved = at
		}
	}
}

// healthWatch completes the reports that are under way.
type healthWatch struct {
	mu       sync.Mutex
	underWay map[string]*report        // by node
	ill      map[string]bool           // nodes that are, or that no job is placed on
	known    map[string]bool           // nodes that have a verdict
	shared   chan *v1alpha1.NodeHealth // where reports go that are seen; nil for nowhere
}

func newHealthWatch(ctx context.Context, config *rest.Config, scheme *runtime.Scheme) (*healthWatch, error) {
	w := &healthWatch{underWay: map[string]*report{}, ill: map[string]bool{}, known: map[string]bool{}}
	return w, watch(ctx, config, scheme, w.note, &v1alpha1.NodeHealth{}, &v1alpha1.TrainingJob{})
}

// note takes one event down.
func (w *healthWatch) note(obj any, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch obj := obj.(type) {
	case *v1alpha1.NodeHealth:
		w.noteVerdict(obj, now)
	case *v1alpha1.TrainingJob:
		for i := range obj.Status.Incidents {
			w.noteIncident(&obj.Status.Incidents[i], now)
		}
	}
}

func (w *healthWatch) noteVerdict(h *v1alpha1.NodeHealth, now time.Time) {
	r := w.underWay[h.Name]
	if r != nil && !r.sent.IsZero() && r.shown.IsZero() && r.isIn(h) {
		r.shown = now
		if w.shared != nil {
			w.shared <- h
		}
	}
	v := h.Status.Verdict
	if v == nil {
		return
	}
	w.known[h.Name], w.ill[h.Name] = true, v.State != v1alpha1.HealthHealthy || v.QuarantinedTime != nil
	if r != nil && !r.sent.IsZero() && v.State == r.state {
		first(&r.verdict, now, true)
		r.heldBack = v.HeldBackTime != nil
	}
}

// noteIncident takes down that a report has moved a pod: an incident's time has microseconds.
func (w *healthWatch) noteIncident(inc *v1alpha1.Incident, now time.Time) {
	r := w.underWay[inc.Cause.Node]
	if r == nil || r.sent.IsZero() || inc.Trigger != v1alpha1.HealthFailed || inc.StartTime.Time.Before(r.sent.Truncate(time.Microsecond)) {
		return
	}
	first(&r.decided, inc.StartTime.Time, true)
	first(&r.recorded, now, true)
}

// expect has these reports completed, and no other ones.
func (w *healthWatch) expect(rs reports) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.underWay = make(map[string]*report, len(rs))
	for _, r := range rs {
		w.underWay[r.node] = r
	}
}

// stop leaves the reports to whoever reads them.
func (w *healthWatch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.underWay, w.shared = nil, nil
}

func (w *healthWatch) sends(r *report, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r.sent = now
}

// areIn reports whether all reports have their verdict.
func (w *healthWatch) areIn(rs reports) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !slices.ContainsFunc(rs, func(r *report) bool { return r.verdict.IsZero() })
}

// areWell reports whether nothing is made of any of the nodes.
func (w *healthWatch) areWell(nodes []string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !slices.ContainsFunc(nodes, func(n string) bool { return !w.known[n] || w.ill[n] })
}

// share passes the next reports on as they are seen, so many.
func (w *healthWatch) share(count int) <-chan *v1alpha1.NodeHealth {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shared = make(chan *v1alpha1.NodeHealth, count)
	return w.shared
}
