// Home: where the job lives and why, and which nodes it keeps or keeps away from.

package why

import (
	"fmt"
	"slices"

	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// home tells where the job lives, and who chose that.
func home(s *Snapshot) []Fact {
	p := s.Job.Status.Placement
	if p == nil || gang.Finished(&s.Job.Status) {
		return nil
	}
	out := told("status.placement", "It has no home: no HyperNode holds all its nodes.")
	if p.HyperNode != "" {
		out = told("status.placement", "Home is HyperNode %s%s, the lowest that holds all its nodes. Replacements go there.", p.HyperNode, tierStory(p.Tier))
	}
	for _, t := range p.Tasks {
		var homes []string
		for i, part := range t.Partitions {
			if part.HyperNode != "" {
				homes = append(homes, fmt.Sprintf("%d in %s", i, part.HyperNode))
			}
		}
		if len(homes) > 0 {
			out = append(out, told("status.placement", "The partitions of task %s have homes of their own: %s.", t.Name, s.listed(homes))...)
		}
	}
	return append(out, s.tellRelocation()...)
}

func tierStory(tier *int32) string {
	if tier == nil {
		return ""
	}
	return fmt.Sprintf(" of tier %d", *tier)
}

// within tells what a topology allowed the scheduler.
func within(t *v1alpha1.NetworkTopology) string {
	switch {
	case t == nil:
		return ", without a networkTopology"
	case gang.IsHard(t):
		return fmt.Sprintf(", in one HyperNode of tier %d at most", ptr.Deref(t.HighestTierAllowed, 0))
	}
	return ", close together where there was room (networkTopology soft)"
}

// tellRelocation tells which incident left the former home, where that is remembered.
func (s *Snapshot) tellRelocation() []Fact {
	n := s.Job.Status.Restarts.Relocations
	if n == 0 {
		return told("status.restarts", "It has never relocated: the scheduler chose the nodes when the gang was first placed%s.", within(s.Job.Spec.NetworkTopology))
	}
	for _, inc := range slices.Backward(s.Job.Status.Incidents) {
		for _, step := range slices.Backward(inc.Steps) {
			if rules.ActionOf(step.Action).LeavesHome && !step.DryRun {
				return told("status.incidents", "It relocated %s, the last time at %s, for incident %d: %s.", lines.Count(n, "time"), s.at(step.Time.Time), inc.ID, storyOf(&inc))
			}
		}
	}
	return told("status.restarts", "It relocated %s. The incidents of that are not remembered any more.", lines.Count(n, "time"))
}

// left tells which homes the job keeps away from.
func left(s *Snapshot) []Fact {
	var out []Fact
	for _, l := range s.Job.Status.LeftHyperNodes {
		out = append(out, told("status.leftHyperNodes", "It relocated from HyperNode %s, and keeps away from there until %s.", l.Name, s.until(l.Until.Time))...)
	}
	return out
}

// holds tells which nodes are kept free for the job.
func holds(s *Snapshot) []Fact {
	var standing, ending []string
	until := ""
	for _, h := range s.Job.Status.Holds {
		if h.Until == nil {
			standing = append(standing, h.Node)
		} else {
			ending, until = append(ending, h.Node), s.until(h.Until.Time)
		}
	}
	var out []Fact
	if n := len(standing); n > 0 {
		out = told("status.holds", "It holds %s until it ends: %s.", lines.Count(n, "node"), s.listed(standing))
	}
	if n := len(ending); n > 0 {
		out = append(out, told("status.holds", "It holds %s until its ranks are back, and the last no longer than until %s: %s.", lines.Count(n, "node"), until, s.listed(ending))...)
	}
	return out
}

// exclusions tells which nodes the job keeps away from.
func exclusions(s *Snapshot) []Fact {
	var each [][]Fact
	for _, x := range s.Job.Status.ExcludedNodes {
		each = append(each, s.tellExclusion(&x))
	}
	return s.first(each, "status.excludedNodes", "Nodes that the job keeps away from beside these: %d.")
}

func (s *Snapshot) tellExclusion(x *v1alpha1.ExcludedNode) []Fact {
	return told("status.excludedNodes", "The job keeps away from node %s until %s, because of incident %d.", x.Name, s.until(x.Until.Time), x.Incident)
}
