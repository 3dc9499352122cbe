// Stalled: programs that run and make no steps any more. They are said, with the rank that differs from the others, and nothing is done for them: one
// witness may be wrong.

package policies

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/incident"
	"github.com/lockstep-dev/lockstep/policies/instant"
)

// maxRanksTold is how many ranks a message names.
const maxRanksTold = 4

// describeStalled says that a gang has stalled. A job that never has has no such condition.
func (j job) describeStalled(s *v1alpha1.TrainingJobStatus) {
	switch due, story := j.stall(s); {
	case !due.IsZero() && !due.After(j.Now):
		j.SetCondition(s, v1alpha1.ConditionStalled, true, v1alpha1.ReasonNoSteps, story+j.differing(s))
	case meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionStalled) != nil:
		j.SetCondition(s, v1alpha1.ConditionStalled, false, v1alpha1.ReasonNotStalled, "training steps come, or the gang does not run")
	}
}

// nextStall is when the next step will be overdue.
func (j job) nextStall(s *v1alpha1.TrainingJobStatus) time.Time {
	if due, _ := j.stall(s); due.After(j.Now) {
		return due
	}
	return time.Time{}
}

// stall is when the next step of a gang is overdue, and what to say of that; zero where none is expected. The clock of all stops while one evaluates, saves a
// checkpoint, or has ended; while one that counts steps is not heard; and while the gang does not run, and begins anew after that.
func (j job) stall(s *v1alpha1.TrainingJobStatus) (due time.Time, story string) {
	running := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionRunning)
	if j.Job.Spec.Supervisor == nil || j.stopped(s) || incident.AnyOpen(s) || !gang.IsTrue(s, v1alpha1.ConditionRunning) {
		return time.Time{}, ""
	}
	since, trains := running.LastTransitionTime.Time, true
	var limit time.Duration
	var step int64
	gang.EachRank(j.Effective, func(r gang.Rank) {
		p := j.Pod(r)
		if p == nil || !j.IsSupervised(r.Task) || gang.IsStale(s, p) {
			return
		}
		said := p.Training
		counts := said != nil && said.Step != nil && said.Epoch == s.Epoch
		switch {
		case p.Process == nil:
			trains = trains && !counts
			return
		case p.Process.State != gang.ProcessRunning || (said != nil && said.Phase != "" && said.Phase != v1alpha1.PhaseTrain):
			trains = false
		case counts:
			since, step = instant.Latest(since, said.MovedTime, p.Process.HeardSince), max(step, *said.Step)
			if limit == 0 || (said.Overdue > 0 && said.Overdue < limit) {
				limit = said.Overdue
			}
		}
	})
	if !trains || limit == 0 {
		return time.Time{}, ""
	}
	return since.Add(limit), fmt.Sprintf("no training step for %s after step %d, which no step of this epoch took", limit.Round(time.Second), step)
}

// activityStories are what is said of ranks that do something else than the others.
var activityStories = map[gang.Activity]string{
	gang.ActivityBusy:    "the only rank that uses a processor",
	gang.ActivityIdle:    "the only rank that waits and uses no processor",
	gang.ActivityBlocked: "in the kernel, as for a file system or a device that does not answer",
	gang.ActivityStopped: "stopped, by a signal or a debugger",
}

// differing names the ranks whose processes are stopped or blocked, or else the only one that does something else than all others; empty where there is
// none.
func (j job) differing(s *v1alpha1.TrainingJobStatus) string {
	ranks := map[gang.Activity][]string{}
	heard := 0
	gang.EachRank(j.Effective, func(r gang.Rank) {
		if p := j.Pod(r); p != nil && p.Process != nil && j.IsSupervised(r.Task) && !gang.IsStale(s, p) {
			ranks[p.Process.Activity] = append(ranks[p.Process.Activity], p.Name)
			heard++
		}
	})
	for _, a := range []gang.Activity{gang.ActivityStopped, gang.ActivityBlocked, gang.ActivityIdle, gang.ActivityBusy} {
		alone := len(ranks[a]) == 1 && heard > 2 && len(ranks) == 2
		switch n := len(ranks[a]); {
		case a != gang.ActivityStopped && a != gang.ActivityBlocked && !alone, n == 0:
		case n == heard && n > 1:
			return "; every rank: " + activityStories[a]
		case n > maxRanksTold:
			return fmt.Sprintf("; %s and %d more: %s", strings.Join(ranks[a][:maxRanksTold], ", "), n-maxRanksTold, activityStories[a])
		default:
			return fmt.Sprintf("; %s: %s", strings.Join(ranks[a], ", "), activityStories[a])
		}
	}
	return "; no rank's processes differ from those of the others"
}
