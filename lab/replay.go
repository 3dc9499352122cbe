// Replays: recorded incidents are played again, with the times that things took then.

package lab

import (
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// History is what a job's status remembers, to be played again under its own policy and others.
type History struct {
	Incidents []Recorded
	// LeftOut are the incidents that tell of no failure.
	LeftOut []v1alpha1.Incident
	costs   Costs
	repair  time.Duration
}

// HistoryOf reads the incidents of a job. Costs are for what they do not tell, and repair is for how long a node is away that no
// incident has seen come back.
func HistoryOf(job *v1alpha1.TrainingJob, costs Costs, repair time.Duration) *History {
	h := &History{costs: costs, repair: repair}
	h.Incidents, h.LeftOut = readIncidents(job, repair)
	for i := range h.Incidents {
		h.Incidents[i].tell(&h.costs)
	}
	return h
}

// LostNodes is how many nodes the incidents took away from the job, which went on elsewhere.
func (h *History) LostNodes() int {
	n := 0
	for i := range h.Incidents {
		if r := &h.Incidents[i]; r.effect.NeedsRepair() && r.stepped {
			n += len(r.Pods)
		}
	}
	return n
}

// Nodes are the nodes that the incidents name, in the order of the incidents.
func (h *History) Nodes() []string {
	var out []string
	for i := range h.Incidents {
		for _, p := range h.Incidents[i].Pods {
			if p.Node != "" && !slices.Contains(out, p.Node) {
				out = append(out, p.Node)
			}
		}
	}
	return out
}

// Play plays the incidents with a job, at the distances from each other that they had.
func (h *History) Play(s Setup) (*Result, error) {
	s.Failures = nil
	for i := range h.Incidents {
		s.Failures = append(s.Failures, h.Incidents[i].failures(h.at(i), h.costsOf(i))...)
	}
	costs := h.costs
	costs.Restore = 0 // replays are about the ranks, and not about the training
	excluded := rules.Policies(s.Job).Of("").ExcludeNode
	s.DeletesAtOnce = true // what a restart in place delayed is in what was recorded
	s.Costs, s.For = &costs, h.at(len(h.Incidents)-1)+Lead+max(h.repair, excluded)
	return Play(s)
}

// at is when an incident is played.
func (h *History) at(i int) time.Duration {
	return Lead + h.costs.Start + h.Incidents[i].seen.Sub(h.Incidents[0].seen)
}

// Down is for how long not all ranks ran in a play because of an incident: from its failure, in what began before the next one. Where
// the next one comes before all ran again, both have the time from then on.
func (h *History) Down(r *Result, i int) time.Duration {
	from := h.at(i)
	to, ok := h.next(i)
	if !ok {
		to = r.Wall
	}
	sum := time.Duration(0)
	for _, d := range runs(r.Downtime) {
		if d.from < to && d.until > from {
			sum += d.until - max(d.from, from)
		}
	}
	return sum
}

// Together is for how long not all ranks ran in a play because of any incident.
func (h *History) Together(r *Result) time.Duration {
	sum := time.Duration(0)
	for _, d := range runs(r.Downtime) {
		if d.until > h.at(0) {
			sum += d.until - max(d.from, h.at(0))
		}
	}
	return sum
}

// RecordedTogether is the same as it was recorded; false where an incident has not recovered.
func (h *History) RecordedTogether() (time.Duration, bool) {
	sum, until := time.Duration(0), time.Time{}
	byDown := slices.SortedFunc(slices.Values(h.Incidents), func(a, b Recorded) int { return a.downFrom.Compare(b.downFrom) })
	for i := range byDown {
		r := &byDown[i]
		if !r.Known {
			return 0, false
		}
		from := r.end.Add(-r.Down)
		if from.Before(until) {
			from = until
		}
		if r.end.After(from) {
			sum, until = sum+r.end.Sub(from), r.end
		}
	}
	return sum, true
}

// Wait is the time from when a replacement first found no node until the last one had one, and why the first found none.
type Wait struct {
	Incident int // its index
	Shortage
}

// Waits are those of a play, as one for each time in which not all ranks ran.
func (h *History) Waits(r *Result) []Wait {
	var out []Wait
	for _, down := range runs(r.Downtime) {
		var one *Wait
		for _, s := range r.Shortages {
			switch {
			case s.From < down.from || s.From >= down.until || s.From < h.at(0):
			case one == nil:
				one = &Wait{h.before(s.From), s}
			default:
				one.Until = s.Until
			}
		}
		if one != nil {
			out = append(out, *one)
		}
	}
	return out
}

// before is the last incident that was played at a time or before it.
func (h *History) before(at time.Duration) int {
	i := len(h.Incidents) - 1
	for i > 0 && h.at(i) > at {
		i--
	}
	return i
}
