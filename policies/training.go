// Training: how far the programs of a gang say that they are. What is done where they make no steps is in stalled.go.

package policies

import (
	"math"
	"math/bits"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// How often progress is written: steps come all the time, and a status that changes is a write that everybody who watches reads.
const (
	progressPeriod   = 5 * time.Minute
	progressNewPhase = 30 * time.Second
)

// longestEstimate is how far ahead an end is still estimated.
const longestEstimate = 10 * 365 * 24 * time.Hour

// progress records how far the programs are, and returns when to do so again. At the end of the job, when it is suspended, and when it stalls, it does so at once.
func (j job) progress(s *v1alpha1.TrainingJobStatus) time.Time {
	said, repeats := j.said(s)
	if said == nil || gang.Finished(&j.Job.Status) {
		return time.Time{}
	}
	begins := func(c string) bool { return gang.IsTrue(s, c) && !gang.IsTrue(&j.Job.Status, c) }
	now := gang.Finished(s) || begins(v1alpha1.ConditionStalled) || begins(v1alpha1.ConditionSuspended)
	if due := progressDue(s.Progress, said); due.After(j.Now) && !now {
		return due
	}
	if !sameProgress(s.Progress, said) {
		said.TrainedStep = trainedStep(s.Progress, said)
		s.Progress = said
	}
	j.countRepeated(s, repeats)
	noteRestore(s, said)
	if gang.Finished(s) {
		return time.Time{}
	}
	return j.Now.Add(progressPeriod)
}

// endEpoch records how far the programs were in an epoch that ends. What the next one does of that, it does again.
func (j job) endEpoch(s *v1alpha1.TrainingJobStatus) {
	was := &j.Job.Status
	if was.Epoch == s.Epoch {
		return
	}
	if said, repeats := j.said(was); said != nil && said.Step != nil {
		said.TrainedStep = trainedStep(s.Progress, said)
		s.Progress = said
		j.countRepeated(s, repeats)
		noteRestore(s, said)
	}
}

// noteRestore records how long the programs of an epoch took to restore with the incidents that began it.
func noteRestore(s *v1alpha1.TrainingJobStatus, said *v1alpha1.ProgressStatus) {
	for i := range s.Incidents {
		if inc := &s.Incidents[i]; inc.Epoch == said.Epoch && inc.Outcome == v1alpha1.OutcomeRecovered && inc.RestoreSeconds == nil {
			inc.RestoreSeconds = said.RestoreSeconds
		}
	}
}

// trainedStep is the step that epochs before that of a progress had reached; nil where it is known what of that is done again.
func trainedStep(was, said *v1alpha1.ProgressStatus) *int64 {
	switch {
	case was == nil:
		return nil
	case was.Epoch < said.Epoch:
		return highest(was.TrainedStep, was.Step)
	}
	return was.TrainedStep
}

// repeats are the first step of an epoch, and how long a step takes.
type repeats struct {
	first *int64
	pace  time.Duration
}

// countRepeated counts the time of the steps that the gang does again as lost, once it is known. Those that the end of the epoch keeps it from
// are left out of the count of the next one. Programs that heal themselves do none.
func (j job) countRepeated(s *v1alpha1.TrainingJobStatus, r repeats) {
	p, a := s.Progress, s.Availability
	if p.TrainedStep == nil || r.first == nil || r.pace <= 0 || a == nil {
		return
	}
	again := *p.TrainedStep - *r.first
	p.TrainedStep = nil
	if again <= 0 || j.KeepsSurvivors() {
		return
	}
	took := TimesAt(a, j.Now).Running // it cannot be longer
	if lost := float64(again) * float64(r.pace); lost < float64(took) {
		took = time.Duration(lost)
	}
	lose(a, v1alpha1.CauseRetrained, took.Milliseconds())
}

// progressDue is when progress may be written again.
func progressDue(was, said *v1alpha1.ProgressStatus) time.Time {
	switch {
	case was == nil:
		return time.Time{}
	case was.Phase != said.Phase || was.Epoch != said.Epoch:
		return was.UpdateTime.Add(progressNewPhase)
	}
	return was.UpdateTime.Add(progressPeriod)
}

// said is what the programs say in the epoch of the gang; nil for nothing. How long a step takes, and which one was the first, is what the rank with
// the highest says: ranks may count other things.
func (j job) said(s *v1alpha1.TrainingJobStatus) (out *v1alpha1.ProgressStatus, again repeats) {
	gang.EachRank(j.Effective, func(r gang.Rank) {
		p := j.Pod(r)
		if p == nil || gang.IsStale(s, p) || p.Training == nil || p.Training.Epoch != s.Epoch || p.Training.IsEmpty() {
			return
		}
		if out == nil {
			out = &v1alpha1.ProgressStatus{Epoch: s.Epoch, UpdateTime: metav1.NewTime(j.Now)}
		}
		rank := p.Training
		if out.Phase == "" {
			out.Phase = rank.Phase
		}
		if rank.Step != nil && (out.Step == nil || *rank.Step > *out.Step) {
			out.Step, again = rank.Step, repeats{rank.FirstStep, rank.StepTime}
			out.RestoreSeconds = j.restored(rank)
		}
		out.TotalSteps, out.CheckpointStep = highest(out.TotalSteps, rank.TotalSteps), highest(out.CheckpointStep, rank.CheckpointStep)
		out.Percent = highest(out.Percent, rank.Percent)
	})
	if out != nil && out.Step != nil && ptr.Deref(out.TotalSteps, 0) > 0 {
		out.Percent = highest(out.Percent, new(percentOf(*out.Step, *out.TotalSteps)))
		if !gang.IsTrue(s, v1alpha1.ConditionStalled) {
			out.EstimatedEndTime = estimatedEnd(j.Now, *out.TotalSteps-*out.Step, again.pace)
		}
	}
	return out, again
}

// restored is how long a program took from its start in the epoch of the gang to its first step. Survivors that are kept were started before.
func (j job) restored(p *gang.TrainingProgress) *int32 {
	if j.KeepsSurvivors() {
		return nil
	}
	return secondsOf(p.FirstStepAfter)
}

// secondsOf is a time in whole seconds, rounded up; nil where it is not known.
func secondsOf(d time.Duration) *int32 {
	if d <= 0 {
		return nil
	}
	return new(int32(min((d-1)/time.Second+1, math.MaxInt32)))
}

// highest is the higher one of two numbers, of which each may not be known.
func highest[N int32 | int64](a, b *N) *N {
	if a == nil || (b != nil && *b > *a) {
		return b
	}
	return a
}

// percentOf is rounded down, so that 100 is the end.
func percentOf(done, of int64) int32 {
	high, low := bits.Mul64(uint64(min(done, of)), 100) // both are 0 or more
	percent, _ := bits.Div64(high, low, uint64(of))
	return int32(percent)
}

// estimatedEnd is when steps that are left will be done; nil where their pace is not known, or where that is too far off to mean anything.
func estimatedEnd(now time.Time, left int64, step time.Duration) *metav1.Time {
	if step <= 0 || left <= 0 || float64(left)*float64(step) > float64(longestEstimate) {
		return nil
	}
	return new(metav1.NewTime(now.Add(time.Duration(left) * step)))
}

// sameProgress reports whether a status says what a later one does, save when. An end that should have come by now is not said any more.
func sameProgress(a, b *v1alpha1.ProgressStatus) bool {
	if a == nil {
		return false
	}
	if end := a.EstimatedEndTime; end != nil && (b.EstimatedEndTime == nil || !end.After(b.UpdateTime.Time)) {
		return false
	}
	return a.Phase == b.Phase && a.Epoch == b.Epoch && ptr.Equal(a.Percent, b.Percent) &&
		ptr.Equal(a.Step, b.Step) && ptr.Equal(a.TotalSteps, b.TotalSteps) && ptr.Equal(a.CheckpointStep, b.CheckpointStep) && ptr.Equal(a.RestoreSeconds, b.RestoreSeconds)
}
