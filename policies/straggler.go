// Stragglers: ranks that the others of their task wait for in each step.

package policies

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

const (
	// stragglerPeriod is how often the ranks of a gang are compared.
	stragglerPeriod = time.Minute
	// stragglerStays is how long stragglers are said at least: a status that changes is a write.
	stragglerStays = 10 * time.Minute
	// longestCompared is how long the steps of ranks that are compared are at most: half of a minute in which they wait for each other.
	longestCompared = 30 * time.Second
	// fewestCompared is how many ranks of a task are compared at least, and stragglersOf which part of them, one at least, may be stragglers: where more
	// are, the work is not shared evenly.
	fewestCompared = 3
	stragglersOf   = 8
)

// gap is between what a rank waits at most and what half of its task does at least, in four of five minutes: so many percentage points, and such a percentage of theirs.
type gap struct{ points, percent int32 }

// A straggler begins with a wide gap, and is one while there is a narrow one. Ranks whose steps differ by a tenth at random wait alike in the long run.
var (
	wide   = gap{20, 50}
	narrow = gap{10, 75}
)

// describeStraggler says which ranks the others wait for. What is not known changes nothing, until the gang begins another epoch or ends. A job that never had one has no such
// condition.
func (j job) describeStraggler(s *v1alpha1.TrainingJobStatus) {
	c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionStraggler)
	is := c != nil && c.Status == metav1.ConditionTrue
	known := j.comparable(s)
	found := known.stragglers()
	switch {
	case is && (j.stopped(s) || s.Epoch != j.Job.Status.Epoch), is && len(known) > 0 && j.hasBeen(c, stragglerStays) && j.differ(known, found, c.Message):
		j.SetCondition(s, v1alpha1.ConditionStraggler, false, v1alpha1.ReasonNoStraggler, "no ranks are known that the others wait for")
	case !is && len(found) > 0:
		j.SetCondition(s, v1alpha1.ConditionStraggler, true, v1alpha1.ReasonOthersWait, storyOf(found))
	}
}

// hasBeen reports whether a condition has been as it is for some time. Clocks step back.
func (j job) hasBeen(c *metav1.Condition, d time.Duration) bool {
	return c.LastTransitionTime.After(j.Now) || !c.LastTransitionTime.Add(d).After(j.Now)
}

// nextStraggler is when the ranks are compared next; zero where none says for how long it waits.
func (j job) nextStraggler(s *v1alpha1.TrainingJobStatus) time.Time {
	said := false
	gang.EachRank(j.Effective, func(r gang.Rank) {
		p := j.Pod(r)
		said = said || (p != nil && runsNow(s, p) && p.Process.Waits != nil)
	})
	if !said || j.stopped(s) {
		return time.Time{}
	}
	return j.Now.Add(stragglerPeriod)
}

// differ reports whether stragglers that a message names are none any more, or there are others.
func (j job) differ(known comparison, found []straggler, told string) bool {
	names := func(p *gang.Pod) bool { return strings.Contains(told, placeOf(p)+",") }
	if slices.ContainsFunc(found, func(f straggler) bool { return !names(f.Pod) }) && !strings.Contains(told, "; and ") {
		return true
	}
	stays := false
	gang.EachRank(j.Effective, func(r gang.Rank) {
		if p := j.Pod(r); p != nil && names(p) {
			of, is := known[r.Task]
			stays = stays || !is || narrow.isBetween(p, of)
		}
	})
	return !stays
}

func placeOf(p *gang.Pod) string { return p.Name + " on " + p.Node }

// compared are the pods of a task whose ranks all say for how long they wait, and for how long half of them do at least, in percent.
type compared struct {
	pods  []*gang.Pod
	usual int32
}

// comparison is the tasks that can be compared.
type comparison map[string]*compared

// isBetween reports whether there is such a gap between a rank and the others.
func (g gap) isBetween(p *gang.Pod, of *compared) bool {
	most := p.Process.Waits.Most
	return most+g.points <= of.usual && 100*most <= g.percent*of.usual
}

// straggler is a pod that the others of its task wait for, and what is said of it.
type straggler struct {
	*gang.Pod
	story string
}

// stragglers are those of all tasks, by name.
func (c comparison) stragglers() (found []straggler) {
	for _, of := range c {
		var ones []straggler
		for _, p := range of.pods {
			if wide.isBetween(p, of) {
				ones = append(ones, straggler{p, fmt.Sprintf("%s, which waits for %d%% of its time and half of its task for %d%%", placeOf(p), p.Process.Waits.Most, of.usual)})
			}
		}
		if len(ones) <= max(1, len(of.pods)/stragglersOf) {
			found = append(found, ones...)
		}
	}
	slices.SortFunc(found, func(a, b straggler) int { return cmp.Compare(a.Name, b.Name) })
	return found
}

// storyOf tells of stragglers.
func storyOf(found []straggler) string {
	var told []string
	for _, f := range found[:min(len(found), maxRanksTold)] {
		told = append(told, f.story)
	}
	if n := len(found) - len(told); n > 0 {
		told = append(told, fmt.Sprintf("and %d more", n))
	}
	return "the others may wait for " + strings.Join(told, "; ")
}

// comparable are the tasks whose ranks all run and say for how long they wait; none where a rank that says steps does not, for it has only begun to train, or evaluates, and none where
// steps take long.
func (j job) comparable(s *v1alpha1.TrainingJobStatus) comparison {
	out, unknown, steps := comparison{}, map[string]bool{}, false
	if !j.trains(s) {
		return nil
	}
	gang.EachRank(j.Effective, func(r gang.Rank) {
		p := j.Pod(r)
		if p == nil || !runsNow(s, p) || p.Process.Waits == nil {
			unknown[r.Task] = true
			unknown[""] = unknown[""] || (p != nil && saysSteps(s, p))
			return
		}
		if saysSteps(s, p) {
			steps, unknown[""] = true, unknown[""] || p.Training.StepTime > longestCompared
		}
		if out[r.Task] == nil {
			out[r.Task] = &compared{}
		}
		out[r.Task].pods = append(out[r.Task].pods, p)
	})
	if unknown[""] || !steps {
		return nil
	}
	maps.DeleteFunc(out, func(task string, of *compared) bool {
		of.usual = usual(of.pods)
		return unknown[task] || len(of.pods) < fewestCompared || !j.IsSupervised(task)
	})
	return out
}

// usual is what half of some ranks wait at least.
func usual(pods []*gang.Pod) int32 {
	all := make([]int32, 0, len(pods))
	for _, p := range pods {
		all = append(all, p.Process.Waits.Least)
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// runsNow reports whether the program of a pod is heard to run in the epoch of its gang.
func runsNow(s *v1alpha1.TrainingJobStatus, p *gang.Pod) bool {
	return !gang.IsStale(s, p) && p.Process != nil && p.Process.State == gang.ProcessRunning && p.Process.Epoch == s.Epoch
}

// saysSteps reports whether the program of a pod has said steps in the epoch of its gang.
func saysSteps(s *v1alpha1.TrainingJobStatus, p *gang.Pod) bool {
	return p.Training != nil && p.Training.Epoch == s.Epoch && p.Training.Step != nil
}
