// Collectives: what NCCL and the GPUs say of a gang. The use of processors shows less: a rank that waits in a collective of NCCL uses one, too.

package gang

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/instant"
)

// calls are the collectives of a gang that stand still: since when that is said, and the pods that are behind. Without such pods nothing is known.
type calls struct {
	since  time.Time
	behind map[*Pod]bool
	// phased are the pods that say their phases; nil where that does not matter.
	phased map[*Pod]bool
	// spin reports whether the GPUs of a pod execute kernels and move no data.
	spin func(*Pod) bool
}

// Activities returns what the processes of a pod do, by what they use, by the gang's collectives, and by its GPUs.
func (g *Gang) Activities(s *v1alpha1.TrainingJobStatus) func(*Pod) Activity {
	c := g.collectives(s)
	c.spin = func(p *Pod) bool { return g.Spins(s, p) }
	return c.does
}

// AllSpin reports whether the GPUs of all ranks execute kernels and move no data.
func (g *Gang) AllSpin(s *v1alpha1.TrainingJobStatus) bool {
	pods, all := g.heardRanks(s)
	return all && !slices.ContainsFunc(pods, func(p *Pod) bool { return !g.Spins(s, p) })
}

// Spins reports whether the GPUs of a pod execute kernels and move no data, and began to since the gang runs. One that computes, or evaluates, on its GPUs moves data.
func (g *Gang) Spins(s *v1alpha1.TrainingJobStatus, p *Pod) bool {
	running := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionRunning)
	return IsTrue(s, v1alpha1.ConditionRunning) && !p.SpinsSince.Before(running.LastTransitionTime.Time)
}

// does is what the processes of a pod do. One whose GPUs spin waits. Where the others wait for some in a collective, they wait, or are waited for. Ranks that have launched as
// many may all compute.
func (c calls) does(p *Pod) Activity {
	does := p.Process.Activity
	if does == ActivityBusy && c.spin(p) {
		does = ActivityIdle
	}
	switch {
	case len(c.behind) == 0 || (does != ActivityBusy && does != ActivityIdle) || (c.phased != nil && !c.phased[p]):
		return does
	case c.behind[p]:
		return ActivityBehind
	}
	return ActivityIdle
}

// collectives returns what all reporting ranks agree on: that collectives stand still, since when, and which pods are behind. It returns nothing where the collectives do
// not connect all ranks, each at an address of its own: a rank beside them may compute.
func (g *Gang) collectives(s *v1alpha1.TrainingJobStatus) (c calls) {
	pods, all := g.heardRanks(s)
	if !all {
		return calls{}
	}
	at := byAddress(pods)
	c.behind = map[*Pod]bool{}
	for _, p := range pods {
		said := p.Process.Collectives
		if said == nil {
			continue
		}
		if said.StillSince.IsZero() || said.Hosts != len(pods) {
			return calls{}
		}
		c.since = instant.Latest(c.since, said.StillSince, p.Process.HeardSince)
		for _, address := range said.Behind {
			if behind := at[address]; behind != nil {
				c.behind[behind] = true
			}
		}
	}
	return c
}

// heardRanks are the pods of the ranks that are heard in the epoch of their gang, and all reports whether these are all supervised ranks.
func (g *Gang) heardRanks(s *v1alpha1.TrainingJobStatus) (pods []*Pod, all bool) {
	all = true
	EachRank(g.Effective, func(r Rank) {
		if p := g.Pod(r); p != nil && p.Process != nil && !IsStale(s, p) && p.Process.Epoch == s.Epoch {
			pods = append(pods, p)
		} else if g.IsSupervised(r.Task) && !g.IsNew(s, r, p) {
			all = false
		}
	})
	return pods, all
}

// byAddress are pods by their addresses, without those that several have, as that of a bridge which every machine has.
func byAddress(pods []*Pod) map[string]*Pod {
	at := map[string]*Pod{}
	for _, p := range pods {
		for _, address := range p.Process.Addresses {
			if _, another := at[address]; another {
				at[address] = nil
			} else {
				at[address] = p
			}
		}
	}
	return at
}

// standStill returns what the processes of a pod do where collectives have stood still, and GPUs spun, for as long as it takes until they are a witness of a hang: for half
// the time within which a step is overdue. Collectives are none for a rank that does not say its phases: it may evaluate, or write, while the others wait for it.
func (g *Gang) standStill(s *v1alpha1.TrainingJobStatus) func(*Pod) Activity {
	c := g.collectives(s)
	phased, overdue, moved := map[*Pod]bool{}, time.Duration(0), time.Time{}
	EachRank(g.Effective, func(r Rank) {
		if p := g.Pod(r); p != nil && p.Training != nil && p.Training.Epoch == s.Epoch {
			overdue = max(overdue, p.Training.Overdue)
			phased[p], moved = p.Training.Phases, instant.Latest(moved, p.Training.MovedTime)
		}
	})
	if c.since.Add(overdue / 2).After(g.Now) {
		c = calls{}
	}
	c.phased = phased
	// What spun while steps came says nothing, or is stale. Words of steps, and clocks, may be late.
	c.spin = func(p *Pod) bool {
		return g.Spins(s, p) && !p.SpinsSince.Before(moved.Add(-overdue/2)) && !p.SpinsSince.Add(overdue/2).After(g.Now)
	}
	return c.does
}
