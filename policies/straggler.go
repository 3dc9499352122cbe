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
	"github.com/lockstep-dev/lockstep/policies/instant"
)

const (
	// stragglerPeriod is how often the ranks of a gang are compared, and how long after a step that was heard of.
	stragglerPeriod = time.Minute
	// stragglerStays is how long a straggler is said at least: a status that changes is a write.
	stragglerStays = 10 * time.Minute
	// lessWait is how much less of its time than half of its task a straggler waits, in percent, and half of theirs at most. Ranks whose steps differ by a tenth at random wait
	// alike in the long run.
	lessWait = 20
	// fewestCompared is how many ranks of a task are compared at least, and stragglersOf which part of them, one at least, may be stragglers: where more
	// are, the work is not shared evenly.
	fewestCompared = 3
	stragglersOf   = 8
)

// describeStraggler says which ranks the others wait for. It is said for a while, whatever follows. A job that never had one has no such condition.
func (j job) describeStraggler(s *v1alpha1.TrainingJobStatus) {
	c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionStraggler)
	is := c != nil && c.Status == metav1.ConditionTrue
	switch told := j.stragglers(s); {
	case !is && told != "":
		j.SetCondition(s, v1alpha1.ConditionStraggler, true, v1alpha1.ReasonOthersWait, told)
	case is && !j.trains(s), is && namesOf(told) != namesOf(c.Message) && !c.LastTransitionTime.Add(stragglerStays).After(j.Now):
		j.SetCondition(s, v1alpha1.ConditionStraggler, false, v1alpha1.ReasonNoStraggler, "no ranks are known that the others wait for")
	}
}

// namesOf is the part of a message that names ranks.
func namesOf(told string) string {
	names, _, _ := strings.Cut(told, ";")
	return names
}

// nextStraggler is when the ranks are compared next; zero where nothing is known of them.
func (j job) nextStraggler(s *v1alpha1.TrainingJobStatus) time.Time {
	known := false
	gang.EachRank(j.Effective, func(r gang.Rank) {
		p := j.Pod(r)
		known = known || (p != nil && p.Process != nil && p.Process.Waits != nil)
	})
	if !known || !j.trains(s) || !j.makesSteps(s) {
		return time.Time{}
	}
	return j.Now.Add(stragglerPeriod)
}

// makesSteps reports whether a rank has made a step a moment ago.
func (j job) makesSteps(s *v1alpha1.TrainingJobStatus) bool {
	var moved time.Time
	gang.EachRank(j.Effective, func(r gang.Rank) {
		if p := j.Pod(r); p != nil && !gang.IsStale(s, p) && p.Training != nil && p.Training.Epoch == s.Epoch && p.Training.Step != nil {
			moved = instant.Latest(moved, p.Training.MovedTime)
		}
	})
	return moved.Add(stragglerPeriod).After(j.Now)
}

// stragglers tells of the ranks that the others of their task wait for; empty for none.
func (j job) stragglers(s *v1alpha1.TrainingJobStatus) string {
	if !j.trains(s) || gang.IsTrue(s, v1alpha1.ConditionStalled) || !j.makesSteps(s) {
		return ""
	}
	for _, pods := range j.comparable(s) {
		usual := *pods[len(pods)/2].Process.Waits
		var found []string
		for _, p := range pods {
			if waits := *p.Process.Waits; waits+lessWait <= usual && 2*waits <= usual {
				found = append(found, p.Name+" on "+p.Node)
			}
		}
		if len(found) == 0 || len(found) > max(1, len(pods)/stragglersOf) {
			continue
		}
		slices.Sort(found)
		return fmt.Sprintf("the other ranks of the task wait for %s; half of all wait for %d%% of the time, and a straggler for %d%%",
			strings.Join(cutTo(found, maxRanksTold), ", "), usual, *pods[0].Process.Waits)
	}
	return ""
}

// cutTo are the first of some names, and how many more there are.
func cutTo(names []string, most int) []string {
	if len(names) <= most {
		return names
	}
	return append(slices.Clone(names[:most]), fmt.Sprintf("and %d more", len(names)-most))
}

// comparable are the pods of each task whose ranks all train and say how long they wait, by that.
func (j job) comparable(s *v1alpha1.TrainingJobStatus) (tasks [][]*gang.Pod) {
	for i := range j.Effective.Spec.Tasks {
		task, known := j.Effective.Spec.Tasks[i].Name, true
		var pods []*gang.Pod
		gang.EachRank(j.Effective, func(r gang.Rank) {
			if r.Task != task {
				return
			}
			p := j.Pod(r)
			known = known && p != nil && !gang.IsStale(s, p) && p.Process != nil && p.Process.State == gang.ProcessRunning &&
				p.Process.Epoch == s.Epoch && p.Process.Waits != nil && trainsNow(p)
			pods = append(pods, p)
		})
		if known && len(pods) >= fewestCompared && j.IsSupervised(task) {
			slices.SortFunc(pods, func(a, b *gang.Pod) int { return int(*a.Process.Waits - *b.Process.Waits) })
			tasks = append(tasks, pods)
		}
	}
	return tasks
}

// trainsNow reports whether a program may make training steps.
func trainsNow(p *gang.Pod) bool {
	return p.Training == nil || p.Training.Phase == "" || p.Training.Phase == v1alpha1.PhaseTrain
}
