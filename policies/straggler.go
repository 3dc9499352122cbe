// Stragglers: ranks that the others that do the same work wait for in each step.

package policies

import (
	"cmp"
	"fmt"
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
	// fewestCompared is how many ranks are compared with each other at least, and stragglersOf which part of them, one at least, may be stragglers: where more
	// are, the work is not shared evenly.
	fewestCompared = 3
	stragglersOf   = 8
	// maxStragglerNodes is how many nodes of stragglers are remembered: the API's limit.
	maxStragglerNodes = 8
)

// gap is between what a rank waits at most and what half of its peers do at least, in four of five minutes: so many percentage points, and such a percentage of theirs.
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
	known := j.compare(s)
	found := known.stragglers()
	switch {
	case is && (j.stopped(s) || s.Epoch != j.Job.Status.Epoch), is && j.hasBeen(c, stragglerStays) && j.differ(known, found, c.Message):
		j.SetCondition(s, v1alpha1.ConditionStraggler, false, v1alpha1.ReasonNoStraggler, "no ranks are known that the others wait for")
	case !is && len(found) > 0:
		j.SetCondition(s, v1alpha1.ConditionStraggler, true, v1alpha1.ReasonOthersWait, storyOf(found))
		s.StragglerNodes = withNodesOf(found, s.StragglerNodes)
	}
}

// withNodesOf puts the nodes of stragglers before those of earlier ones.
func withNodesOf(found []straggler, earlier []string) []string {
	var nodes []string
	for _, f := range found {
		nodes = append(nodes, f.Node)
	}
	var out []string
	for _, node := range slices.Concat(nodes, earlier) {
		if len(out) < maxStragglerNodes && !slices.Contains(out, node) {
			out = append(out, node)
		}
	}
	return out
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
			of := known[j.sharing(r.Task)]
			stays = stays || of != nil && (of.are == unknown || of.are == similar && narrow.isBetween(p, of))
		}
	})
	return !stays
}

func placeOf(p *gang.Pod) string { return p.Name + " on " + p.Node }

// verdict is whether ranks can be compared: the later, the more it counts beside those of others.
type verdict int

const (
	similar   verdict = iota
	unknown           // so far, or for now
	different         // by what they do
)

// compared are the pods that do the same work, and for how long half of them wait at least, in percent, where they are similar.
type compared struct {
	are   verdict
	pods  []*gang.Pod
	usual int32
}

// comparison is the tasks of a gang; PyTorch's is one.
type comparison map[string]*compared

// isBetween reports whether there is such a gap between a rank and the others.
func (g gap) isBetween(p *gang.Pod, of *compared) bool {
	most := p.Process.Waits.Most
	return most+g.points <= of.usual && 100*most <= g.percent*of.usual
}

// straggler is a pod that those which do the same work wait for, and what is said of it.
type straggler struct {
	*gang.Pod
	story string
}

// stragglers are those of all tasks, by name.
func (c comparison) stragglers() (found []straggler) {
	for _, of := range c {
		var ones []*gang.Pod
		for _, p := range of.pods {
			if of.are == similar && wide.isBetween(p, of) {
				ones = append(ones, p)
			}
		}
		if !areFew(ones, of.pods) {
			continue
		}
		for _, p := range ones {
			found = append(found, straggler{p, fmt.Sprintf("%s, which waits for %d%% of its time and half of its peers for %d%%", placeOf(p), p.Process.Waits.Most, of.usual)})
		}
	}
	slices.SortFunc(found, func(a, b straggler) int { return cmp.Compare(a.Name, b.Name) })
	return found
}

// areFew reports whether so few of some pods are stragglers that the work may be shared evenly: one, one in stragglersOf, or those of one node.
func areFew(ones, of []*gang.Pod) bool {
	nodes := func(pods []*gang.Pod) int {
		all := map[string]bool{}
		for _, p := range pods {
			all[p.Node] = true
		}
		return len(all)
	}
	return len(ones) <= max(1, len(of)/stragglersOf) || nodes(ones) == 1 && nodes(of) >= fewestCompared
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

// compare finds the tasks whose ranks all train and say for how long they wait; nil without supervisors. Those that say steps decide for all.
func (j job) compare(s *v1alpha1.TrainingJobStatus) comparison {
	if j.Job.Spec.Supervisor == nil {
		return nil
	}
	out, steps, all := comparison{}, false, similar
	gang.EachRank(j.Effective, func(r gang.Rank) {
		task := j.sharing(r.Task)
		of := out[task]
		if of == nil {
			of = &compared{}
			out[task] = of
		}
		p := j.Pod(r)
		is := judge(s, p)
		if of.are = max(of.are, is); is == similar {
			of.pods = append(of.pods, p)
		}
		if p != nil && saysSteps(s, p) {
			steps, all = true, max(all, is)
		}
	})
	if !steps || !j.trains(s) {
		all = max(all, unknown)
	}
	for task, of := range out {
		if of.are = max(of.are, all); len(of.pods) < fewestCompared && of.are == similar || !j.IsSupervised(task) {
			of.are = different
		}
		if of.are == similar {
			of.usual = usual(of.pods)
		}
	}
	return out
}

// sharing names the task whose ranks do the same work as those of a task: PyTorch's master trains as its workers do.
func (j job) sharing(task string) string {
	if f := j.Job.Spec.Framework; f != nil && f.PyTorch != nil && task == f.PyTorch.Master && j.IsSupervised(task) {
		return f.PyTorch.Worker
	}
	return task
}

// judge returns whether a rank, of which there may be no pod, can be compared with others.
func judge(s *v1alpha1.TrainingJobStatus, p *gang.Pod) verdict {
	switch {
	case p == nil || p.Process == nil || gang.IsStale(s, p):
		return unknown
	case p.Process.State == gang.ProcessSucceeded, p.Process.State == gang.ProcessFailed, saysSteps(s, p) && p.Training.StepTime > longestCompared:
		return different
	case !runsNow(s, p) || p.Process.Waits == nil, saysSteps(s, p) && p.Training.StepTime == 0:
		return unknown
	}
	return similar
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
