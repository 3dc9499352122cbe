// Fitting: the times that things took in recorded incidents, so that a replay under the job's own policy takes as long.

package lab

import (
	"math"
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/policies/incident"
)

// factors are what the given costs are multiplied by in an incident; zero where it does not tell.
type factors struct {
	inPlace float64 // of the restart of a process in its pod, and of the end of its peers
	placed  float64 // of what is from the deletion of a pod until its replacement has a node
	started float64 // of the start of a replacement
}

// tell has an incident tell what its phases say of replacements: that is known where their binding was seen.
func (r *Recorded) tell(c *Costs) {
	if !r.Known || r.BoundTime == nil {
		return
	}
	in := map[incident.Phase]time.Duration{}
	for _, s := range incident.Phases(&r.Incident) {
		in[s.Phase] += s.Duration()
	}
	ratio := func(recorded, given time.Duration) float64 {
		return math.Max(leastFactor, float64(recorded)/float64(max(given, time.Millisecond)))
	}
	r.placed = ratio(in[incident.Place], 2*c.React+c.Stop+c.Recreate+c.Schedule)
	r.started = ratio(in[incident.Start], c.Start)
}

// bracket are the factors that were found to be too small and too great; zero for none.
type bracket struct{ small, great float64 }

// next is the factor to try after one that was off, and proposed in its place.
func (b *bracket) next(tried, proposed float64, tooSmall bool) float64 {
	if tooSmall {
		b.small = max(b.small, tried)
	} else if b.great == 0 || tried < b.great {
		b.great = tried
	}
	if b.small > 0 && b.great > 0 && (proposed <= b.small || proposed >= b.great) {
		return math.Sqrt(b.small * b.great)
	}
	return math.Max(leastFactor, proposed)
}

const (
	// fitRounds is how many plays a fit has; an incident within fitError is as it was.
	fitRounds = 16
	fitError  = 10 * time.Millisecond
	// leastFactor keeps events from coming without end.
	leastFactor = 1e-4
)

// Fit finds the times that things took in the incidents. The setup has the job that had them, with its policy. What an incident spent
// on restarts in place, or on replacements, is told by its duration, less what the policy waited for. An incident that tells nothing of
// some of these has the median of the others. Of several plays the one that is the closest counts.
func (h *History) Fit(s Setup) error {
	best, least := h.Incidents, time.Duration(math.MaxInt64)
	for range fitRounds {
		r, err := h.Play(s)
		if err != nil {
			return err
		}
		next, all, done := slices.Clone(h.Incidents), time.Duration(0), true
		for i := range next {
			spent := h.spent(r, i)
			if !next[i].tells(spent) {
				continue
			}
			off := h.recordedAlone(i) - sumOf(spent)
			all += off.Abs()
			if off.Abs() > fitError {
				next[i].adjust(off, spent, h.factors(i))
				done = false
			}
		}
		if all < least {
			best, least = h.Incidents, all
		}
		if done {
			break
		}
		h.Incidents = next
	}
	h.Incidents = best
	return nil
}

// tells reports whether the duration of an incident tells how long things took. It does not where the play waited for a node, which
// the incident had at once: the nodes are not those that it had.
func (r *Recorded) tells(spent [Phases]time.Duration) bool {
	return r.Known && r.Down > 0 && (r.noRoom > 0 || spent[Room] < time.Second)
}

// next is when the incident after one is played; false after the last.
func (h *History) next(i int) (time.Duration, bool) {
	for j := i + 1; j < len(h.Incidents); j++ {
		if at := h.at(j); at > h.at(i) {
			return at, true
		}
	}
	return 0, false
}

// recordedAlone is for how long ranks were down because of an incident before the next one. How long that goes on is the next one's.
func (h *History) recordedAlone(i int) time.Duration {
	r := &h.Incidents[i]
	if next, ok := h.next(i); ok {
		return max(0, min(r.Down, next-h.at(i)-r.downFrom.Sub(r.seen)))
	}
	return r.Down
}

