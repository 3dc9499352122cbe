// Epochs: the runs of a supervised gang.

package recovery

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/incident"
	"github.com/lockstep-dev/lockstep/policies/instant"
)

// raiseEpoch begins another run of the gang, once in a decision.
func (e Engine) raiseEpoch(s *v1alpha1.TrainingJobStatus) {
	s.Epoch, s.EpochTime = e.Job.Status.Epoch+1, new(metav1.NewMicroTime(e.Now))
	e.awaitEpoch(s)
}

// awaitEpoch has incidents wait for the present run of the gang: the open ones that have restarted something, and those that stop the gang because of
// a rank that gets another pod, which may have had no step yet.
func (e Engine) awaitEpoch(s *v1alpha1.TrainingJobStatus) {
	for i := range s.Incidents {
		if inc := &s.Incidents[i]; inc.Outcome == "" && (incident.Restarted(inc) || e.renews(s, inc)) {
			inc.Epoch = s.Epoch
		}
	}
}

// renews reports whether a rank without which the others cannot train gets another pod in this decision, and an incident is about it: in a dry run,
// too, where somebody else has deleted the one before.
func (e Engine) renews(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) bool {
	return e.StopsGang(s, inc) && !e.EveryRankOf(inc, func(r gang.Rank) bool {
		return gang.Incarnation(s, r.Task, r.Index) <= gang.Incarnation(&e.Job.Status, r.Task, r.Index)
	})
}

// noteEpoch records of an incident when its gang was stopped, at the barrier and started, as the supervisors tell. Clocks of nodes may
// differ from the manager's: no time is before the incident, or after now.
func (e Engine) noteEpoch(inc *v1alpha1.Incident) {
	if inc.Epoch == 0 {
		return
	}
	var stopped, atBarrier, running time.Time
	resume := int64(-1) // what all were told
	for i := range e.Pods {
		if p := e.Pods[i].Process; p != nil && p.Epoch == inc.Epoch && p.State == gang.ProcessRunning {
			stopped, atBarrier, running = instant.Latest(stopped, p.Stopped), instant.Latest(atBarrier, p.AtBarrier), instant.Latest(running, p.Started)
			if resume < 0 {
				resume = p.ResumeStep
			} else if resume != p.ResumeStep {
				resume = 0
			}
		}
	}
	within := func(at time.Time) *metav1.MicroTime {
		if at.IsZero() {
			return nil
		}
		return new(metav1.NewMicroTime(instant.Earliest(instant.Latest(at, inc.StartTime.Time), e.Now)))
	}
	inc.StoppedTime, inc.BarrierTime, inc.RunningTime = within(stopped), within(atBarrier), within(running)
	if resume > 0 {
		inc.ResumeStep, inc.ResumedFrom = &resume, e.resumedFrom(inc)
	}
}

// resumedFrom says how many ranks were told to read their checkpoints from folders of each scope.
func (e Engine) resumedFrom(inc *v1alpha1.Incident) (from []v1alpha1.ResumeSource) {
	for _, scope := range []v1alpha1.CheckpointScope{v1alpha1.CheckpointScopePod, v1alpha1.CheckpointScopeNode, v1alpha1.CheckpointScopeShared} {
		ranks := int32(0)
		for i := range e.Pods {
			if p := e.Pods[i].Process; p != nil && p.Epoch == inc.Epoch && p.State == gang.ProcessRunning && p.ResumeScope == scope {
				ranks++
			}
		}
		if ranks > 0 {
			from = append(from, v1alpha1.ResumeSource{Scope: scope, Ranks: ranks})
		}
	}
	return from
}

// lostSteps is how many steps before the epoch of an incident are made again; nil where that is not known, as where no program said how far it was
// when the epoch was raised.
func lostSteps(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) *int64 {
	said := s.Progress
	if said == nil || said.Step == nil || inc.ResumeStep == nil || s.EpochTime == nil || said.Epoch >= inc.Epoch ||
		said.UpdateTime.Time.Before(s.EpochTime.Truncate(time.Second)) {
		return nil
	}
	return new(max(0, *said.Step-*inc.ResumeStep))
}

// noteProgress counts, where another epoch begins, the restarts that have left no newer checkpoint.
func (e Engine) noteProgress(s *v1alpha1.TrainingJobStatus) {
	if s.Epoch == e.Job.Status.Epoch {
		return
	}
	byProgram := slices.ContainsFunc(s.Incidents, func(inc v1alpha1.Incident) bool {
		return inc.Trigger == v1alpha1.ProcessFailed && inc.Epoch == s.Epoch && incident.FirstRestart(&inc).Equal(e.Now)
	})
	s.RestartsWithoutProgress = e.RestartsOnceRaised(byProgram)
}

// followRestarts begins another run where a rank gets another pod: the programs of the others have met the old one, and cannot go on
// with the new one, unless they heal themselves. Where no supervisor is heard, the kubelets restart the programs, and only another attempt is another run.
// Another pod then joins the present run, and waits in it for the others once it is heard.
func (e Engine) followRestarts(s *v1alpha1.TrainingJobStatus) {
	before := &e.Job.Status
	if e.Job.Spec.Supervisor == nil || s.Epoch == 0 || gang.Finished(s) || e.KeepsSurvivors() {
		return
	}
	heard := e.AnySupervisor() || e.Now.Before(e.ListensSince.Add(gang.HeardWithin))
	again, renewed := s.Attempt > before.Attempt && before.Attempt > 0, false
	gang.EachRank(e.Effective, func(r gang.Rank) {
		renewed = renewed || (e.IsSupervised(r.Task) && gang.Incarnation(s, r.Task, r.Index) > gang.Incarnation(before, r.Task, r.Index))
	})
	switch {
	case again, renewed && heard:
		e.raiseEpoch(s)
	case renewed:
		e.awaitEpoch(s)
	}
	if before.Epoch == 1 && s.Epoch > 1 {
		e.renewWaiting(s)
	}
}

// renewWaiting asks for new pods of the ranks that still look for a node when their gang leaves its first epoch: the program of a pod that was
// given that one starts at once, and no barrier waits for a rank that has yet to find its first node.
func (e Engine) renewWaiting(s *v1alpha1.TrainingJobStatus) {
	gang.EachRank(e.Effective, func(r gang.Rank) {
		if p := e.Pod(r); p != nil && p.Node == "" && !p.Gated && e.IsSupervised(r.Task) && !gang.IsStale(s, p) {
			e.restart(s, r, v1alpha1.RestartByStep)
		}
	})
}
