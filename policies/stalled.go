// Stalled: programs that run and make no steps any more. They are said, with the rank that differs from the others. That is one witness, which may be
// wrong: what is done for it, and by which others, is in gang.HangsBy.

package policies

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/instant"
)

// stallPeriod is how often a gang that hangs under a rule is looked at.
const stallPeriod = 10 * time.Second

// maxRanksTold is how many ranks a message names.
const maxRanksTold = 4

// describeStalled says that a gang has stalled. A job that never stalled has no such condition. The message of a stall stays as long as the stall, until NCCL or the GPUs show more, and a
// stall lasts while nothing is known, as where a stream is down or the manager has just started.
func (j job) describeStalled(s *v1alpha1.TrainingJobStatus) {
	c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionStalled)
	due, step := j.stepDue(s)
	switch {
	case c != nil && c.Status == metav1.ConditionTrue && j.standsStill(s, c.LastTransitionTime.Time):
		if told := j.differing(s); witness(told) > witness(c.Message) {
			since, _, _ := strings.Cut(c.Message, ";")
			j.SetCondition(s, v1alpha1.ConditionStalled, true, v1alpha1.ReasonNoSteps, since+told)
		}
	case !due.IsZero() && !due.After(j.Now):
		j.SetCondition(s, v1alpha1.ConditionStalled, true, v1alpha1.ReasonNoSteps, fmt.Sprintf("a training step is overdue, by the steps before it, since step %d%s", step, j.differing(s)))
	case c != nil:
		j.SetCondition(s, v1alpha1.ConditionStalled, false, v1alpha1.ReasonNotStalled, "training steps come, or the gang does not run")
	}
}

// standsStill reports whether a gang that has stalled runs on, and has said no other step or phase since.
func (j job) standsStill(s *v1alpha1.TrainingJobStatus, since time.Time) bool {
	if !j.trains(s) || s.Progress == nil || s.Progress.Epoch != s.Epoch || j.anyMoved(s, since) {
		return false
	}
	said, _ := j.said(s)
	if said == nil || (said.Phase == s.Progress.Phase && ptr.Equal(said.Step, s.Progress.Step)) {
		return true
	}
	_, unheard := j.activities(s) // of those, one may have said what stands in the status
	return len(unheard) > 0 && ptr.Deref(said.Step, 0) <= ptr.Deref(s.Progress.Step, 0)
}

// anyMoved reports whether a rank has said another step or phase since a time, on a stream on which it had said one before: ranks may count differently.
func (j job) anyMoved(s *v1alpha1.TrainingJobStatus, since time.Time) bool {
	moved := false
	gang.EachRank(j.Effective, func(r gang.Rank) {
		p := j.Pod(r)
		if p != nil && !gang.IsStale(s, p) && p.Training != nil && p.Training.Epoch == s.Epoch && p.Process != nil {
			moved = moved || p.Training.MovedTime.After(instant.Latest(since, p.Process.HeardSince))
		}
	})
	return moved
}

// trains reports whether a gang is there to make steps.
func (j job) trains(s *v1alpha1.TrainingJobStatus) bool {
	return j.Job.Spec.Supervisor != nil && !j.stopped(s) && !j.ExplainsHangs(s) && gang.IsTrue(s, v1alpha1.ConditionRunning)
}

// nextStall is when the next step will be overdue, or a gang that hangs under a rule is looked at again: what its processes do comes without a pass.
func (j job) nextStall(s *v1alpha1.TrainingJobStatus) time.Time {
	switch due, _ := j.stepDue(s); {
	case due.After(j.Now):
		return due
	case j.actsOnStall(s):
		return j.Now.Add(stallPeriod)
	}
	return time.Time{}
}

// actsOnStall reports whether a gang has stalled, and a rule acts on that where what its ranks do shows it, too.
func (j job) actsOnStall(s *v1alpha1.TrainingJobStatus) bool {
	return gang.IsTrue(s, v1alpha1.ConditionStalled) && j.HasRuleFor(v1alpha1.Stalled) && !j.KeepsSurvivors()
}

