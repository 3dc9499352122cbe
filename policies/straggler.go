// Stragglers: ranks that the others of their task wait for in each step.

package policies

import (
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
	// stragglerPeriod is how often the ranks of a gang are compared, and how long after a step that was heard of. A straggler is one by two looks, which share no time.
	stragglerPeriod = time.Minute
	// stragglerStays is how long a straggler is said at least: a status that changes is a write.
	stragglerStays = 10 * time.Minute
	// fewestCompared is how many ranks of a task are compared at least, and stragglersOf which part of them, one at least, may be stragglers: where more
	// are, the work is not shared evenly.
	fewestCompared = 3
	stragglersOf   = 8
)

// gap is between a rank and half of its task: it waits for so many percentage points less of its time, and for such a percentage of theirs at most.
type gap struct{ points, percent int32 }

// A straggler begins with a wide gap, and is one while there is a narrow one. Ranks whose steps differ by a tenth at random wait alike in the long run.
var (
	wide   = gap{20, 50}
	narrow = gap{10, 75}
)

// describeStraggler says which ranks the others wait for: it is unknown from the first look that finds one to the second. While nothing is known of the ranks it stays as it
// is. A job of which none was ever found has no such condition.
func (j job) describeStraggler(s *v1alpha1.TrainingJobStatus) {
	c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionStraggler)
	if c == nil {
		c = &metav1.Condition{Status: metav1.ConditionFalse}
	}
	known := j.comparable(s)
	none := func() {
		j.SetCondition(s, v1alpha1.ConditionStraggler, false, v1alpha1.ReasonNoStraggler, "no ranks are known that the others wait for")
	}
	lasts := func(d time.Duration) bool { return !c.LastTransitionTime.Add(d).After(j.Now) }
	switch told := known.story(); {
	case c.Status != metav1.ConditionFalse && !j.trains(s):
		none()
	case len(known) == 0:
	case c.Status == metav1.ConditionFalse && told != "":
		meta.SetStatusCondition(&s.Conditions, metav1.Condition{
			Type: v1alpha1.ConditionStraggler, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonOthersMayWait, Message: told,
			ObservedGeneration: j.Job.Generation, LastTransitionTime: metav1.NewTime(j.Now),
		})
	case c.Status == metav1.ConditionUnknown && lasts(stragglerPeriod) && told != "" && j.stays(known, c.Message, wide):
		j.SetCondition(s, v1alpha1.ConditionStraggler, true, v1alpha1.ReasonOthersWait, told)
	case c.Status == metav1.ConditionUnknown && lasts(stragglerPeriod), c.Status == metav1.ConditionTrue && lasts(stragglerStays) && !j.stays(known, c.Message, narrow):
		none()
	}
}

// nextStraggler is when the ranks are compared next; zero where nothing is known of them.
func (j job) nextStraggler(s *v1alpha1.TrainingJobStatus) time.Time {
	if len(j.comparable(s)) == 0 {
		return time.Time{}
	}
	return j.Now.Add(stragglerPeriod)
}

// stays reports whether a rank that a message names still waits less than half of its task by a gap, or it is not known how long that waits.
func (j job) stays(known comparison, told string, by gap) bool {
	stays := false
	gang.EachRank(j.Effective, func(r gang.Rank) {
		p := j.Pod(r)
		if p == nil || !strings.Contains(told, placeOf(p)+",") {
			return
		}
		pods, is := known[r.Task]
		stays = stays || !is || by.isTo(p, usual(pods))
	})
	return stays
}

func placeOf(p *gang.Pod) string { return p.Name + " on " + p.Node }

// comparison is the pods of each task whose ranks say for how long they wait, by that.
type comparison map[string][]*gang.Pod

// usual is the percentage of their time for which half of some ranks wait, which are in order.
func usual(pods []*gang.Pod) int32 { return *pods[len(pods)/2].Process.Waits }

// isTo reports whether there is such a gap between a rank and what is usual.
func (g gap) isTo(p *gang.Pod, usual int32) bool {
	waits := *p.Process.Waits
	return waits+g.points <= usual && 100*waits <= g.percent*usual
}

// story tells of the ranks that the others of their tasks wait for; empty for none.
func (c comparison) story() string {
	var found []string
	for _, pods := range c {
		of := len(found)
		for _, p := range pods {
			if wide.isTo(p, usual(pods)) {
				found = append(found, fmt.Sprintf("%s, which waits for %d%% of its time and half of its task for %d%%", placeOf(p), *p.Process.Waits, usual(pods)))
			}
		}
		if len(found)-of > max(1, len(pods)/stragglersOf) {
			found = found[:of]
		}
	}
	if len(found) == 0 {
		return ""
	}
	slices.Sort(found)
	if n := len(found) - maxRanksTold; n > 0 {
		found = append(found[:maxRanksTold], fmt.Sprintf("and %d more", n))
	}
	return "the others may wait for " + strings.Join(found, "; ")
}

// comparable are the tasks whose ranks all train and say for how long they wait. None is while no step is heard of.
func (j job) comparable(s *v1alpha1.TrainingJobStatus) comparison {
	out, unknown, stepped := comparison{}, map[string]bool{}, false
	if !j.trains(s) || gang.IsTrue(s, v1alpha1.ConditionStalled) {
		return out
	}
	gang.EachRank(j.Effective, func(r gang.Rank) {
		p := j.Pod(r)
		if !runsNow(s, p) {
			unknown[r.Task] = true
			return
		}
		steps, pauses := j.stepsOf(s, p)
		stepped = stepped || steps
		unknown[r.Task] = unknown[r.Task] || p.Process.Waits == nil || pauses
		out[r.Task] = append(out[r.Task], p)
	})
	for task, pods := range out {
		if unknown[task] || !stepped || len(pods) < fewestCompared || !j.IsSupervised(task) {
			delete(out, task)
			continue
		}
		slices.SortStableFunc(pods, func(a, b *gang.Pod) int { return int(*a.Process.Waits - *b.Process.Waits) })
	}
	return out
}

// runsNow reports whether the program of a pod is heard to run in the epoch of its gang.
func runsNow(s *v1alpha1.TrainingJobStatus, p *gang.Pod) bool {
	return p != nil && !gang.IsStale(s, p) && p.Process != nil && p.Process.State == gang.ProcessRunning && p.Process.Epoch == s.Epoch
}

// stepsOf reports whether a rank was heard to make a step a moment ago, and whether it is in another phase than training.
func (j job) stepsOf(s *v1alpha1.TrainingJobStatus, p *gang.Pod) (steps, pauses bool) {
	said := p.Training
	if said == nil || said.Epoch != s.Epoch {
		return false, false
	}
	recent := said.MovedTime.After(p.Process.HeardSince) && said.MovedTime.Add(stragglerPeriod).After(j.Now)
	return said.Step != nil && recent, said.Phase != "" && said.Phase != v1alpha1.PhaseTrain
}