// spent is the same in a play, by phase.
func (h *History) spent(r *Result, i int) (spent [Phases]time.Duration) {
	from := h.at(i)
	until, ok := h.next(i)
	if !ok {
		until = r.Wall
	}
	for _, s := range r.Downtime {
		if overlap := min(s.Until, until) - max(s.From, from); overlap > 0 && s.Phase != Restore {
			spent[s.Phase] += overlap
		}
	}
	return spent
}

// adjust changes what an incident tells by how far a play of it was off, of the times that were spent with some factors.
func (r *Recorded) adjust(off time.Duration, spent [Phases]time.Duration, with factors) {
	scale := func(f float64, spent time.Duration) float64 {
		if spent <= 0 {
			return f
		}
		return r.bracket.next(f, f*float64(spent+off)/float64(spent), off > 0)
	}
	switch {
	case r.returned():
		r.repair = max(0, r.repair+off)
	case r.stepped:
		r.started = scale(with.started, spent[Place]+spent[Start])
		r.placed = math.Max(leastFactor, with.placed*r.started/with.started)
	default:
		r.inPlace = scale(with.inPlace, spent[Detect]+spent[Place]+spent[Start])
	}
}

// costsOf are the times of an incident. A play begins when the failure was seen, so that nothing is to be noticed any more; and what
// the kubelet waited for is in what was recorded.
func (h *History) costsOf(i int) *Costs {
	c, f := h.seenCosts(i), h.factors(i)
	times(f.inPlace, &c.PeerAbort, &c.RestartInPlace, &c.StopProgram)
	times(f.placed, &c.React, &c.Stop, &c.Recreate, &c.Schedule)
	times(f.started, &c.Start)
	c.CreateRate /= f.placed
	return &c
}

// seenCosts are the given costs without those until a failure is seen.
func (h *History) seenCosts(i int) Costs {
	c := h.costs
	c.NodeNotReady, c.HealthReport, c.Restore, c.Backoff = 0, 0, 0, 0
	if r := &h.Incidents[i]; r.effect == NodeLoss && r.VictimCount > 0 {
		c.PeerAbort = 0 // the end of the peers is what was seen
	}
	return c
}

// factors are those of an incident. The peers were back once it was over, and so was what had to start on a node that came back.
func (h *History) factors(i int) factors {
	r := &h.Incidents[i]
	c := h.seenCosts(i)
	out := factors{
		inPlace: h.factor(r.inPlace, func(f *factors) float64 { return f.inPlace }),
		placed:  h.factor(r.placed, func(f *factors) float64 { return f.placed }),
		started: h.factor(r.started, func(f *factors) float64 { return f.started }),
	}
	inPlace := c.PeerAbort + c.RestartInPlace
	if r.bySupervisors() {
		inPlace = c.StopProgram
	}
	if r.bySupervisors() && !r.stepped {
		out.placed = 1 // nothing was placed, and the manager was as quick as ever
	}
	if r.Known && r.Down > 0 {
		out.inPlace = atMost(out.inPlace, inPlace, r.Down)
		if r.returned() {
			out.started = atMost(out.started, c.Start, r.Down)
		}
	}
	return out
}

// factor is an incident's own, or the median of all that have one.
func (h *History) factor(own float64, of func(*factors) float64) float64 {
	if own != 0 {
		return own
	}
	var all []float64
	for i := range h.Incidents {
		if f := of(&h.Incidents[i].factors); f != 0 {
			all = append(all, f)
		}
	}
	if len(all) == 0 {
		return 1
	}
	slices.Sort(all)
	return all[(len(all)-1)/2]
}

// atMost is a factor with which a time is not longer than a limit.
func atMost(factor float64, d, limit time.Duration) float64 {
	if d <= 0 {
		return factor
	}
	return math.Max(leastFactor, math.Min(factor, float64(limit)/float64(d)))
}

func times(factor float64, all ...*time.Duration) {
	for _, d := range all {
		*d = time.Duration(float64(*d) * factor)
	}
}
