// Collectives: what NCCL and the GPUs say of a gang. The use of processors shows less: a rank that waits in a collective of NCCL uses one, too.

package gang

import (
	"time"

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
	c.spin = g.counting(s).spin
	return c.does
}

// does is what the processes of a pod do. Those whose GPUs spin wait. Where the others wait for some in a collective, they wait, or are waited for. Ranks that have launched as
// many may all compute.
func (c calls) does(p *Pod) Activity {
	does := p.Process.Activity
	if does == ActivityBusy && c.spin(p) {
		does = ActivitySpinning
	}
	switch {
	case len(c.behind) == 0 || (does != ActivityBusy && does != ActivityIdle && does != ActivitySpinning) || (c.phased != nil && !c.phased[p]):
		return does
	case c.behind[p]:
		return ActivityBehind
	case does == ActivityBusy:
		return ActivityIdle
	}
	return does
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

// wordsLate is how late words of steps may be, and how far clocks of nodes may differ: less than the minute after which GPUs are said to spin.
const wordsLate = 30 * time.Second

// counting is what the ranks of a gang say of their steps.
type counting struct {
	now time.Time
	// overdue is the longest time after which a step of one is.
	overdue time.Duration
	// moved is when the last word of a step came, by the clocks of nodes. It is not known, as of supervisors of another version, where it is not dated.
	moved time.Time
	dated bool
	// phased are the pods that say their phases.
	phased map[*Pod]bool
	// alone reports whether the gang has one GPU, which waits for no other.
	alone bool
}

// counting returns what the ranks say of their steps.
func (g *Gang) counting(s *v1alpha1.TrainingJobStatus) counting {
	c, devices := counting{now: g.Now, dated: true, phased: map[*Pod]bool{}}, int64(0)
	EachRank(g.Effective, func(r Rank) {
		if !g.IsSupervised(r.Task) {
			return
		}
		for _, name := range g.HoldLimits.Resources {
			count := g.Requests[r.Task][name]
			devices += count.Value()
		}
		if p := g.Pod(r); p != nil && p.Training != nil && p.Training.Epoch == s.Epoch {
			c.overdue, c.moved = max(c.overdue, p.Training.Overdue), instant.Latest(c.moved, p.Training.SaidTime)
			c.dated = c.dated && (!p.Training.SaidTime.IsZero() || p.Training.Step == nil)
			c.phased[p] = p.Training.Phases
		}
	})
	c.alone = devices == 1
	return c
}

// spin reports whether the GPUs of a pod have executed kernels and moved no data for half the time within which a step is overdue. One that computes, or evaluates, on
// its GPUs moves data. What spun before the last step says nothing, or is stale.
func (c counting) spin(p *Pod) bool {
	return !c.alone && c.dated && !p.SpinsSince.IsZero() && p.SpinsSince.After(c.moved.Add(-wordsLate)) && !p.SpinsSince.Add(c.overdue/2).After(c.now)
}

// standStill returns what the processes of a pod do where collectives have stood still for as long as it takes until they are a witness of a hang: for half the time within
// which a step is overdue. They are none for a rank that does not say its phases: it may evaluate, or write, while the others wait for it.
func (g *Gang) standStill(s *v1alpha1.TrainingJobStatus) func(*Pod) Activity {
	c, counting := g.collectives(s), g.counting(s)
	if c.since.Add(counting.overdue / 2).After(g.Now) {
		c = calls{}
	}
	c.phased, c.spin = counting.phased, counting.spin
	return c.does
}
