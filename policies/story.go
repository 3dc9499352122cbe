// The story: what people are told of an incident.

package policies

import (
	"fmt"
	"strings"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// story tells an incident in a sentence.
func story(inc *v1alpha1.Incident) string {
	var b strings.Builder
	c := &inc.Cause
	fmt.Fprintf(&b, "incident %d, %s", inc.ID, inc.Trigger)
	if c.Signal != "" {
		fmt.Fprintf(&b, " by %s", c.Signal)
	}
	if c.Pod != "" {
		fmt.Fprintf(&b, " of pod %s", c.Pod)
	}
	if c.Node != "" {
		fmt.Fprintf(&b, " on node %s", c.Node)
	}
	if c.ExitCode != nil {
		fmt.Fprintf(&b, ", container %s exited with %d", c.Container, *c.ExitCode)
	}
	if c.Reason != "" {
		fmt.Fprintf(&b, " (%s)", c.Reason)
	}
	if inc.PodCount > 1 {
		fmt.Fprintf(&b, ", %d pods in all", inc.PodCount)
	}
	if n := len(inc.Steps); n > 0 {
		b.WriteString(": " + doing(inc.Steps[n-1]))
	}
	return b.String()
}

// doing tells the last step that was taken.
func doing(f v1alpha1.FiredStep) string {
	switch {
	case f.DryRun:
		return fmt.Sprintf("%s would be taken, but this is a dry run", f.Action)
	case f.Action == v1alpha1.MigratePod:
		return fmt.Sprintf("%s, without a checkpoint", f.Action)
	}
	return string(f.Action)
}

// obstacle says what keeps an incident from going on: what its ranks wait for to be
// placed, or the backoff.
func (w *world) obstacle(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, m *rooms) string {
	if len(inc.Steps) == 0 {
		if up, ok := w.due(s, inc); ok && !up.at.Before(w.backoff(s, inc)) && up.at.Equal(w.backoff(s, inc)) && up.at.After(w.Now) {
			return ", backs off until " + up.at.UTC().Format("15:04:05")
		}
	}
	if w.heldUntil(s, inc).After(w.Now) {
		return w.heldBackBy(s, inc)
	}
	out := ""
	w.everyRankOf(inc, func(r rank) bool {
		p := w.pod(r)
		switch {
		case p == nil || p.Node != "":
		case p.Gated && m.forRank(r).none():
			out = ", waits for a healthy node in HyperNode " + w.homeOf(s, r)
		case !p.Gated && p.Unschedulable && !stale(s, p):
			out = ", waits for room"
			if home := w.homeOf(s, r); home != "" {
				out += " in HyperNode " + home
			}
		}
		return out == ""
	})
	return out
}