// stepDue is when each rank that counts steps, and has done so for long enough, has one that is overdue, and the last step; zero where none is expected. The clock of all
// stops while one evaluates, saves a checkpoint, or has ended; while one that counts steps is not heard; and while the gang does not run. It starts at zero after each of these.
func (j job) stepDue(s *v1alpha1.TrainingJobStatus) (due time.Time, step int64) {
	if !j.trains(s) {
		return time.Time{}, 0
	}
	running, expected := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionRunning).LastTransitionTime.Time, true
	moved, longest := j.HangsExplainedUntil(s), time.Duration(0) // of any rank
	gang.EachRank(j.Effective, func(r gang.Rank) {
		p := j.Pod(r)
		if p == nil || !j.IsSupervised(r.Task) || gang.IsStale(s, p) {
			return
		}
		said := p.Training
		if said == nil || said.Epoch != s.Epoch {
			said = &gang.TrainingProgress{}
		}
		expected = expected && gang.ExpectsSteps(p, said)
		if p.Process != nil {
			moved, longest = instant.Latest(moved, said.MovedTime), max(longest, said.Overdue)
		}
		if said.Step != nil && said.Overdue > 0 && p.Process != nil {
			due = instant.Latest(due, instant.Latest(running, said.MovedTime, p.Process.HeardSince).Add(said.Overdue))
			step = max(step, *said.Step)
		}
	})
	if !expected || due.IsZero() {
		return time.Time{}, 0
	}
	return instant.Latest(due, moved.Add(longest)), step
}

// activityStories are what is said of ranks that do something else than the others. Of a rank that uses a processor it may not be known that its GPUs spin.
var activityStories = map[gang.Activity]string{
	gang.ActivityBusy:    "the only rank that is not seen to wait",
	gang.ActivityIdle:    "the only rank that uses no processor",
	gang.ActivityBehind:  "behind in a collective, by NCCL RAS",
	gang.ActivityBlocked: "in the kernel, as for a file system or a device that does not answer",
	gang.ActivityStopped: "stopped, by a signal or a debugger",
}

// spinning is what is said where the processors show nothing.
const spinning = " execute kernels and move no data, as in a collective"

// witness is how good what is said of a gang is: what is said later replaces what is worse. NCCL names the rank, the kernel one that may be, and GPUs that spin name none.
func witness(told string) int {
	for i, story := range []string{activityStories[gang.ActivityBehind], activityStories[gang.ActivityStopped], activityStories[gang.ActivityBlocked], spinning} {
		if strings.HasSuffix(told, story) {
			return 4 - i
		}
	}
	return 0
}

// differing names the ranks that are not heard, or whose processes are stopped or blocked, or else the only one that does something else than all others.
func (j job) differing(s *v1alpha1.TrainingJobStatus) string {
	ranks, unheard := j.activities(s)
	if len(unheard) > 0 {
		return named(unheard, "not heard")
	}
	heard := 0
	for _, names := range ranks {
		heard += len(names)
	}
	for _, a := range []gang.Activity{gang.ActivityStopped, gang.ActivityBlocked, gang.ActivityBehind} {
		switch n := len(ranks[a]); {
		case n == 0:
		case n == heard && n > 1:
			return "; every rank: " + activityStories[a]
		default:
			return named(ranks[a], activityStories[a])
		}
	}
	return waiting(ranks, heard)
}

// waiting says what is known of ranks none of which is stopped, blocked or behind.
func waiting(ranks map[gang.Activity][]string, heard int) string {
	busy, idle, spin := len(ranks[gang.ActivityBusy]), len(ranks[gang.ActivityIdle]), len(ranks[gang.ActivitySpinning])
	only, told := heard >= 3 && busy+idle+spin == heard, ""
	switch {
	case only && busy == 1:
		return named(ranks[gang.ActivityBusy], activityStories[gang.ActivityBusy])
	case only && idle == 1:
		told = named(ranks[gang.ActivityIdle], activityStories[gang.ActivityIdle])
	}
	switch {
	case spin > 0 && idle+spin == heard:
		return fmt.Sprintf("%s; the GPUs of all ranks that use a processor%s", told, spinning)
	case told != "":
		return told
	case len(ranks) > 1:
		return fmt.Sprintf("; %d ranks use a processor, %d wait", busy, idle+spin)
	}
	return "; the processes of all ranks do the same"
}

// activities are the pods of supervised ranks by what their processes do, and those that are not heard.
func (j job) activities(s *v1alpha1.TrainingJobStatus) (ranks map[gang.Activity][]string, unheard []string) {
	ranks = map[gang.Activity][]string{}
	does := j.Activities(s)
	gang.EachRank(j.Effective, func(r gang.Rank) {
		switch p := j.Pod(r); {
		case p == nil || !j.IsSupervised(r.Task) || gang.IsStale(s, p) || j.IsNew(s, r, p):
		case p.Process == nil:
			unheard = append(unheard, p.Name)
		default:
			ranks[does(p)] = append(ranks[does(p)], p.Name)
		}
	})
	return ranks, unheard
}

// named says something of ranks.
func named(ranks []string, story string) string {
	more := ""
	if n := len(ranks) - maxRanksTold; n > 0 {
		ranks, more = ranks[:maxRanksTold], fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("; %s%s: %s", strings.Join(ranks, ", "), more, story)
}
